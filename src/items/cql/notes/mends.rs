//! Members of sets whose rows and reverse entry were found to differ.

use super::noted::{Met, Noted};
use crate::domain::{ItemKey, ListKey, Ttl};

/// A member that must be checked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mend {
    pub list: ListKey,
    /// Where its reverse entry is.
    pub member: String,
    /// An ordered row of it that the entry did not point to.
    pub row: Option<ItemKey>,
    /// By which its items are visible.
    pub ttl: Ttl,
}

/// The members that one session has noted.
#[derive(Debug, Default)]
pub struct Mends(Noted<Mend>);

impl Mends {
    pub fn met(&self, mend: Mend) {
        self.0.met(mend);
    }

    /// The next one to be looked at: for one caller at a time.
    pub async fn next(&self) -> Met<Mend> {
        self.0.next().await
    }
}
