//! The version of the workspace, in the files that repeat it.

use std::fs;
use std::path::Path;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Files, the text before the version, and how often it occurs.
const REPEATED: [(&str, &str, usize); 10] = [
    ("README.md", "**Maturity.** Version ", 1),
    ("Dockerfile", "ARG VERSION=", 2),
    ("clients/feast/pyproject.toml", "\nversion = \"", 1),
    ("docs/explanation/alternatives.md", "this is version ", 1),
    ("docs/howto/operate/install.md", "liststore_", 2),
    ("docs/howto/operate/install.md", "liststore:", 2),
    ("docs/howto/operate/install.md", "oci-archive:liststore-", 1),
    ("docs/howto/operate/kubernetes.md", "newTag: ", 1),
    ("docs/howto/operate/kubernetes.md", "images.example.org/liststore:", 2),
    ("docs/howto/operate/kubernetes-cluster.md", "images.example.org/liststore-operator:", 2),
];

#[test]
fn files_repeat_the_version_of_the_workspace() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let count = |file: &str, text: &str| fs::read_to_string(root.join(file)).unwrap().matches(text).count();
    let differing = REPEATED.iter().filter(|(file, before, times)| {
        count(file, &format!("{before}{VERSION}")) != *times || count(file, before) != *times
    });
    let differing: Vec<_> = differing.map(|(file, before, _)| format!("{file}: {before}…")).collect();
    assert!(differing.is_empty(), "these do not state the version {VERSION} of Cargo.toml: {differing:#?}");
}
