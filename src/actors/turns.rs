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
//! writes the set. Those that wait for one set with nothing else between them have one turn together, and go to the
//! store together.
//!
//! Whoever has a turn may wait for room in the store. So nobody may have that room who still waits for a
//! turn: a write waits here first, and goes to the store then.

use std::cell::RefCell;
use std::collections::HashMap;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use tokio::time::{Instant, timeout_at};

use super::waiting_adds::WaitingAdds;
use crate::domain::{FeatureKey, Item, ListKey, NewItem, Timestamp};
use crate::items::{
    BagEntries, BagPage, BagSwap, Bounds, Count, Done, EntityPage, EntityPlace, ItemPage, ItemSession, Operation,
    Range, ReadBag, Removal, RemovalTurns, SetAdd, StoreError, SwapId, SwapLook, SwapPage, Swapped, ToAwait,
};

/// A session whose removals take turns.
pub struct TurnTaking {
    session: Rc<dyn ItemSession>,
    lists: Arc<Lists>,
    /// Of sets the adds that wait behind all else that does.
    waiting: RefCell<HashMap<Arc<[u8]>, Together>>,
}

type Together = Rc<RefCell<WaitingAdds>>;

/// The lists, by their bytes, that removals have to themselves or wait for. Holds no more of them than
/// operations in flight name. A turn may end on any thread.
#[derive(Default)]
struct Lists(Mutex<HashMap<Arc<[u8]>, Wanted>>);

#[derive(Default)]
struct Wanted {
    lock: Arc<RwLock<()>>,
    /// How many wait for it or have it.
    by: usize,
}

impl Lists {
    fn wanted(&self) -> MutexGuard<'_, HashMap<Arc<[u8]>, Wanted>> {
        // No panic leaves the map half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A list's lock while somebody waits for it or has it; the last to leave takes it away.
struct Lock {
    lists: Arc<Lists>,
    list: Arc<[u8]>,
    lock: Arc<RwLock<()>>,
}

/// A turn beside others of its kind.
struct Shared {
    // Dropped in this order: the lock looks whether it was the last.
    _guard: OwnedRwLockReadGuard<()>,
    _lock: Lock,
}

type AwaitedTurn = Pin<Box<dyn Future<Output = OwnedRwLockWriteGuard<()>>>>;

/// A turn alone.
struct Alone {
    _guard: OwnedRwLockWriteGuard<()>,
    _lock: Lock,
}

impl TurnTaking {
    pub fn around(session: Rc<dyn ItemSession>) -> Rc<dyn ItemSession> {
        Rc::new(Self::new(session))
    }

    fn new(session: Rc<dyn ItemSession>) -> Self {
        Self { session, lists: Arc::default(), waiting: RefCell::default() }
    }

    /// Whether a write that is through at once needs no turn.
    fn is_free(&self, list: &ListKey) -> bool {
        let lists = self.lists.wanted();
        lists.is_empty() || !lists.contains_key(list.bytes())
    }

