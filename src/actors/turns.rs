//! Keeps removals of some items apart from the other writes to their list.
//!
//! A removal first looks for the items that it takes and then removes them. Of two that overlap, both would
//! count the same item; and in some stores any write in between would be lost in part. So a removal has
//! its list to itself, against those writes that its store names ([`RemovalTurns`]), from before it looks
//! until it is through. Other writes go on beside each other. A list has one actor that writes it, hence
//! this once for each actor is enough. Reads do not pass here.
//!
//! A swap of a bag compares it with what was read, and has it to itself against all else that writes it.
//!
//! Adds to sets look for the members that are there first, and so take turns as removals do, with all else that
//! writes the set.
//!
//! Whoever has a turn may wait for room in the store. So nobody may have that room who still waits for a
//! turn: a write waits here first, and goes to the store then.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::domain::{FeatureKey, Item, ListKey, NewItem, Timestamp};
use crate::items::{
    BagEntries, BagPage, BagSwap, Bounds, Count, Done, EntityPage, EntityPlace, ItemPage, ItemSession, Operation,
    Range, Removal, RemovalTurns, StoreError, SwapId, SwapLook, SwapPage, Swapped, ToAwait,
};

/// A session whose removals take turns.
pub struct TurnTaking {
    session: Rc<dyn ItemSession>,
    lists: Rc<Lists>,
}

/// The lists that removals have to themselves or wait for. Holds no more of them than
/// operations in flight name.
type Lists = RefCell<HashMap<ListKey, Arc<RwLock<()>>>>;

/// A list's lock while somebody waits for it or has it; the last to leave takes it away.
struct Lock {
    lists: Rc<Lists>,
    list: ListKey,
    lock: Arc<RwLock<()>>,
}

/// A turn beside others of its kind.
struct Shared {
    // Dropped in this order: the lock looks whether it was the last.
    _guard: OwnedRwLockReadGuard<()>,
    _lock: Lock,
}

/// A turn alone.
struct Alone {
    _guard: OwnedRwLockWriteGuard<()>,
    _lock: Lock,
}

impl TurnTaking {
    pub fn around(session: Rc<dyn ItemSession>) -> Rc<dyn ItemSession> {
        Rc::new(Self { session, lists: Rc::default() })
    }

    /// Whether a write that is through at once needs no turn.
    fn is_free(&self, list: &ListKey) -> bool {
        let lists = self.lists.borrow();
        lists.is_empty() || !lists.contains_key(list)
    }

    fn lock(&self, list: &ListKey) -> Lock {
        let lock = self.lists.borrow_mut().entry(list.clone()).or_default().clone();
        Lock { lists: Rc::clone(&self.lists), list: list.clone(), lock }
    }

    async fn shared(&self, list: &ListKey, deadline: Instant) -> Result<Shared, StoreError> {
        let lock = self.lock(list);
        let guard = timeout_at(deadline, Arc::clone(&lock.lock).read_owned()).await.map_err(|_| late())?;
        Ok(Shared { _guard: guard, _lock: lock })
    }

    /// The same for a list that is free.
    fn shared_at_once(&self, list: &ListKey) -> Option<Shared> {
        let lock = self.lock(list);
        let guard = Arc::clone(&lock.lock).try_read_owned().ok()?;
        Some(Shared { _guard: guard, _lock: lock })
    }

    async fn alone(&self, list: &ListKey, deadline: Instant) -> Result<Alone, StoreError> {
        let lock = self.lock(list);
        let guard = timeout_at(deadline, Arc::clone(&lock.lock).write_owned()).await.map_err(|_| late())?;
        Ok(Alone { _guard: guard, _lock: lock })
    }
}

impl TurnTaking {
    /// Adds to a set, and keeps it for itself until the next one sees what came of it.
    async fn add_alone(self: Rc<Self>, op: Operation, list: ListKey, items: Vec<NewItem>, done: Done) {
        let turn = match self.alone(&list, op.deadline).await {
            Ok(turn) => turn,
            Err(late) => return done(Err(late)),
        };
        let (through, until_through) = oneshot::channel();
        let done: Done = Box::new(move |result| {
            done(result);
            let _set_is_gone = through.send(());
        });
        if let Some(to_await) = Rc::clone(&self.session).start_add(op, list, items, done) {
            to_await.await;
        }
        // Dropped unsent if the store has failed.
        let _ended = until_through.await;
        drop(turn);
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The map's and ours: a guard, or somebody who waits, would hold a third.
        if Arc::strong_count(&self.lock) == 2 {
            self.lists.borrow_mut().remove(&self.list);
        }
    }
}

