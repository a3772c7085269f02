//! The tests that `docs/contributing/promises.md` names for its promises.

use std::collections::BTreeMap;

use crate::sources::{Source, package_files, packages, root, rust_files};

const PAGE: &str = "docs/contributing/promises.md";
const HEADER: &str = "| promise | how it is tested |";
/// The suite of the unit tests of all packages. All other suites are folders below `tests/`.
const LIBRARY: &str = "lib";

/// Promises of the table that name no test, or a test that does not exist.
pub fn untested() -> Vec<String> {
    let page = std::fs::read_to_string(root().join(PAGE)).unwrap();
    let table = page.lines().skip_while(|line| *line != HEADER).skip(2);
    let rows: Vec<_> = table.take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() > 20, "{PAGE} has no table {HEADER:?}");
    let mut suites = BTreeMap::new();
    let mut found = Vec::new();
    for row in rows {
        let (promise, tests) = row.trim_matches('|').split_once(" | ").unwrap_or((row, ""));
        let mut named = tests.split('`').skip(1).step_by(2).peekable();
        if named.peek().is_none() {
            found.push(format!("{PAGE}: the promise {:?} names no test", promise.trim()));
        }
        for test in named {
            if !exists(test, &mut suites) {
                found.push(format!("{PAGE}: `{test}` is no test; write suite::function"));
            }
        }
    }
    found
}

/// Whether a suite has a test, given as `suite::function` or `suite::module::function`.
fn exists<'t>(test: &'t str, suites: &mut BTreeMap<&'t str, Vec<Source>>) -> bool {
    let Some((suite, path)) = test.split_once("::") else { return false };
    let sources = || if suite == LIBRARY { package_files() } else { suite_files(suite) };
    let sources = suites.entry(suite).or_insert_with(sources);
    let function = path.rsplit("::").next().unwrap_or(path);
    sources.iter().any(|source| has_test(&source.text, path, function))
}

/// The files of a suite, in any package.
fn suite_files(suite: &str) -> Vec<Source> {
    let folders = packages().into_iter().map(|src| format!("{}tests/{suite}", src.trim_end_matches("src")));
    folders.flat_map(|folder| rust_files(&folder)).collect()
}

/// Whether a file declares a test: a function with a test attribute, a case of a macro that makes tests, or the quoted
/// name of a trial, with its modules or without.
fn has_test(text: &str, path: &str, function: &str) -> bool {
    if text.contains(&format!("\"{path}\"")) || text.contains(&format!("(\"{function}\", ")) {
        return true;
    }
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let case = format!("{function},");
    let heading = format!("fn {function}(");
    lines.iter().enumerate().any(|(at, line)| {
        *line == case || line.contains(&heading) && attributes_before(&lines[..at]).any(|line| line.contains("test"))
    })
}

/// The attributes directly in front of a function.
fn attributes_before<'l>(lines: &'l [&'l str]) -> impl Iterator<Item = &'l str> {
    lines.iter().rev().copied().take_while(|line| line.starts_with("#[") || line.starts_with("//"))
}

#[test]
fn tests_are_found_in_each_form() {
    let text = "    #[tokio::test]\n    async fn one() {}\n    fn helper() {}\n    cases {\n        two,\n    }\n\
                Trial::test(\"runs::three\", || ());\n(\"four\", four),\n";
    let has = |path: &str, function: &str| has_test(text, path, function);
    assert!(has("one", "one") && has("two", "two") && has("runs::three", "three") && has("checker::four", "four"));
    assert!(!has("helper", "helper") && !has("three", "three") && !has("five", "five"));
}
