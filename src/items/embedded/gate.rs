//! Keeps a removal by value apart from the other writes to its list.
//!
//! A removal first looks for the items of the value and then deletes them. A write in between
//! would be lost in part or counted twice: of two removals, both would count the same item, and an
//! item that was added again would go with the one that was there before. So a removal has its list
//! to itself from the moment when it passes until it is committed. Other writes only have to be queued
//! for the log before the next removal passes, which then waits until what is queued is visible. A
//! list has one session that writes it, hence a gate a session is enough. Reads do not pass here.
//!
//! Whoever is inside may wait for a place in the queue. So nobody may have one who still waits here.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use tokio::time::{Instant, timeout_at};

use super::list_id::ListId;
use crate::items::StoreError;

/// The lists that removals have to themselves or wait for. Holds no more of them than there are
/// operations in flight.
#[derive(Debug, Default)]
pub struct Gate {
    lists: RefCell<HashMap<ListId, Arc<RwLock<()>>>>,
}

/// A place at a list's gate, waiting or inside; the last to leave takes the gate away.
struct Place<'a> {
    gate: &'a Gate,
    list: &'a ListId,
    lock: Arc<RwLock<()>>,
}

/// A pass for a write that may go on beside others of its kind, to be given back once it is queued.
pub struct Shared<'a> {
    // Dropped in this order: the place looks whether it was the last.
    _guard: OwnedRwLockReadGuard<()>,
    _place: Place<'a>,
}

/// A pass for a write that is alone.
pub struct Alone<'a> {
    _guard: OwnedRwLockWriteGuard<()>,
    _place: Place<'a>,
}

impl Gate {
    /// Whether a write that only sets down what it carries needs no pass, if it is queued at once.
    pub fn is_open(&self, list: &ListId) -> bool {
        let lists = self.lists.borrow();
        lists.is_empty() || !lists.contains_key(list)
    }

    /// For a write that only sets down what it carries.
    pub async fn shared<'a>(&'a self, list: &'a ListId, deadline: Instant) -> Result<Shared<'a>, StoreError> {
        let place = self.place(list);
        let guard = timeout_at(deadline, place.lock.clone().read_owned()).await.map_err(|_| late())?;
        Ok(Shared { _guard: guard, _place: place })
    }

    /// For a write that depends on what it has read.
    pub async fn alone<'a>(&'a self, list: &'a ListId, deadline: Instant) -> Result<Alone<'a>, StoreError> {
        let place = self.place(list);
        let guard = timeout_at(deadline, place.lock.clone().write_owned()).await.map_err(|_| late())?;
        Ok(Alone { _guard: guard, _place: place })
    }

    fn place<'a>(&'a self, list: &'a ListId) -> Place<'a> {
        let lock = self.lists.borrow_mut().entry(list.clone()).or_default().clone();
        Place { gate: self, list, lock }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        // The map's and ours: a guard, or somebody who waits, would hold a third.
        if Arc::strong_count(&self.lock) == 2 {
            self.gate.lists.borrow_mut().remove(self.list);
        }
    }
}

fn late() -> StoreError {
    StoreError::Timeout { outcome_unknown: false }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::items::embedded::options::ListHash;

    fn list(name: &str) -> ListId {
        let hash: ListHash = |bytes| bytes.len() as u64;
        ListId::from_bytes(name.as_bytes(), hash)
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(20)
    }

    #[tokio::test]
    async fn a_removal_is_alone_and_adds_are_not() {
        let (gate, here, there) = (Gate::default(), list("a"), list("bb"));
        let queueing = gate.shared(&here, soon()).await.unwrap();
        assert!(gate.alone(&here, soon()).await.is_err(), "while an add waits for its place");
        drop(queueing);
        assert!(gate.is_open(&here));
        let alone = gate.alone(&here, soon()).await.unwrap();
        assert!(!gate.is_open(&here) && gate.is_open(&there));
        assert!(gate.shared(&here, soon()).await.is_err());
        assert!(gate.alone(&here, soon()).await.is_err());
        let elsewhere = gate.alone(&there, soon()).await.unwrap();
        // Whoever waits passes once the removal is through, adds beside each other.
        let later = Instant::now() + Duration::from_secs(60);
        let ((), first, second) = tokio::join!(
            async {
                tokio::task::yield_now().await;
                drop(alone);
            },
            gate.shared(&here, later),
            gate.shared(&here, later),
        );
        let (first, second) = (first.unwrap(), second.unwrap());
        assert!(!gate.is_open(&here));
        assert!(gate.alone(&here, soon()).await.is_err());
        drop((first, second, elsewhere));
        assert!(gate.lists.borrow().is_empty());
    }
}
