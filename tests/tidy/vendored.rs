//! Vendored files match their lock, and all of them are embedded.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::sources::root;

/// A package of a lock, as `scripts/vendor-console` writes it.
#[derive(Deserialize)]
struct Package {
    version: String,
    licence: String,
    integrity: String,
    files: BTreeMap<String, String>,
}

/// Files that differ from their lock, or that it does not name.
pub fn altered(folder: &str) -> Vec<String> {
    let folder = root().join(folder);
    let lock = std::fs::read_to_string(folder.join("lock.json")).unwrap();
    let packages: BTreeMap<String, Package> = serde_json::from_str(&lock).unwrap();
    let mut found = Vec::new();
    let mut known = BTreeSet::from(["lock.json".to_owned()]);
    for (name, package) in packages {
        let whole = !package.version.is_empty() && !package.licence.is_empty();
        if !whole || !package.integrity.starts_with("sha512-") {
            found.push(format!("{name}: the lock does not say what it is"));
        }
        for (file, expected) in package.files {
            let content = std::fs::read(folder.join(&file)).unwrap_or_default();
            let digest = ring::digest::digest(&ring::digest::SHA256, &content);
            let digest: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
            if digest != expected {
                found.push(format!("{file} of {name}: is not what the lock says"));
            }
            known.insert(file);
        }
    }
    for entry in std::fs::read_dir(&folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !known.contains(&name) {
            found.push(format!("{name}: the lock does not name it"));
        }
    }
    found
}

/// Files of the console that are not embedded.
pub fn not_embedded() -> Vec<String> {
    let list = std::fs::read_to_string(root().join("src/console/files.rs")).unwrap();
    let listed: BTreeSet<_> =
        list.lines().filter_map(|line| line.trim().strip_prefix('"')?.strip_suffix("\",")).collect();
    let folder = root().join("src/console/static");
    let mut folders = vec![folder.clone()];
    let mut found = Vec::new();
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(&folder).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                folders.push(path);
            } else if !listed.contains(&*name) {
                found.push(format!("src/console/static/{name}: add it to src/console/files.rs"));
            }
        }
    }
    found
}
