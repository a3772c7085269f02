//! Lists that show their newest items only: where these end, and how the others are given back.
//!
//! No write looks at what its list holds. A read that meets more than is shown, and now and then an add, has
//! the list looked at in the background; what lies beyond by more than a little is then deleted by one
//! range tombstone. Such a deletion must not hide what is added to the list later, whatever server's clock
//! that is written by: so its write timestamp lies before the moment at which the list was looked at, by as
//! much as clocks may be apart.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus::IntCounter;

use super::core::Core;
use super::get::{Keys, slice, walk_keys};
use super::remove::delete_slice;
use crate::domain::{ItemKey, ListKey, MaxItems, Timestamp};
use crate::items::{Bounds, Operation, StoreError};

/// A list is not looked at again before.
const INTERVAL: Duration = Duration::from_secs(1);
/// Lists that a session remembers to have looked at.
const REMEMBERED_MAX: usize = 1_024;
/// How long a look and its deletion may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// A list may be longer than is shown by such a part of it, so that not every add brings a tombstone.
const SLACK_PART: usize = 8;
/// Items that are added between two looks, about, where lists are short.
const LOOK_EVERY_MIN: usize = 16;

fn slack(max_items: MaxItems) -> usize {
    max_items.get() / SLACK_PART
}

/// The last item that a list shows, if it has more than these.
pub async fn last_shown(core: &Arc<Core>, op: &Operation, list: &ListKey) -> Result<Option<ItemKey>, StoreError> {
    let Some(max_items) = op.max_items else { return Ok(None) };
    let permit = core.permit(op.deadline).await?;
    let shown = max_items.get() as u64;
    let Keys { count, last, .. } = walk_keys(core, op, list, &Bounds::ALL, None, (shown + 1, shown), permit).await?;
    if count <= shown {
        return Ok(None);
    }
    Trims::met(core, op, list);
    Ok(last)
}

/// The lists of a session that were looked at lately.
#[derive(Debug)]
pub struct Trims {
    looked_at: Mutex<HashMap<ListKey, Instant>>,
    trimmed: IntCounter,
}

impl Trims {
    /// `trimmed` counts the deletions.
    pub fn new(trimmed: IntCounter) -> Self {
        Self { looked_at: Mutex::default(), trimmed }
    }

    /// Has a list looked at that was met with more items than it shows.
    pub fn met(core: &Arc<Core>, op: &Operation, list: &ListKey) {
        let Some(max_items) = op.max_items else { return };
        if core.trims.begin(list) {
            let (core, op, list) = (Arc::clone(core), *op, list.clone());
            tokio::spawn(async move {
                // Whoever meets the list next has it looked at again.
                if let Err(error) = trim(&core, &op, &list, max_items).await {
                    tracing::debug!(%error, "a list that is longer than it shows was not cut");
                }
            });
        }
    }

    /// Has a list looked at now and then to which items were added.
    pub fn added(core: &Arc<Core>, op: &Operation, list: &ListKey, items: usize) {
        let due = |max_items| fastrand::usize(..slack(max_items).max(LOOK_EVERY_MIN)) < items;
        if op.max_items.is_some_and(due) {
            Self::met(core, op, list);
        }
    }

    fn begin(&self, list: &ListKey) -> bool {
        let mut looked_at = self.looked_at.lock().unwrap_or_else(PoisonError::into_inner);
        if looked_at.get(list).is_some_and(|at| at.elapsed() < INTERVAL) {
            return false;
        }
        if looked_at.len() >= REMEMBERED_MAX {
            looked_at.retain(|_, at| at.elapsed() < INTERVAL);
        }
        // Live load comes first.
        let has_room = looked_at.len() < REMEMBERED_MAX;
        if has_room {
            looked_at.insert(list.clone(), Instant::now());
        }
        has_room
    }
}

/// Deletes what a list does not show, if that is more than a little.
async fn trim(core: &Arc<Core>, op: &Operation, list: &ListKey, max_items: MaxItems) -> Result<(), StoreError> {
    // Live load comes first.
    let Some(permit) = core.permits.try_take() else { return Ok(()) };
    let op = Operation { deadline: tokio::time::Instant::now() + TIMEOUT, ..*op };
    let write_timestamp = core.write_clock.before_all_that_follows();
    let shown = max_items.get();
    let most = (shown + slack(max_items)) as u64;
    let keys = walk_keys(core, &op, list, &Bounds::ALL, None, (most + 1, shown as u64), permit).await?;
    let Keys { count, last: Some(last), permit } = keys else { return Ok(()) };
    if count > most {
        let (lower, _) = slice(&Bounds { min_timestamp: Timestamp::MIN, ..Bounds::ALL });
        delete_slice(core, &op, list, (&lower, &last.to_string()), write_timestamp, permit).await?;
        core.trims.trimmed.inc();
    }
    Ok(())
}
