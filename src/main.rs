//! The `liststore` binary: it hands the command line over.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// Each answer is a few short-lived allocations, often freed by another thread than made them:
/// `docs/performance.md` has what this allocator saves.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    liststore::cli::run(std::env::args_os())
}
