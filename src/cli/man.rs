//! `liststore man`: the manual pages of this program.

use std::path::PathBuf;

use clap::{Args, CommandFactory};

use super::CommandLine;
use super::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  liststore man ~/.local/share/man/man1
  man liststore-list-get";

/// Write the manual pages of all commands
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Directory for the pages (created if it is missing)
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let directory = &arguments.directory;
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(CommandLine::command(), directory))
        .map_err(|e| Failure::failed(format!("cannot write manual pages to {}: {e}", directory.display())))
}
