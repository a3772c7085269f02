//! The consistency checker: concurrent clients against the real server process, and a judgement
//! whether what they saw is allowed by `docs/guarantees.md`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod check;
mod history;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = check::forbidden::CASES.iter().map(|(name, case)| {
        Trial::test(format!("checker::{name}"), || {
            case();
            Ok(())
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
