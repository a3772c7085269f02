//! Members of sets whose rows and reverse entry were found to differ.

use super::noted::{Noted, ToCheck};
use crate::domain::{ItemKey, ListKey, Ttl};

/// A member that must be checked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Repair {
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
pub struct Repairs(Noted<Repair>);

impl Repairs {
    pub fn note(&self, repair: Repair) {
        self.0.note(repair);
    }

    /// The next one to be looked at: for one caller at a time.
    pub async fn next(&self) -> ToCheck<Repair> {
        self.0.next().await
    }
}
