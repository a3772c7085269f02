//! The commands of `liststore-operator`, over the real binary. `scripts/test-kubernetes` has it in a cluster.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::process::{Command, Output};

fn operator(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_liststore-operator"))
        .args(arguments)
        .env("KUBECONFIG", "/nowhere/kubeconfig")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .output()
        .unwrap()
}

#[test]
fn the_operator_prints_the_definition_that_is_in_the_kustomization() {
    let printed = operator(&["crd"]);
    assert!(printed.status.success(), "{printed:?}");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../k8s/operator/crd.yaml");
    let committed = std::fs::read_to_string(file).unwrap();
    let definition = |text: &str| text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
    assert_eq!(definition(&String::from_utf8(printed.stdout).unwrap()), definition(&committed));
}

#[test]
fn the_operator_reports_a_missing_cluster() {
    let failed = operator(&["run"]);
    let message = String::from_utf8(failed.stderr).unwrap();
    assert!(!failed.status.success() && message.contains("cannot find a cluster"), "{message}");
}

#[test]
fn the_operator_needs_a_command() {
    assert_eq!(operator(&[]).status.code(), Some(2));
}
