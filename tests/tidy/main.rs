//! Keeps the house in order: the invariants of ARCHITECTURE.md that a compiler does not check.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod comments;
mod cycles;
mod language;
mod links;
mod promises;
mod shape;
mod sources;
mod vendored;
mod versions;

use liststore_testkit::language as phrases;
use sources::{Source, package_files, packages, rust_files};

/// The siblings that each module of the server may name: `main → cli → app → http → operations → api
/// → service → {actors, backup} → {access, items, metadata} → domain`, with `wire` next to them.
const MAY_USE: [(&str, &[&str]); 30] = [
    ("domain", &[]),
    ("items", &["domain", "tls_files"]),
    // The audit trail keeps definitions as replies show them.
    ("metadata", &["wire", "domain"]),
    ("access", &["domain"]),
    ("actors", &["access", "items", "metadata", "domain"]),
    ("background", &["actors", "items", "metadata", "domain"]),
    ("backup", &["data_dir", "items", "metadata", "domain"]),
    ("data_dir", &["items", "metadata", "domain"]),
    ("admin_socket", &[]),
    ("scheduling", &[]),
    ("tls_files", &[]),
    ("left_out", &[]),
    ("telemetry", &["domain"]),
    ("wire", &["domain"]),
    ("service", &["access", "actors", "background", "backup", "items", "metadata", "telemetry", "wire", "domain"]),
    ("console", &[]),
    (
        "api",
        &[
            "console",
            "service",
            "access",
            "actors",
            "background",
            "backup",
            "items",
            "metadata",
            "wire",
            "domain",
            "telemetry",
            "tls_files",
        ],
    ),
    ("permission", &["domain"]),
    ("row", &["permission", "wire"]),
    (
        "operations",
        &[
            "api",
            "service",
            "access",
            "actors",
            "background",
            "backup",
            "items",
            "metadata",
            "permission",
            "row",
            "wire",
            "domain",
            "telemetry",
        ],
    ),
    ("http", &["api", "operations", "access", "domain"]),
    ("config", &["access", "domain", "metadata", "telemetry"]),
    (
        "app",
        &[
            "access",
            "admin_socket",
            "api",
            "http",
            "operations",
            "service",
            "wire",
            "actors",
            "background",
            "backup",
            "data_dir",
            "items",
            "metadata",
            "domain",
            "config",
            "scheduling",
            "telemetry",
            "tls_files",
            "left_out",
        ],
    ),
    ("client", &["access", "admin_socket", "tls_files", "wire", "domain"]),
    ("typed_times", &["domain"]),
    ("import", &["client", "typed_times", "wire", "domain"]),
    ("transfer", &["client", "import", "typed_times", "wire", "domain"]),
    ("loadgen", &["client", "wire", "domain"]),
    (
        "cli",
        &[
            "access",
            "admin_socket",
            "app",
            "client",
            "import",
            "transfer",
            "loadgen",
            "wire",
            "actors",
            "backup",
            "items",
            "metadata",
            "domain",
            "config",
            "telemetry",
            "typed_times",
            "left_out",
        ],
    ),
    ("main", &["cli"]),
];

/// Where a package may be named, by the start of a path below the `src/` of the package that names it.
const CONFINED: [(&str, &[&str]); 10] = [
    ("actix", &["actors/", "api/", "app/"]),
    ("actix_web", &["actors/", "api/", "app/", "http/", "operations/"]),
    ("actix_http", &["api/", "http/"]),
    ("actix_service", &["http/"]),
    ("utoipa", &["wire/", "operations/"]),
    ("scylla", &["items/cql/"]),
    ("sqlx", &["metadata/postgres/"]),
    ("jiff", &["typed_times/"]),
    ("redb", &["metadata/embedded/"]),
    ("libmimalloc_sys", &["main.rs"]),
];

fn complaints(check: impl Fn(&Source) -> Vec<String>) -> Vec<String> {
    package_files().iter().flat_map(check).collect()
}

#[track_caller]
fn assert_none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn imports_point_inwards() {
    let check = |source: &Source| {
        let Some((_, allowed)) = MAY_USE.iter().find(|(module, _)| *module == source.module()) else {
            return if source.module() == "lib" { vec![] } else { vec![format!("{}: add it to MAY_USE", source.path)] };
        };
        let siblings = MAY_USE.map(|(module, _)| module);
        source
            .code_lines()
            .filter_map(|(number, line)| {
                let used = siblings.iter().find(|sibling| {
                    line.contains(&format!("crate::{sibling}")) || line.contains(&format!("liststore::{sibling}"))
                })?;
                let fine = *used == source.module() || allowed.contains(used);
                (!fine).then(|| format!("{}:{number}: {} must not use {used}", source.path, source.module()))
            })
            .collect()
    };
    let is_in_table = |source: &Source| ["import", "typed_times"].contains(&source.module().as_str());
    let transfer = rust_files("crates/transfer/src").into_iter().filter(is_in_table);
    assert_none(rust_files("src").into_iter().chain(transfer).flat_map(|source| check(&source)).collect());
}

#[test]
fn frameworks_and_engines_are_named_in_their_places_only() {
    assert_none(complaints(|source| {
        let below_src = source.below_src();
        let mut found = Vec::new();
        for (package, places) in CONFINED {
            if places.iter().any(|place| below_src.starts_with(place)) {
                continue;
            }
            for (number, line) in source.code_lines() {
                if [format!("{package}::"), format!("use {package}"), format!("extern crate {package}")]
                    .iter()
                    .any(|naming| names(line, naming))
                {
                    found.push(format!("{}:{number}: {package} may be named in {places:?} only", source.path));
                }
            }
        }
        found
    }));
}

