//! Questions that a person answers before a command does something that cannot be undone.
//!
//! Without a terminal there is no one to ask. Such a command then needs `--yes`, and otherwise fails before it
//! changes anything.

use std::io::{self, IsTerminal, Write};

use clap::Args;

use super::failure::Failure;
use crate::client::printable;

/// The option that skips the question.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct Yes {
    /// Skip the confirmation prompt; required without a terminal
    #[arg(short, long)]
    yes: bool,
}

impl Yes {
    /// Asks the question. `question` runs only if a person can answer.
    pub(super) async fn confirm(self, question: impl Future<Output = Result<String, Failure>>) -> Result<(), Failure> {
        if self.yes {
            return Ok(());
        }
        if !io::stdin().is_terminal() {
            return Err(Failure::Usage("cannot ask for confirmation without a terminal: pass --yes".to_owned()));
        }
        if ask(&question.await?)? { Ok(()) } else { Err(Failure::failed("cancelled: nothing was changed")) }
    }
}

/// Reads the answer from the terminal.
pub(super) fn ask(question: &str) -> Result<bool, Failure> {
    eprint!("{} [y/N] ", printable(question));
    let _unseen = io::stderr().flush();
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
