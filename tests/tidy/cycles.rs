//! Files and folders of a room that use each other in a circle: none of them can be read, or tested, first.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::{Source, rust_files};

/// For each folder below `src` with a circle among what lies in it: the names in the circle. A `mod.rs`
/// speaks for its folder and is no part of a circle in it.
pub fn circles() -> Vec<String> {
    let sources = rust_files("src");
    let folders: BTreeSet<Vec<&str>> = sources.iter().flat_map(|source| ancestors(&segments(source))).collect();
    let mut found = Vec::new();
    for folder in &folders {
        let circle = circle_in(folder, &sources);
        if !circle.is_empty() {
            found.push(format!("src/{}: {} use each other", folder.join("/"), circle.join(", ")));
        }
    }
    found
}

/// The module path of a file: `items::cql::add` for `src/items/cql/add.rs`.
fn segments(source: &Source) -> Vec<&str> {
    let below = source.path.strip_prefix("src/").unwrap().trim_end_matches(".rs");
    below.split('/').collect()
}

fn ancestors<'a>(path: &[&'a str]) -> Vec<Vec<&'a str>> {
    (0..path.len()).map(|length| path[..length].to_vec()).collect()
}

fn circle_in(folder: &[&str], sources: &[Source]) -> Vec<String> {
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources {
        let path = segments(source);
        let is_below = path.len() > folder.len() && path.starts_with(folder);
        if !is_below || matches!(path[folder.len()], "mod" | "lib" | "main") {
            continue;
        }
        let used = used_paths(source).into_iter().filter(|used| used.len() > folder.len());
        let siblings =
            used.filter(|used| used.iter().zip(folder).all(|(a, b)| a == b)).map(|used| used[folder.len()].clone());
        uses.entry(path[folder.len()].to_owned()).or_default().extend(siblings);
    }
    // What uses nothing that is left, or is used by nothing that is left, is in no circle.
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

/// What a file names by `crate::` and `super::`, as paths from the crate's root.
fn used_paths(source: &Source) -> Vec<Vec<String>> {
    let code: String = source.code_lines().map(|(_, line)| format!("{line}\n")).collect();
    let mut module: Vec<String> = segments(source).into_iter().map(str::to_owned).collect();
    module.retain(|segment| segment != "mod");
    let mut found = Vec::new();
    for root in ["crate::", "super::"] {
        for (at, _) in code.match_indices(root) {
            let goes_on = code[..at].ends_with("::") || code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            if goes_on {
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