#[test]
fn unsafe_code_is_in_one_file() {
    assert_none(complaints(|source| {
        let is_unsafe = |line: &str| names(line, "unsafe") || names(line, "unsafe_code");
        let found = source.code_lines().filter(|(_, line)| source.path != "src/main.rs" && is_unsafe(line));
        found.map(|(number, _)| format!("{}:{number}: only src/main.rs may be unsafe", source.path)).collect()
    }));
}

/// Whether the line has `naming` as a separate path, not as the end of a longer identifier.
fn names(line: &str, naming: &str) -> bool {
    line.match_indices(naming).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + naming.len()..].chars().next();
        let is_part_of_name = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !is_part_of_name(before) && before != Some(':') && (naming.ends_with("::") || !is_part_of_name(after))
    })
}

#[test]
fn the_wall_clock_is_read_in_one_place() {
    assert_none(complaints(|source| {
        if source.path == "crates/contract/src/domain/clock.rs" {
            return vec![];
        }
        let clocks = ["SystemTime::now", "now_utc()", "now_local()", "Utc::now", "Local::now", "UNIX_EPOCH.elapsed"];
        source
            .code_lines()
            .filter(|(_, line)| clocks.iter().any(|clock| line.contains(clock)))
            .map(|(number, _)| format!("{}:{number}: reads the wall clock; take a domain::Clock", source.path))
            .collect()
    }));
}

#[test]
fn routes_never_see_an_actors_address() {
    assert_none(complaints(|source| {
        if !["src/api/", "src/http/", "src/operations/"].iter().any(|room| source.path.starts_with(room)) {
            return vec![];
        }
        source
            .code_lines()
            .filter(|(_, line)| names(line, "Addr") && !line.contains("SocketAddr") || line.contains("Recipient<"))
            .map(|(number, _)| format!("{}:{number}: holds an actor's address; take a handle", source.path))
            .collect()
    }));
}

#[test]
fn only_the_composition_root_and_the_commands_read_settings() {
    assert_none(complaints(|source| {
        if ["app", "cli", "config"].contains(&source.module().as_str()) {
            return vec![];
        }
        source
            .code_lines()
            .filter(|(_, line)| line.contains("env::var") || line.contains("Settings"))
            .map(|(number, _)| format!("{}:{number}: reads settings; take an options struct", source.path))
            .collect()
    }));
}

#[test]
fn every_file_has_a_module_comment() {
    let files: Vec<_> = ["src", "crates", "tests", "benches"].into_iter().flat_map(rust_files).collect();
    assert!(files.len() > 20, "the walk found too little");
    let silent = files.iter().filter(|source| !source.text.starts_with("//!"));
    assert_none(silent.map(|source| format!("{}: does not open with //!", source.path)).collect());
}

#[test]
fn no_file_has_open_tasks() {
    let files: Vec<_> = ["src", "crates", "tests", "benches"].into_iter().flat_map(rust_files).collect();
    // A test that a parent test runs as a separate process is marked as such, and is not left out.
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X:"), concat!("#[ign", "ore]")];
    assert_none(
        files
            .iter()
            .flat_map(|source| source.text.lines().enumerate().map(move |(i, line)| (source, i + 1, line)))
            .filter(|(_, _, line)| marks.iter().any(|mark| line.contains(mark)))
            .map(|(source, number, line)| format!("{}:{number}: {}", source.path, line.trim()))
            .collect(),
    );
}

#[test]
fn relative_links_resolve() {
    assert_none(links::broken());
}

#[test]
fn messages_help_and_the_console_are_plain_english() {
    let texts = [language::unclear_messages(), language::unclear_help(), language::unclear_console()];
    assert_none(texts.concat());
}

#[test]
fn comments_are_plain_english() {
    assert_none(comments::unclear());
}

#[test]
fn pages_are_plain_english() {
    assert_none(language::unclear_pages());
}

#[test]
fn every_promise_names_tests_that_exist() {
    assert_none(promises::untested());
}

#[test]
fn code_spans_name_files_that_exist() {
    assert_none(shape::lost_code_spans());
}

#[test]
fn every_source_file_is_part_of_the_crate() {
    assert_none(packages().iter().flat_map(|folder| shape::undeclared(folder)).collect());
}

#[test]
fn files_of_a_room_do_not_use_each_other_in_circles() {
    assert_none(cycles::circles());
}

#[test]
fn modules_with_files_are_folders_with_a_mod_file() {
    assert_none(packages().iter().flat_map(|folder| shape::files_next_to_their_folders(folder)).collect());
}

#[test]
fn functions_and_lines_are_short() {
    let files: Vec<_> = ["src", "crates", "tests", "benches"].into_iter().flat_map(rust_files).collect();
    assert_none(
        files
            .iter()
            .flat_map(|source| [shape::long_comments(source), shape::long_functions(source)].concat())
            .collect(),
    );
}

#[test]
fn scripts_read_pipes_to_their_end() {
    let scripts = sources::scripts();
    assert!(scripts.iter().any(|script| script.path == "scripts/test"), "scripts are found");
    assert_none(scripts.iter().flat_map(shape::quiet_greps).collect());
}

#[test]
fn imports_name_one_room_a_line() {
    assert_none(complaints(shape::grouped_imports));
}

#[test]
fn vendored_files_match_their_lock() {
    for folder in ["src/console/static/vendor", "tests/console/vendor"] {
        assert_none(vendored::altered(folder));
    }
}

#[test]
fn every_file_of_the_console_is_embedded() {
    assert_none(vendored::not_embedded());
}
