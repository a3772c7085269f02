//! Finds files and folders of a module that use each other in a circle: none of them can be read, or tested, first.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::{Source, packages, rust_files};

/// A name by its path from the crate's root: `["items", "StoreError"]`.
type Path = Vec<String>;

/// For each folder of a package with a circle among its files: the names in the circle. A `mod.rs` stands for its
/// folder and is not part of a circle in it. Its re-exports count as their sources.
pub fn circles() -> Vec<String> {
    packages().iter().flat_map(|package| circles_of(package)).collect()
}

fn circles_of(package: &str) -> Vec<String> {
    let sources = rust_files(package);
    let handed_on = handed_on(&sources);
    let folders: BTreeSet<Vec<&str>> = sources.iter().flat_map(|source| ancestors(&segments(source))).collect();
    let mut found = Vec::new();
    for folder in &folders {
        let circle = circle_in(folder, &sources, &handed_on);
        if !circle.is_empty() {
            found.push(format!("{package}/{}: {} use each other", folder.join("/"), circle.join(", ")));
        }
    }
    found
}

/// The module path of a file: `items::cql::add` for `src/items/cql/add.rs`.
fn segments(source: &Source) -> Vec<&str> {
    source.below_src().trim_end_matches(".rs").split('/').collect()
}

fn ancestors<'a>(path: &[&'a str]) -> Vec<Vec<&'a str>> {
    (0..path.len()).map(|length| path[..length].to_vec()).collect()
}

fn circle_in(folder: &[&str], sources: &[Source], handed_on: &BTreeMap<Path, Path>) -> Vec<String> {
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources {
        let path = segments(source);
        let is_below = path.len() > folder.len() && path.starts_with(folder);
        if !is_below || matches!(path[folder.len()], "mod" | "lib" | "main") {
            continue;
        }
        let used = used_paths(source).into_iter().map(|used| origin(used, handed_on));
        let used = used.filter(|used| used.len() > folder.len());
        let siblings =
            used.filter(|used| used.iter().zip(folder).all(|(a, b)| a == b)).map(|used| used[folder.len()].clone());
        uses.entry(path[folder.len()].to_owned()).or_default().extend(siblings);
    }
    // A file that uses no remaining file, or that no remaining file uses, is in no circle.
    loop {
        let names: BTreeSet<String> = uses.keys().cloned().collect();
        let others = |name: &String| uses[name].iter().any(|used| used != name && names.contains(used));
        let is_used = |name: &String| uses.iter().any(|(user, used)| user != name && used.contains(name));
        let free: Vec<String> = names.iter().filter(|name| !others(name) || !is_used(name)).cloned().collect();
        if free.is_empty() {
            return names.into_iter().collect();
        }
        free.iter().for_each(|name| drop(uses.remove(name)));
    }
}

/// The names that `mod.rs` files re-export, and their sources.
fn handed_on(sources: &[Source]) -> BTreeMap<Path, Path> {
    let modules: BTreeSet<Path> = sources.iter().map(module).collect();
    let mut found = BTreeMap::new();
    for source in sources.iter().filter(|source| segments(source).last() == Some(&"mod")) {
        let here = module(source);
        for import in imports(&code(source)) {
            let (path, alias) = import.split_once('@').map_or((&*import, None), |(path, alias)| (path, Some(alias)));
            let Some(from) = absolute(path, &here, &modules) else { continue };
            let name = alias.or(from.last().map(String::as_str)).unwrap_or_default();
            let here: Path = here.iter().cloned().chain([name.to_owned()]).collect();
            if here != from && !modules.contains(&here) {
                found.insert(here, from);
            }
        }
    }
    found
}

/// The source of a name that may be re-exported several times.
fn origin(mut path: Path, handed_on: &BTreeMap<Path, Path>) -> Path {
    const TIMES_MAX: usize = 8;
    for _ in 0..TIMES_MAX {
        let known = (1..=path.len()).find_map(|length| handed_on.get(&path[..length]).map(|from| (length, from)));
        let Some((length, from)) = known else { break };
        path = from.iter().chain(&path[length..]).cloned().collect();
    }
    path
}

