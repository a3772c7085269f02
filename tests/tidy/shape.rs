//! The shape of source files and pages: obstacles for readers that no lint finds.

use std::path::Path;

use crate::sources::{Source, files, root, rust_files};

/// rustfmt breaks code here, but neither comments nor texts.
const LINE_CHARS_MAX: usize = 120;
/// More lines than these hold more than one thought.
const FUNCTION_LINES_MAX: usize = 100;

/// Comments that run on behind the margin.
pub fn long_comments(source: &Source) -> Vec<String> {
    let lines = source.text.lines().enumerate();
    lines
        .filter(|(_, line)| line.trim_start().starts_with("//") && line.chars().count() > LINE_CHARS_MAX)
        .filter(|(_, line)| !line.contains("https://"))
        .map(|(i, _)| format!("{}:{}: a comment of more than {LINE_CHARS_MAX} characters", source.path, i + 1))
        .collect()
}

/// Functions that are too long to be read at one go. Their ends are found by rustfmt's indentation.
pub fn long_functions(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    let mut begun: Option<(usize, String)> = None;
    for (i, line) in source.text.lines().enumerate() {
        let indent = &line[..line.len() - line.trim_start().len()];
        let words = line.split(['(', '<']).next().unwrap_or_default();
        if words.split_whitespace().any(|word| word == "fn") && !line.trim_start().starts_with("//") {
            begun = Some((i, format!("{indent}}}")));
        }
        if let Some((first, end)) = &begun
            && line == end
        {
            let length = i - first + 1;
            if length > FUNCTION_LINES_MAX {
                found.push(format!("{}:{}: a function of {length} lines", source.path, first + 1));
            }
            begun = None;
        }
    }
    found
}

/// Grouped imports from the crate's root, which the test of imports does not see through.
pub fn grouped_imports(source: &Source) -> Vec<String> {
    let lines = source.text.lines().enumerate();
    lines
        .filter(|(_, line)| line.starts_with("use crate::{"))
        .map(|(i, _)| format!("{}:{}: import from each room by a line of its own", source.path, i + 1))
        .collect()
}

/// Pipes into a reader that ends at its first match. The writer may then fail, and with it the pipe.
pub fn quiet_greps(source: &Source) -> Vec<String> {
    let lines = source.text.lines().enumerate();
    lines
        .filter(|(_, line)| line.contains("| grep -q"))
        .map(|(i, _)| format!("{}:{}: `grep PATTERN >/dev/null` reads all of a pipe", source.path, i + 1))
        .collect()
}

/// Source files that no module declares, and which are therefore never compiled.
pub fn undeclared(folder: &str) -> Vec<String> {
    let sources = rust_files(folder);
    let declares = |parent: &Path, name: &str| {
        std::fs::read_to_string(root().join(parent))
            .is_ok_and(|text| text.lines().any(|line| declared(line).is_some_and(|module| module == name)))
    };
    let mut found = Vec::new();
    for source in &sources {
        let path = Path::new(&source.path);
        let (folder, stem) = (path.parent().unwrap(), path.file_stem().unwrap().to_str().unwrap());
        let below_src = source.below_src();
        let is_root = matches!(below_src, "main.rs" | "lib.rs") || below_src.starts_with("bin/");
        let (name, folder) = match stem {
            "mod" => (folder.file_name().unwrap().to_str().unwrap(), folder.parent().unwrap()),
            _ => (stem, folder),
        };
        let parents = [folder.join("mod.rs"), folder.join("lib.rs")];
        let is_operation = folder == Path::new("src/operations") && lists_operation(name);
        if !is_root && !is_operation && !parents.iter().any(|parent| declares(parent, name)) {
            found.push(format!("{}: no module declares it", source.path));
        }
    }
    found
}

/// Whether the contract's list of operations, of which the server makes its modules, has this file.
fn lists_operation(name: &str) -> bool {
    let list = std::fs::read_to_string(root().join("crates/contract/src/operations/mod.rs")).unwrap_or_default();
    list.lines().any(|line| line.trim_start().starts_with(&format!("{name}: ")))
}

/// Modules with files next to their folders instead of a `mod.rs`.
pub fn files_next_to_their_folders(folder: &str) -> Vec<String> {
    let has_folder = |source: &&Source| root().join(&source.path).with_extension("").is_dir();
    let sources = rust_files(folder);
    sources
        .iter()
        .filter(has_folder)
        .map(|source| format!("{}: must be the mod.rs of its folder", source.path))
        .collect()
}

/// The module that a line declares, if it does.
fn declared(line: &str) -> Option<&str> {
    let (before, name) = line.strip_suffix(';')?.rsplit_once("mod ")?;
    (before.is_empty() || before.starts_with("pub")).then_some(name)
}

/// Code spans of Markdown pages that look like a missing file or folder of the project.
pub fn lost_code_spans() -> Vec<String> {
    let mut known: Vec<String> = Vec::new();
    for extension in ["rs", "md", "sql", "cql", "toml", "py", "xml", "csv", "svg", "yaml", "json"] {
        known.extend(files("", extension).into_iter().map(|file| file.path));
    }
    let mut lost = Vec::new();
    for page in files("", "md") {
        let saved = saved_files(&page.text);
        let named = code_spans(&page.text).filter(|span| names_a_file(span) && !saved.contains(&span.as_str()));
        for span in named {
            let wanted = format!("/{}", span.trim_end_matches('/'));
            let exists = root().join(&span).exists()
                || known.iter().any(|path| {
                    format!("/{path}").ends_with(&wanted) || format!("/{path}").contains(&format!("{wanted}/"))
                });
            if !exists {
                lost.push(format!("{}: `{span}` is no file of the project", page.path));
            }
        }
    }
    lost
}

/// The files that a page has its reader save: the last code span in the line before a block is the name.
fn saved_files(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    let names = lines.windows(2).filter(|pair| pair[1].starts_with("```") && pair[1] != "```");
    names.filter_map(|pair| pair[0].split('`').skip(1).step_by(2).last()).collect()
}

/// The code spans outside code blocks.
fn code_spans(text: &str) -> impl Iterator<Item = String> {
    let mut in_block = false;
    let prose = text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        in_block ^= fence;
        !in_block && !fence
    });
    prose.flat_map(|line| line.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>())
}

fn names_a_file(span: &str) -> bool {
    let plain = span.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
    let by_extension = [".rs", ".sql", ".cql", ".py"].iter().any(|extension| span.ends_with(extension));
    let by_folder =
        ["src/", "crates/", "tests/", "scripts/", "docs/", "benches/", "migrations/", "metadata_sql/", "examples/"]
            .iter()
            .any(|folder| span.starts_with(folder));
    plain && (by_extension || by_folder)
}
