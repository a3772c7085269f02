//! The tools that some faults need. Without them, a test is ignored with a message, or fails if LISTSTORE_TEST_TOOLS is
//! `required`, as in `scripts/test`.

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

/// Set if this process may mount file systems that no other process sees.
const OWN_MOUNTS: &str = "LISTSTORE_TEST_OWN_MOUNTS";

/// How to run a test with separate mounts, which end with it: as root, or as any user in a user namespace, if the
/// system allows that.
pub fn own_mounts() -> Option<&'static [&'static str]> {
    const WAYS: [&[&str]; 2] = [&["--mount"], &["--user", "--map-root-user", "--mount"]];
    const PROBE: &str = "mount -t tmpfs -o size=1m tmpfs /tmp";
    WAYS.into_iter().find(|way| succeeds("unshare", &[way, &["sh", "-c", PROBE][..]].concat()))
}

/// Runs a test of this binary again alone, with separate mounts, unless this is that run.
pub fn with_own_mounts(way: &[&str], name: &str, test: impl FnOnce() -> Result<(), Failed>) -> Result<(), Failed> {
    if std::env::var_os(OWN_MOUNTS).is_some() {
        return test();
    }
    let this = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut again = Command::new("unshare");
    again.args(way).arg(this).args([name, "--exact"]).env(OWN_MOUNTS, "1").stdin(Stdio::null());
    let output = again.output().map_err(|e| e.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stdout).into_owned().into()) }
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
