//! The place in the order of lists and items from which a run's content is valid.

use std::cmp::Ordering;

use liststore_contract::domain::ValueDigest;

use crate::list_id::ListId;
use crate::row::seek::Start;

/// A place in the order of lists and items. Only later items count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trim {
    pub list: ListId,
    /// The timestamp and digest of an item of the list; `None` stands for the list's end.
    pub item: Option<(u64, ValueDigest)>,
}

impl Trim {
    /// The later of two places.
    pub fn later(self, other: Self) -> Self {
        let by_item = || match (self.item, other.item) {
            (None, _) => Ordering::Greater,
            (_, None) => Ordering::Less,
            // Newest first, then by digest, descending.
            (Some(ours), Some(theirs)) => theirs.cmp(&ours),
        };
        if self.list.cmp(&other.list).then_with(by_item) == Ordering::Less { other } else { self }
    }

    /// Where to begin reading a list that is requested from `start`; `None` if none of it is valid.
    pub fn start_of(&self, list: &ListId, start: &Start) -> Option<Start> {
        match list.cmp(&self.list) {
            Ordering::Less => None,
            Ordering::Greater => Some(*start),
            Ordering::Equal => {
                let (ceiling, digest) = self.item?;
                let later = match start.ceiling.cmp(&ceiling) {
                    Ordering::Less => true,
                    Ordering::Equal => start.below.is_some_and(|below| below < digest),
                    Ordering::Greater => false,
                };
                Some(if later { *start } else { Start { ceiling, below: Some(digest) } })
            }
        }
    }
}
