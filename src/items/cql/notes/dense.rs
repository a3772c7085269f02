//! Sets whose entries have too many tombstones to be read from end to end: for a while they are read by their rows.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::domain::ListKey;

/// How long the entries of a set are not tried again.
const REMEMBERED_FOR: Duration = Duration::from_secs(600);
/// The most sets that are remembered. Others are tried each time.
const REMEMBERED_MAX: usize = 1_024;

/// The sets of one session.
#[derive(Debug, Default)]
pub struct Dense(Mutex<HashMap<ListKey, Instant>>);

impl Dense {
    pub fn note(&self, set: &ListKey) {
        let (mut sets, now) = (self.0.lock().unwrap_or_else(PoisonError::into_inner), Instant::now());
        if sets.len() >= REMEMBERED_MAX {
            sets.retain(|_, until| *until > now);
        }
        if sets.len() < REMEMBERED_MAX {
            sets.insert(set.clone(), now + REMEMBERED_FOR);
        }
    }

    pub fn has(&self, set: &ListKey) -> bool {
        let sets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sets.get(set).is_some_and(|until| *until > Instant::now())
    }
}