fn late() -> StoreError {
    StoreError::Timeout { outcome_unknown: false }
}

#[async_trait(?Send)]
impl ItemSession for TurnTaking {
    async fn get(&self, op: &Operation, list: &ListKey, range: &Range) -> Result<ItemPage, StoreError> {
        self.session.get(op, list, range).await
    }

    fn start_add(self: Rc<Self>, op: Operation, list: ListKey, items: Vec<NewItem>, done: Done) -> Option<ToAwait> {
        let session = Rc::clone(&self.session);
        if list.identity().is_set() {
            return Some(Box::pin(self.add_alone(op, list, items, done)));
        }
        if session.removal_turns() == RemovalTurns::BetweenRemovals {
            return session.start_add(op, list, items, done);
        }
        if self.is_free(&list) {
            let to_await = session.start_add(op, list.clone(), items, done)?;
            // It is not in its place yet: nobody may have the list alone until it is.
            let turn = self.shared_at_once(&list);
            return Some(Box::pin(async move {
                to_await.await;
                drop(turn);
            }));
        }
        Some(Box::pin(async move {
            match self.shared(&list, op.deadline).await {
                Ok(turn) => {
                    if let Some(to_await) = session.start_add(op, list, items, done) {
                        to_await.await;
                    }
                    drop(turn);
                }
                Err(late) => done(Err(late)),
            }
        }))
    }

    async fn contains(
        &self,
        op: &Operation,
        list: &ListKey,
        within: &Bounds,
        values: &[Bytes],
    ) -> Result<Vec<Option<Timestamp>>, StoreError> {
        self.session.contains(op, list, within, values).await
    }

    async fn lookup(&self, op: &Operation, list: &ListKey, members: &[Bytes]) -> Result<Vec<Option<Item>>, StoreError> {
        self.session.lookup(op, list, members).await
    }

    async fn count(&self, op: &Operation, list: &ListKey, within: &Bounds, max: u64) -> Result<Count, StoreError> {
        self.session.count(op, list, within, max).await
    }

    async fn remove(&self, op: &Operation, list: &ListKey, removal: &Removal) -> Result<u64, StoreError> {
        let _turn = self.alone(list, op.deadline).await?;
        self.session.remove(op, list, removal).await
    }

    async fn remove_all(&self, op: &Operation, list: &ListKey) -> Result<(), StoreError> {
        if list.identity().is_set() || list.feature_key.is_of_bags() {
            let _turn = self.alone(list, op.deadline).await?;
            return self.session.remove_all(op, list).await;
        }
        let _turn = match self.session.removal_turns() {
            RemovalTurns::BetweenRemovals => None,
            RemovalTurns::BetweenWrites => Some(self.shared(list, op.deadline).await?),
        };
        self.session.remove_all(op, list).await
    }

    async fn bag(&self, op: &Operation, list: &ListKey) -> Result<Option<Item>, StoreError> {
        self.session.bag(op, list).await
    }

    async fn swap_bag(&self, op: &Operation, list: &ListKey, swap: BagSwap) -> Result<Swapped, StoreError> {
        let _turn = self.alone(list, op.deadline).await?;
        self.session.swap_bag(op, list, swap).await
    }

    async fn bags(
        &self,
        op: &Operation,
        feature_key: &FeatureKey,
        from: Option<&EntityPlace>,
        limit: usize,
    ) -> Result<BagPage, StoreError> {
        self.session.bags(op, feature_key, from, limit).await
    }

    async fn enter_bags(&self, op: &Operation, bags: Vec<BagEntries>) -> Result<Vec<Swapped>, StoreError> {
        // Each once, and in one order: so nobody who waits for one has another that is waited for.
        let mut lists: Vec<&ListKey> = bags.iter().map(|bag| &bag.bag).collect();
        lists.sort_unstable_by_key(|list| list.bytes());
        lists.dedup();
        let mut turns = Vec::with_capacity(lists.len());
        for list in lists {
            turns.push(self.alone(list, op.deadline).await?);
        }
        self.session.enter_bags(op, bags).await
    }

