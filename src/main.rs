//! The `liststore` binary: it hands the command line over.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// Each answer is a few short-lived allocations, often freed by another thread than made them. The
/// system's allocator took an eighth of an add's CPU time.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    liststore::cli::run(std::env::args_os())
}
