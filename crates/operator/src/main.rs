//! The `liststore-operator` binary: it hands the command line over.

use std::process::ExitCode;

fn main() -> ExitCode {
    liststore_operator::cli::run(std::env::args_os())
}
