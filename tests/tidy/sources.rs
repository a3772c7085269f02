//! The project's own files, as the tidy tests see them.

use std::path::{Path, PathBuf};

#[derive(Clone)]
pub struct Source {
    /// From the project's root.
    pub path: String,
    pub text: String,
}

impl Source {
    /// The path below the `src/` of its package.
    pub fn below_src(&self) -> &str {
        self.path.split_once("src/").map_or(&self.path, |(_, below)| below)
    }

    /// The top module of its package that a file below `src/` belongs to.
    pub fn module(&self) -> String {
        self.below_src().split('/').next().unwrap().trim_end_matches(".rs").to_owned()
    }

    /// The numbered lines without comments, up to the unit tests at a file's end, which may name anything.
    pub fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .take_while(|(_, line)| *line != "mod tests {")
            .filter(|(_, line)| !line.trim_start().starts_with("//"))
            .map(|(i, line)| (i + 1, line))
    }
}

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder `src` of each package of the workspace, the server's first.
pub fn packages() -> Vec<String> {
    let entries = std::fs::read_dir(root().join("crates")).unwrap();
    let mut others: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .map(|path| format!("crates/{}/src", path.file_name().unwrap().to_str().unwrap()))
        .collect();
    others.sort();
    std::iter::once("src".to_owned()).chain(others).collect()
}

/// The Rust files of all packages, except suites, benches, and shared parts of suites.
pub fn package_files() -> Vec<Source> {
    packages().iter().filter(|folder| *folder != "crates/testkit/src").flat_map(|folder| rust_files(folder)).collect()
}

/// The Rust files below a folder of the project; none if it does not exist.
pub fn rust_files(folder: &str) -> Vec<Source> {
    files(folder, "rs")
}

/// The shell scripts, most of which have no extension.
pub fn scripts() -> Vec<Source> {
    let is_shell = |source: &Source| source.text.starts_with("#!/usr/bin/env bash") || source.path.ends_with(".sh");
    [files("scripts", ""), files("scripts", "sh")].concat().into_iter().filter(is_shell).collect()
}

/// With an empty extension, the files without one.
pub fn files(folder: &str, extension: &str) -> Vec<Source> {
    let mut found = Vec::new();
    walk(&root().join(folder), extension, &mut found);
    found.sort();
    found
        .into_iter()
        .map(|path| Source {
            path: path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned(),
            text: std::fs::read_to_string(&path).unwrap(),
        })
        .collect()
}

fn walk(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap_or_default();
        if path.is_dir() {
            if !matches!(name, "target" | ".git" | "node_modules" | "liststore-data") {
                walk(&path, extension, found);
            }
        } else if path.extension().unwrap_or_default() == extension {
            found.push(path);
        }
    }
}
