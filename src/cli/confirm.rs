//! Questions that a person answers before something is done that cannot be undone.

use std::io::{self, IsTerminal, Write};

use super::failure::Failure;
use crate::client::printable;

/// Asks a person; whoever is none has to say so beforehand.
pub(super) fn confirm(question: &str) -> Result<(), Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::Usage("nobody can be asked whether this is meant: say --yes".to_owned()));
    }
    eprint!("{} [y/N] ", printable(question));
    let _unseen = io::stderr().flush();
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::failed("nothing was done".to_owned())),
    }
}
