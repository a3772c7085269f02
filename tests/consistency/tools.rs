//! The tools that some faults need, and what happens to a test where they are missing: it is
//! ignored and says so, or fails if LISTSTORE_TEST_TOOLS is `required`, as in `scripts/test`.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use libtest_mimic::{Failed, Trial};

/// The library that fakes the wall clock (Debian: `libfaketime`).
pub fn faketime() -> Option<PathBuf> {
    let places = std::fs::read_dir("/usr/lib").into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    places
        .chain(["/usr/lib".into(), "/usr/local/lib".into()])
        .map(|place| place.join("faketime/libfaketimeMT.so.1"))
        .find(|library| library.is_file())
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Whether system calls can be made to fail (Debian: `strace`, and ptrace must be allowed).
pub fn strace() -> Option<()> {
    succeeds("strace", &["-D", "-f", "-qq", "-o", "/dev/null", "--seccomp-bpf", "-e", "trace=fsync", "true"])
        .then_some(())
}

/// Whether small file systems can be mounted.
pub fn mount() -> Option<()> {
    let dir = tempfile::tempdir().ok()?;
    let dir = dir.path().to_str()?;
    let mounted = succeeds("mount", &["-t", "tmpfs", "-o", "size=1m", "tmpfs", dir]);
    (mounted && succeeds("umount", &[dir])).then_some(())
}

/// A test that needs a tool.
pub fn trial<T: Send + 'static>(
    name: &str,
    what: &'static str,
    tool: Option<T>,
    test: impl FnOnce(T) -> Result<(), Failed> + Send + 'static,
) -> Trial {
    let required = std::env::var("LISTSTORE_TEST_TOOLS").is_ok_and(|value| value == "required");
    match tool {
        Some(tool) => Trial::test(name, move || test(tool)),
        None if required => Trial::test(name, move || Err(format!("this test needs {what}").into())),
        None => Trial::test(format!("{name} (needs {what})"), || Ok(())).with_ignored_flag(true),
    }
}
