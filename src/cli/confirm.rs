//! Questions that a person answers before something is done that cannot be undone.

use std::io::{self, IsTerminal, Write};

use super::failure::Failure;
use crate::client::printable;

/// Whether a person can be asked.
pub(super) fn is_terminal() -> bool {
    io::stdin().is_terminal()
}

/// Asks a person; whoever is none has to say so beforehand.
pub(super) fn confirm(question: &str) -> Result<(), Failure> {
    if !is_terminal() {
        return Err(Failure::Usage("cannot ask for confirmation without a terminal: pass --yes".to_owned()));
    }
    if asked(question)? { Ok(()) } else { Err(Failure::failed("nothing was done".to_owned())) }
}

/// What a person answers on the terminal.
pub(super) fn asked(question: &str) -> Result<bool, Failure> {
    eprint!("{} [y/N] ", printable(question));
    let _unseen = io::stderr().flush();
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