/// A path from the crate's root, unless it leads out of the crate.
fn absolute(path: &str, here: &[String], modules: &BTreeSet<Path>) -> Option<Path> {
    let mut segments = path.split("::").peekable();
    let mut from = here.to_vec();
    match *segments.peek()? {
        "crate" => {
            from.clear();
            segments.next();
        }
        "self" => drop(segments.next()),
        "super" => {
            while segments.next_if_eq(&"super").is_some() {
                from.pop();
            }
        }
        child => {
            let below: Path = here.iter().cloned().chain([child.to_owned()]).collect();
            modules.contains(&below).then_some(())?;
        }
    }
    Some(from.into_iter().chain(segments.map(str::to_owned)).collect())
}

/// The imports of a text, one path each. `a::b@c` stands for `a::b as c`.
fn imports(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for statement in code.split(';') {
        let Some(at) =
            statement.rfind("use ").filter(|at| *at == 0 || !statement[..*at].ends_with(char::is_alphanumeric))
        else {
            continue;
        };
        let text: String = statement[at + 4..].replace(" as ", "@").split_whitespace().collect();
        ungroup("", &text, &mut found);
    }
    found
}

/// Expands `a::{b, c::{d, e}}`.
fn ungroup(prefix: &str, text: &str, found: &mut Vec<String>) {
    let Some((head, group)) = text.split_once('{') else {
        found.push(format!("{prefix}{text}"));
        return;
    };
    let (prefix, group) = (format!("{prefix}{head}"), group.strip_suffix('}').unwrap_or(group));
    let (mut depth, mut begin) = (0, 0);
    for (at, c) in group.char_indices().chain([(group.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if at > begin {
                    ungroup(&prefix, &group[begin..at], found);
                }
                begin = at + 1;
            }
            _ => {}
        }
    }
}

fn code(source: &Source) -> String {
    source.code_lines().map(|(_, line)| format!("{line}\n")).collect()
}

/// The module that a file holds.
fn module(source: &Source) -> Path {
    segments(source).into_iter().filter(|segment| *segment != "mod").map(str::to_owned).collect()
}

/// The names of a file that begin with `crate::` and `super::`, as paths from the crate's root.
fn used_paths(source: &Source) -> Vec<Path> {
    let (code, module) = (code(source), module(source));
    let mut found = Vec::new();
    for root in ["crate::", "super::"] {
        for (at, _) in code.match_indices(root) {
            let is_part_of_name =
                code[..at].ends_with("::") || code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            if is_part_of_name {
                continue;
            }
            let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
            let rest = &code[at..];
            let text = &rest[..rest.find(|c| !is_path(c)).unwrap_or(rest.len())];
            let group =
                rest[text.len()..].strip_prefix('{').and_then(|rest| rest.split_once('}')).map(|(group, _)| group);
            let mut path = if root == "crate::" { Vec::new() } else { module.clone() };
            for segment in text.split("::").filter(|segment| !segment.is_empty() && *segment != "crate") {
                match segment {
                    "super" => drop(path.pop()),
                    name => path.push(name.to_owned()),
                }
            }
            for name in group.map_or(vec![""], |group| group.split(',').collect()) {
                let first = name.trim().split("::").next().unwrap_or_default();
                let whole = path.iter().cloned().chain((!first.is_empty()).then(|| first.to_owned()));
                found.push(whole.collect());
            }
        }
    }
    found
}

#[test]
fn re_exports_of_a_mod_file_are_followed() {
    let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let sources = [
        source(
            "src/a/mod.rs",
            "mod one;\nmod other;\npub use one::{One, deep::{Two, Three as Four}};\nuse std::fmt;\n",
        ),
        source("src/a/one.rs", "use super::Other;\n"),
        source("src/a/other.rs", "use super::Four;\n"),
    ];
    let handed_on = handed_on(&sources);
    let path = |text: &str| -> Path { text.split("::").map(str::to_owned).collect() };
    assert_eq!(origin(path("a::Four::new"), &handed_on), path("a::one::deep::Three::new"));
    assert_eq!(origin(path("a::fmt"), &handed_on), path("a::fmt"));
    assert_eq!(circle_in(&["a"], &sources, &handed_on), [""; 0]);
    let mut sources = sources;
    sources[0].text.push_str("pub use other::Other;\n");
    assert_eq!(circle_in(&["a"], &sources, &super::cycles::handed_on(&sources)), ["one", "other"]);
}
