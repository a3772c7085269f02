//! The consistency checker: concurrent clients against the real server process, and a judgement whether
//! `docs/explanation/guarantees.md` allows their answers.
//!
//! `cargo test --test consistency` runs the quick tests. With options (see
//! `cargo test --test consistency -- --seeds 1 --help`) it is a tool for long runs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod backends;
mod bags;
mod batches;
mod calls;
mod campaign;
mod check;
mod client;
mod cuts;
mod damage;
mod disks;
mod faults;
mod history;
mod http;
mod long;
mod metrics;
mod quick;
mod run;
mod server;
mod subject;
mod tools;
mod workload;

use liststore_testkit::{cassandra, ports, postgres, proxy};

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    if long::is_asked_for() {
        return long::main();
    }
    let mut arguments = Arguments::from_args();
    // Every run wants the whole machine.
    arguments.test_threads.get_or_insert(1);
    let forbidden = check::forbidden::CASES.iter().chain(check::forbidden_observations::CASES);
    let cases = forbidden.chain(check::forbidden_special::CASES).chain(check::proofs::CASES);
    let cases = cases.chain(check::bags::forbidden::CASES).chain(check::bags::proofs::CASES);
    let cases = cases.map(|(name, case)| {
        Trial::test(format!("checker::{name}"), || {
            case();
            Ok(())
        })
    });
    libtest_mimic::run(&arguments, cases.chain(quick::trials()).collect()).exit_code()
}
