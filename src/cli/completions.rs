//! `liststore completions`: the script with which a shell completes commands and options.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::CommandLine;
use super::failure::Failure;
use super::output::Output;

const EXAMPLES: &str = "\
Examples:
  liststore completions bash \\
    > ~/.local/share/bash-completion/completions/liststore
  liststore completions zsh > ~/.zfunc/_liststore
  liststore completions fish > ~/.config/fish/completions/liststore.fish";

/// Print the completion script of a shell
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut CommandLine::command(), "liststore", &mut script);
    let mut output = Output::open();
    output.text(&String::from_utf8_lossy(&script))?;
    output.flush()
}