    /// To be waited for by whoever comes now: adds that come later wait behind.
    fn lock(&self, list: &ListKey) -> Lock {
        self.no_more_join(list);
        let mut lists = self.lists.wanted();
        let wanted = lists.entry(Arc::clone(list.bytes())).or_default();
        wanted.by += 1;
        Lock { lists: Arc::clone(&self.lists), list: Arc::clone(list.bytes()), lock: Arc::clone(&wanted.lock) }
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

/// Adds to sets.
impl TurnTaking {
    fn start_add_to_set(self: Rc<Self>, list: ListKey, add: SetAdd) -> Option<ToAwait> {
        let Err(add) = self.join(&list, add) else { return None };
        let lock = self.lock(&list);
        if let Ok(guard) = Arc::clone(&lock.lock).try_write_owned() {
            return self.add_alone(Alone { _guard: guard, _lock: lock }, list, vec![add]);
        }
        let mut turn: AwaitedTurn = Box::pin(Arc::clone(&lock.lock).write_owned());
        // Asked for now, and not when somebody gets round to waiting: turns come in the order of adds and removals.
        match turn.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(guard) => self.add_alone(Alone { _guard: guard, _lock: lock }, list, vec![add]),
            Poll::Pending => {
                let waiting = Rc::new(RefCell::new(WaitingAdds::of(add)));
                self.waiting.borrow_mut().insert(Arc::clone(list.bytes()), Rc::clone(&waiting));
                Some(Box::pin(self.add_in_turn(turn, lock, list, waiting)))
            }
        }
    }

    /// Lets an add wait with others that wait for its set, if it may.
    fn join(&self, list: &ListKey, add: SetAdd) -> Result<(), SetAdd> {
        match self.waiting.borrow().get(list.bytes()) {
            Some(waiting) => waiting.borrow_mut().join(add),
            None => Err(add),
        }
    }

    fn no_more_join(&self, list: &ListKey) {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.is_empty() {
            waiting.remove(list.bytes());
        }
    }

    async fn add_in_turn(self: Rc<Self>, mut turn: AwaitedTurn, lock: Lock, list: ListKey, waiting: Together) {
        let guard = loop {
            let first_deadline = waiting.borrow().first_deadline();
            match first_deadline {
                Some(deadline) => match timeout_at(deadline, &mut turn).await {
                    Ok(guard) => break Some(guard),
                    Err(_) => waiting.borrow_mut().refuse_late(),
                },
                None => break None,
            }
        };
        waiting.borrow_mut().refuse_late();
        let adds = waiting.borrow_mut().take();
        self.forget_waiting(&list, &waiting);
        let Some(guard) = guard.filter(|_| !adds.is_empty()) else { return };
        if let Some(to_await) = self.add_alone(Alone { _guard: guard, _lock: lock }, list, adds) {
            to_await.await;
        }
    }

    /// Others may wait in the place of those whose turn has come.
    fn forget_waiting(&self, list: &ListKey, waiting: &Together) {
        let mut all = self.waiting.borrow_mut();
        if all.get(list.bytes()).is_some_and(|others| Rc::ptr_eq(others, waiting)) {
            all.remove(list.bytes());
        }
    }

    /// Adds to a set, and keeps it for these adds until the next ones see what came of them.
    fn add_alone(&self, turn: Alone, list: ListKey, adds: Vec<SetAdd>) -> Option<ToAwait> {
        let turn = Arc::new(turn);
        let with_turn = |SetAdd { op, items, done }| {
            let turn = Arc::clone(&turn);
            let done: Done = Box::new(move |result| {
                // First: whoever hears of it and adds again need not wait for what is over.
                drop(turn);
                done(result);
            });
            SetAdd { op, items, done }
        };
        let to_await = Rc::clone(&self.session).start_adds(list, adds.into_iter().map(with_turn).collect())?;
        Some(Box::pin(async move {
            to_await.await;
            drop(turn);
        }))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let mut lists = self.lists.wanted();
        if let Some(wanted) = lists.get_mut(&self.list) {
            wanted.by -= 1;
            if wanted.by == 0 {
                lists.remove(&self.list);
            }
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
            return self.start_add_to_set(list, SetAdd { op, items, done });
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

    async fn bag(&self, op: &Operation, list: &ListKey) -> Result<ReadBag, StoreError> {
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

    async fn bag_entities(
        &self,
        op: &Operation,
        feature_key: &FeatureKey,
        from: Option<&EntityPlace>,
        limit: usize,
    ) -> Result<EntityPage, StoreError> {
        self.session.bag_entities(op, feature_key, from, limit).await
    }

    fn removal_turns(&self) -> RemovalTurns {
        self.session.removal_turns()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::future::join_all;
    use tokio::sync::oneshot;

    use super::*;
    use crate::domain::{EntityId, EntityType, FeatureId, FeatureName, Generation, Identity, Keep, Ttl, VersionLabel};
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
        let turns = TurnTaking::new(store);
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
        assert!(turns.lists.wanted().is_empty());
    }

    #[tokio::test]
    async fn a_removal_is_alone_and_adds_are_not() {
        let turns = TurnTaking::new(Rc::new(MemoryStore::default()));
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
        assert!(turns.lists.wanted().is_empty());
    }

    fn set(entity_id: &str) -> ListKey {
        let ListKey { feature_key, entity_id, .. } = list(entity_id);
        ListKey::new(feature_key.with_identity(Identity::Value(Keep::Newest)), entity_id)
    }

    /// An add to a set that has begun to wait, and what comes of it.
    type Begun = (oneshot::Receiver<Result<(), StoreError>>, Option<ToAwait>);

    fn begin(turns: &Rc<TurnTaking>, set: &ListKey, value: &'static str, millis: u64) -> Begun {
        let op = Operation::new(Timestamp::MIN, Ttl::MAX, Instant::now() + Duration::from_millis(millis));
        let items = vec![NewItem { timestamp: Timestamp::MIN, value: value.into(), expires_at: u64::MAX }];
        let (reply, added) = oneshot::channel();
        let done: Done = Box::new(|result| reply.send(result).unwrap());
        (added, Rc::clone(turns).start_add(op, set.clone(), items, done))
    }

    #[tokio::test(start_paused = true)]
    async fn an_add_that_is_late_before_its_turn_is_refused_and_those_beside_it_are_not() {
        let store = Rc::new(MemoryStore::default());
        let (turns, set) = (Rc::new(TurnTaking::new(Rc::clone(&store) as Rc<dyn ItemSession>)), set("u-1"));
        let op = Operation::new(Timestamp::MIN, Ttl::MAX, Instant::now() + Duration::from_secs(60));
        let alone = turns.alone(&set, op.deadline).await.unwrap();
        let (first, first_waits) = begin(&turns, &set, "first", 90);
        let (late, late_waits) = begin(&turns, &set, "late", 20);
        let (third, third_waits) = begin(&turns, &set, "third", 90);
        assert!(first_waits.is_some() && late_waits.is_none() && third_waits.is_none(), "two wait with the first");
        let (patient, patient_waits) = begin(&turns, &set, "patient", 60_000);
        assert!(patient_waits.is_some(), "its deadline is another one");
        let mut waits = join_all(first_waits.into_iter().chain(patient_waits));
        tokio::select! {
            _ = &mut waits => panic!("nobody has had a turn"),
            refused = late => assert!(matches!(refused, Ok(Err(StoreError::Timeout { outcome_unknown: false })))),
        }
        drop(alone);
        waits.await;
        for added in [first, third, patient] {
            added.await.unwrap().unwrap();
        }
        let members = ["first", "late", "third", "patient"].map(Bytes::from);
        let found = store.lookup(&op, &set, &members).await.unwrap();
        assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true, true]);
        assert!(turns.lists.wanted().is_empty() && turns.waiting.borrow().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn adds_that_are_all_late_leave_the_turn_to_others() {
        let turns = Rc::new(TurnTaking::new(Rc::new(MemoryStore::default())));
        let (here, there) = (set("u-1"), set("u-2"));
        let alone = turns.alone(&here, Instant::now() + Duration::from_secs(60)).await.unwrap();
        let ((one, waits), (other, none)) = (begin(&turns, &here, "one", 30), begin(&turns, &here, "other", 20));
        assert!(none.is_none());
        waits.unwrap().await;
        for late in [one, other] {
            assert!(matches!(late.await, Ok(Err(StoreError::Timeout { outcome_unknown: false }))));
        }
        assert!(turns.waiting.borrow().is_empty());
        let (elsewhere, waits) = begin(&turns, &there, "elsewhere", 30);
        waits.unwrap().await;
        elsewhere.await.unwrap().unwrap();
        drop(alone);
        assert!(turns.lists.wanted().is_empty());
    }
}