    async fn unfinished_swaps(&self, op: &Operation, look: SwapLook) -> Result<SwapPage, StoreError> {
        self.session.unfinished_swaps(op, look).await
    }

    async fn finish_swap(&self, op: &Operation, swap: SwapId) -> Result<(), StoreError> {
        self.session.finish_swap(op, swap).await
    }

    async fn entities(
        &self,
        op: &Operation,
        feature_key: &FeatureKey,
        from: Option<&EntityPlace>,
        limit: usize,
    ) -> Result<EntityPage, StoreError> {
        self.session.entities(op, feature_key, from, limit).await
    }

    fn removal_turns(&self) -> RemovalTurns {
        self.session.removal_turns()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::domain::{EntityId, EntityType, FeatureId, FeatureName, Generation, Ttl, VersionLabel};
    use crate::items::EntryChange;
    use crate::items::memory::MemoryStore;

    fn list(entity_id: &str) -> ListKey {
        let id = FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new("seen").unwrap() };
        let key = FeatureKey::new(&id, &VersionLabel::default_version(), Generation::FIRST);
        ListKey::new(key, EntityId::new(entity_id).unwrap())
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(20)
    }

    /// Many bags wait until each is free, and nothing is done before.
    #[tokio::test]
    async fn bags_that_are_entered_are_kept_from_others_all_together() {
        let store = Rc::new(MemoryStore::default());
        let turns = TurnTaking { session: store, lists: Rc::default() };
        let op = |deadline| Operation::new(Timestamp::from_nanos(9).unwrap(), Ttl::MAX, deadline);
        let entered = |entity_id: &str| {
            let added = vec![NewItem { timestamp: Timestamp::MIN, value: "u".into(), expires_at: u64::MAX }];
            let entries = vec![EntryChange { list: list("entries"), removed: Vec::new(), added }];
            BagEntries { bag: list(entity_id), stamp: Timestamp::from_nanos(1).unwrap(), entries }
        };
        // In one order, whatever the order that they are given in.
        let both = || vec![entered("u-2"), entered("u-1")];
        let other = turns.alone(&list("u-2"), soon()).await.unwrap();
        let late = turns.enter_bags(&op(soon()), both()).await;
        assert!(matches!(late, Err(StoreError::Timeout { outcome_unknown: false })));
        assert!(turns.is_free(&list("u-1")));
        drop(other);
        let later = Instant::now() + Duration::from_secs(60);
        // There are no such bags.
        assert_eq!(turns.enter_bags(&op(later), both()).await.unwrap(), [Swapped::Lost; 2]);
        assert!(turns.lists.borrow().is_empty());
    }

    #[tokio::test]
    async fn a_removal_is_alone_and_adds_are_not() {
        let turns = TurnTaking { session: Rc::new(MemoryStore::default()), lists: Rc::default() };
        let (here, there) = (list("u-1"), list("u-2"));
        let adding = turns.shared(&here, soon()).await.unwrap();
        assert!(turns.alone(&here, soon()).await.is_err(), "while an add waits for its place");
        drop(adding);
        assert!(turns.is_free(&here));
        let alone = turns.alone(&here, soon()).await.unwrap();
        assert!(!turns.is_free(&here) && turns.is_free(&there));
        assert!(turns.shared(&here, soon()).await.is_err());
        let late = turns.alone(&here, soon()).await;
        assert!(matches!(late, Err(StoreError::Timeout { outcome_unknown: false })));
        let elsewhere = turns.alone(&there, soon()).await.unwrap();
        // Whoever waits goes on once the removal is through, adds beside each other.
        let later = Instant::now() + Duration::from_secs(60);
        let ((), first, second) = tokio::join!(
            async {
                tokio::task::yield_now().await;
                drop(alone);
            },
            turns.shared(&here, later),
            turns.shared(&here, later),
        );
        let (first, second) = (first.unwrap(), second.unwrap());
        assert!(!turns.is_free(&here));
        assert!(turns.alone(&here, soon()).await.is_err());
        drop((first, second, elsewhere));
        assert!(turns.lists.borrow().is_empty());
    }
}
