//! The `liststore` binary: it hands the command line over.

use std::process::ExitCode;

fn main() -> ExitCode {
    liststore::cli::run(std::env::args_os())
}
