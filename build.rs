//! Names the commit that the program is built from, for `liststore --version`.
//!
//! `LISTSTORE_COMMIT` names it where there is no checkout, as in a tarball of the sources. Debug builds name none: each
//! commit would compile the library again.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=LISTSTORE_COMMIT");
    let named = std::env::var("LISTSTORE_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = named.or_else(|| if is_debug() { Some("none (debug build)".to_owned()) } else { checked_out() });
    println!("cargo:rustc-env=LISTSTORE_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
}

fn is_debug() -> bool {
    std::env::var("PROFILE").is_ok_and(|profile| profile == "debug")
}

/// The commit of the checkout, which changes whenever Git writes its log of `HEAD`.
fn checked_out() -> Option<String> {
    let log = PathBuf::from(git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    if log.exists() {
        println!("cargo:rerun-if-changed={}", log.display());
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
