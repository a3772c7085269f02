//! Comments are plain English: see [`crate::phrases`] for the banned phrases. Each room (a module, package or suite)
//! has a limit.

use std::collections::BTreeMap;

use crate::phrases::banned;
use crate::sources::{Source, files, root};

/// A room may have this many banned phrases per 1,000 words of comments.
const PHRASES_PER_THOUSAND_WORDS: usize = 2;
/// Small rooms may have this many.
const PHRASES_MIN: usize = 1;

/// Rooms that exceed the limit, with their counts. A count may only fall.
const DEBT: &str = "tests/tidy/comments.txt";
/// With any value, the test writes the current counts to [`DEBT`].
const WRITE_VARIABLE: &str = "LISTSTORE_WRITE_LANGUAGE_DEBT";

const SLASHES: &[&str] = &["//", "/*", "*"];
const HASH: &[&str] = &["#"];
/// Folders, an extension of their files, and the starts of comment lines in them. Scripts have no extension.
const COMMENTED: [(&str, &str, &[&str]); 14] = [
    ("src", "rs", &["//"]),
    ("crates", "rs", &["//"]),
    ("tests", "rs", &["//"]),
    ("benches", "rs", &["//"]),
    ("src/console/static", "js", SLASHES),
    ("examples", "ts", SLASHES),
    ("examples", "go", SLASHES),
    ("scripts", "go", SLASHES),
    ("scripts", "", HASH),
    ("scripts", "py", HASH),
    ("scripts", "toml", HASH),
    ("clients", "py", HASH),
    ("k8s", "yaml", HASH),
    ("packaging", "toml", HASH),
];

#[derive(Default)]
struct Room {
    words: usize,
    phrases: usize,
    /// Some of the counted phrases.
    examples: Vec<String>,
}

impl Room {
    fn allowed(&self) -> usize {
        (self.words * PHRASES_PER_THOUSAND_WORDS / 1000).max(PHRASES_MIN)
    }
}

/// Rooms whose comments have more banned phrases than allowed.
pub fn unclear() -> Vec<String> {
    let rooms = read();
    if std::env::var_os(WRITE_VARIABLE).is_some() {
        let owing = rooms.iter().filter(|(_, room)| room.phrases > room.allowed());
        let lines = owing.map(|(name, room)| format!("{} {name}\n", room.phrases));
        std::fs::write(root().join(DEBT), lines.collect::<String>()).unwrap();
    }
    let text = std::fs::read_to_string(root().join(DEBT)).unwrap();
    let debt: BTreeMap<_, usize> = text.lines().map(known_debt).collect();
    let mut found = Vec::new();
    for (name, room) in &rooms {
        let allowed = room.allowed().max(debt.get(name.as_str()).copied().unwrap_or_default());
        if room.phrases > allowed {
            let (phrases, examples) = (room.phrases, room.examples.join(", "));
            found.push(format!("{name}: {phrases} banned phrases in comments (at most {allowed}); {examples}"));
        }
    }
    found
}

/// The rooms by name.
fn read() -> BTreeMap<String, Room> {
    let mut rooms = BTreeMap::<String, Room>::new();
    for (source, starts) in sources() {
        let room = rooms.entry(room_of(&source.path)).or_default();
        for (i, line) in source.text.lines().enumerate() {
            let line = line.trim_start();
            let Some(comment) = starts.iter().find_map(|start| line.strip_prefix(start)) else { continue };
            room.words += comment.split_whitespace().count();
            for (phrase, instead) in banned(comment) {
                room.phrases += 1;
                if room.examples.len() < 5 {
                    room.examples.push(format!("{}:{}: `{phrase}` (write {instead})", source.path, i + 1));
                }
            }
        }
    }
    assert!(rooms.len() > 20, "the walk found {} rooms", rooms.len());
    rooms
}

/// All sources of the project, with the starts of their comment lines.
fn sources() -> impl Iterator<Item = (Source, &'static [&'static str])> {
    let found = |(folder, extension, starts): (&str, &str, &'static [&'static str])| {
        let sources = files(folder, extension);
        assert!(!sources.is_empty(), "the walk found no .{extension} in {folder}");
        sources.into_iter().map(move |source| (source, starts))
    };
    COMMENTED.into_iter().flat_map(found).filter(|(source, _)| !source.path.contains("/vendor/"))
}

/// The first two parts of a path: `src/api`, `crates/engine`, `tests/cli`. Single files of `src` are one room.
fn room_of(path: &str) -> String {
    let parts: Vec<_> = path.split('/').collect();
    match parts[..] {
        [top, _] | [top] => top.to_owned(),
        [top, room, ..] => format!("{top}/{room}"),
        [] => String::new(),
    }
}

fn known_debt(line: &str) -> (&str, usize) {
    let (count, name) = line.split_once(' ').unwrap();
    (name, count.parse().unwrap())
}

#[test]
fn rooms_are_the_first_two_parts_of_a_path() {
    assert_eq!(
        ["src/lib.rs", "src/api/json.rs", "crates/engine/src/row/mod.rs"].map(room_of),
        ["src", "src/api", "crates/engine"]
    );
}
