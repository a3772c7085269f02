//! Dependencies are what `deny.toml` allows: by their licences, and by where they come from.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;
use spdx::{Expression, ParseMode};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// What `cargo metadata` tells of the packages that are built for this machine.
fn packages() -> Vec<Value> {
    let host = Command::new("rustc").arg("-vV").output().unwrap();
    let host = String::from_utf8(host.stdout).unwrap();
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let told = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", host])
        .current_dir(ROOT)
        .output()
        .unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    told["packages"].as_array().unwrap().clone()
}

#[test]
fn licences_and_sources_of_dependencies_are_those_that_deny_toml_allows() {
    let rules: toml::Value = toml::from_str(&std::fs::read_to_string(format!("{ROOT}/deny.toml")).unwrap()).unwrap();
    let allowed: BTreeSet<&str> =
        rules["licenses"]["allow"].as_array().unwrap().iter().map(|licence| licence.as_str().unwrap()).collect();
    let (mut refused, mut used) = (Vec::new(), BTreeSet::new());
    let packages = packages();
    assert!(packages.len() > 300, "{} packages", packages.len());
    for package in &packages {
        let name = package["name"].as_str().unwrap();
        // Our own has no source.
        if let Some(source) = package["source"].as_str()
            && !source.starts_with("registry+")
        {
            refused.push(format!("{name} is from {source}"));
        }
        let licence = package["license"].as_str().unwrap_or_default();
        let expression = Expression::parse_mode(licence, ParseMode::LAX);
        let is_allowed = expression.is_ok_and(|expression| {
            expression.evaluate(|wanted| {
                let id = wanted.license.id().map(|id| id.name);
                used.extend(id);
                id.is_some_and(|id| allowed.contains(id))
            })
        });
        if !is_allowed {
            refused.push(format!("{name} has the licence {licence:?}"));
        }
    }
    assert!(refused.is_empty(), "deny.toml does not allow: {refused:?}");
    let unused: Vec<_> = allowed.iter().filter(|licence| !used.contains(**licence)).collect();
    assert!(unused.is_empty(), "deny.toml allows what nothing has: {unused:?}");
}
