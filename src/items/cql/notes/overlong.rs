//! Lists that had more items than they show, or may have them by now. They must be checked.

use super::noted::{Noted, ToCheck};
use crate::domain::{ListKey, MaxItems};
use crate::items::OpContext;

/// A list may be longer than is shown by such a part of it, so that not every add brings a tombstone.
const SLACK_PART: usize = 8;
/// Items that are added between two looks, about, where lists are short.
const CHECK_EVERY_MIN: usize = 16;

/// By how much a list may be longer.
pub fn slack(max_items: MaxItems) -> usize {
    max_items.get() / SLACK_PART
}

/// The lists of one session.
#[derive(Debug, Default)]
pub struct Overlong(Noted<ListKey>);

impl Overlong {
    /// Requests a check of a list that had more items than it shows.
    pub fn note(&self, op: &OpContext, list: &ListKey) {
        if op.max_items.is_some() {
            self.0.note(list.clone());
        }
    }

    /// Has a list looked at now and then to which items were added.
    pub fn added(&self, op: &OpContext, list: &ListKey, items: usize) {
        let due = |max_items| fastrand::usize(..slack(max_items).max(CHECK_EVERY_MIN)) < items;
        if op.max_items.is_some_and(due) {
            self.note(op, list);
        }
    }

    /// The next one to be looked at: for one caller at a time.
    pub async fn next(&self) -> ToCheck<ListKey> {
        self.0.next().await
    }
}
