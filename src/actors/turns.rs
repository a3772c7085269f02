//! Turns: which operations on one list must not overlap.
//!
//! A removal of some items first finds the items and then removes them. Two overlapping removals would both count the
//! same item, and in some stores a write in between would be lost in part. So a removal has its list
//! [alone](Turn::Alone) from before its search until its end. Other writes [share](Turn::Shared) their list. Reads take
//! no turn. A list has one actor that writes to it, so turns exist once for each actor.
//!
//! A swap of a bag compares the bag with the one that was read, and has the bag alone.
//!
//! An add to a set first finds the present members, and so has the set alone. Adds that wait for the same set with no
//! other write between them share one turn, and go to the store together.
//!
//! An operation that has a turn may wait for room in the store. So an operation that still waits for its turn must not
//! hold such room: a write takes its turn first, and goes to the store after that.

use std::cell::RefCell;
use std::collections::HashMap;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock, oneshot};
use tokio::time::{Instant, timeout_at};

use super::waiting_adds::WaitingAdds;
use crate::domain::{ListKey, NewItem};
use crate::items::{Done, ItemSession, JoinedAdds, OpContext, RemovalTurns, SetAdd, StoreError, ToAwait};

/// The turn that an operation takes on its list, from before it goes to the store until the store has finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// For reads, and for writes that no other operation can disturb.
    None,
    /// Next to other operations that share the list.
    Shared,
    /// With no other operation that takes a turn.
    Alone,
}

impl Turn {
    /// The turn of an operation that removes all items of a list.
    pub fn to_clear(list: &ListKey) -> Self {
        if list.identity().is_set() || list.feature_key.is_of_bags() { Self::Alone } else { Self::Shared }
    }
}

/// A turn that was taken. It ends when this is dropped, on any thread.
pub enum TurnTaken {
    None,
    Shared(SharedTurn),
    Alone(SoleTurn),
    /// On several lists.
    AloneOnEach(Vec<SoleTurn>),
}

/// The turns of the lists of one session.
pub struct ListTurns {
    session: Rc<dyn ItemSession>,
    joined_adds: Option<Rc<dyn JoinedAdds>>,
    lists: Arc<ListLocks>,
    /// By set: the adds that wait behind all other writes.
    waiting: RefCell<HashMap<Arc<[u8]>, JoinedWaitingAdds>>,
}

type JoinedWaitingAdds = Rc<RefCell<WaitingAdds>>;

/// The lists, by their bytes, on which an operation has a turn or waits for one. At most as many as operations in
/// flight name.
#[derive(Default)]
struct ListLocks(Mutex<HashMap<Arc<[u8]>, ListUse>>);

#[derive(Default)]
struct ListUse {
    lock: Arc<RwLock<()>>,
    /// How many operations wait for it or have it.
    by: usize,
}

impl ListLocks {
    fn wanted(&self) -> MutexGuard<'_, HashMap<Arc<[u8]>, ListUse>> {
        // No panic leaves the map half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lock of a list while an operation waits for it or has it. The last one removes it.
struct ListLock {
    lists: Arc<ListLocks>,
    list: Arc<[u8]>,
    lock: Arc<RwLock<()>>,
}

/// A turn next to others of its kind.
pub struct SharedTurn {
    // Dropped in this order: the lock checks whether it was the last.
    _guard: OwnedRwLockReadGuard<()>,
    _lock: ListLock,
}

/// A turn alone.
pub struct SoleTurn {
    _guard: OwnedRwLockWriteGuard<()>,
    _lock: ListLock,
}

type AwaitedTurn = Pin<Box<dyn Future<Output = OwnedRwLockWriteGuard<()>>>>;

impl ListTurns {
    pub fn of(session: Rc<dyn ItemSession>) -> Rc<Self> {
        let joined_adds = Rc::clone(&session).joined_adds();
        Rc::new(Self { session, joined_adds, lists: Arc::default(), waiting: RefCell::default() })
    }

    pub fn session(&self) -> &dyn ItemSession {
        &*self.session
    }

    /// Takes a turn on a list, as soon as it is free.
    pub async fn take(&self, turn: Turn, list: &ListKey, deadline: Instant) -> Result<TurnTaken, StoreError> {
        Ok(match turn {
            Turn::None => TurnTaken::None,
            // Only removals have a list alone, and they need not be kept apart from writes that share it.
            Turn::Shared if self.session.removal_turns() == RemovalTurns::BetweenRemovals => TurnTaken::None,
            Turn::Shared => TurnTaken::Shared(self.shared(list, deadline).await?),
            Turn::Alone => TurnTaken::Alone(self.alone(list, deadline).await?),
        })
    }

    /// Takes a turn alone on each of these lists.
    pub async fn take_each(&self, lists: &[ListKey], deadline: Instant) -> Result<TurnTaken, StoreError> {
        // Each once, and always in the same order, so that two operations never wait for each other.
        let mut lists: Vec<&ListKey> = lists.iter().collect();
        lists.sort_unstable_by_key(|list| list.bytes());
        lists.dedup();
        let mut turns = Vec::with_capacity(lists.len());
        for list in lists {
            turns.push(self.alone(list, deadline).await?);
        }
        Ok(TurnTaken::AloneOnEach(turns))
    }

    /// Starts an add in its turn, as [`ItemSession::start_add`] does.
    pub fn start_add(
        self: &Rc<Self>,
        op: OpContext,
        list: ListKey,
        items: Vec<NewItem>,
        done: Done,
    ) -> Option<ToAwait> {
        if list.identity().is_set() {
            return Rc::clone(self).start_add_to_set(list, SetAdd { op, items, done });
        }
        let session = Rc::clone(&self.session);
        if session.removal_turns() == RemovalTurns::BetweenRemovals {
            return session.start_add(op, list, items, done);
        }
        if self.is_free(&list) {
            let to_await = session.start_add(op, list.clone(), items, done)?;
            // It is not among the list's writes yet: until it is, no operation may have the list alone.
            let turn = self.shared_at_once(&list);
            return Some(Box::pin(async move {
                to_await.await;
                drop(turn);
            }));
        }
        let turns = Rc::clone(self);
        Some(Box::pin(async move {
            match turns.shared(&list, op.deadline).await {
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

    /// Whether a write that ends at once needs no turn.
    fn is_free(&self, list: &ListKey) -> bool {
        let lists = self.lists.wanted();
        lists.is_empty() || !lists.contains_key(list.bytes())
    }

    /// The lock of a list, for an operation that comes now. Later adds to a set wait behind it.
    fn lock(&self, list: &ListKey) -> ListLock {
        self.close_joins(list);
        let mut lists = self.lists.wanted();
        let wanted = lists.entry(Arc::clone(list.bytes())).or_default();
        wanted.by += 1;
        ListLock { lists: Arc::clone(&self.lists), list: Arc::clone(list.bytes()), lock: Arc::clone(&wanted.lock) }
    }

    async fn shared(&self, list: &ListKey, deadline: Instant) -> Result<SharedTurn, StoreError> {
        let lock = self.lock(list);
        let guard = timeout_at(deadline, Arc::clone(&lock.lock).read_owned()).await.map_err(|_| late())?;
        Ok(SharedTurn { _guard: guard, _lock: lock })
    }

    /// The same for a list that is free.
    fn shared_at_once(&self, list: &ListKey) -> Option<SharedTurn> {
        let lock = self.lock(list);
        let guard = Arc::clone(&lock.lock).try_read_owned().ok()?;
        Some(SharedTurn { _guard: guard, _lock: lock })
    }

    async fn alone(&self, list: &ListKey, deadline: Instant) -> Result<SoleTurn, StoreError> {
        let lock = self.lock(list);
        let guard = timeout_at(deadline, Arc::clone(&lock.lock).write_owned()).await.map_err(|_| late())?;
        Ok(SoleTurn { _guard: guard, _lock: lock })
    }
}

/// Adds to sets.
impl ListTurns {
    fn start_add_to_set(self: Rc<Self>, list: ListKey, add: SetAdd) -> Option<ToAwait> {
        let Err(add) = self.join(&list, add) else { return None };
        let lock = self.lock(&list);
        if let Ok(guard) = Arc::clone(&lock.lock).try_write_owned() {
            return self.add_alone(SoleTurn { _guard: guard, _lock: lock }, list, vec![add]);
        }
        let mut turn: AwaitedTurn = Box::pin(Arc::clone(&lock.lock).write_owned());
        // Requested now, not at the first await: turns come in the order of adds and removals.
        match turn.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(guard) => self.add_alone(SoleTurn { _guard: guard, _lock: lock }, list, vec![add]),
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

    fn close_joins(&self, list: &ListKey) {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.is_empty() {
            waiting.remove(list.bytes());
        }
    }

    async fn add_in_turn(
        self: Rc<Self>,
        mut turn: AwaitedTurn,
        lock: ListLock,
        list: ListKey,
        waiting: JoinedWaitingAdds,
    ) {
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
        if let Some(to_await) = self.add_alone(SoleTurn { _guard: guard, _lock: lock }, list, adds) {
            to_await.await;
        }
    }

    /// Lets later adds wait together, now that these have their turn.
    fn forget_waiting(&self, list: &ListKey, waiting: &JoinedWaitingAdds) {
        let mut all = self.waiting.borrow_mut();
        if all.get(list.bytes()).is_some_and(|others| Rc::ptr_eq(others, waiting)) {
            all.remove(list.bytes());
        }
    }

    /// Adds to a set, which these adds have alone until later ones see their effect.
    fn add_alone(&self, turn: SoleTurn, list: ListKey, adds: Vec<SetAdd>) -> Option<ToAwait> {
        let turn = Arc::new(turn);
        let with_turn = |SetAdd { op, items, done }| {
            let turn = Arc::clone(&turn);
            let done: Done = Box::new(move |result| {
                // First, so that a caller who adds again after the answer does not wait for this turn.
                drop(turn);
                done(result);
            });
            SetAdd { op, items, done }
        };
        let adds = adds.into_iter().map(with_turn).collect();
        let to_await: ToAwait = match &self.joined_adds {
            Some(session) => Rc::clone(session).start_adds(list, adds)?,
            None => Box::pin(add_one_by_one(Rc::clone(&self.session), list, adds)),
        };
        Some(Box::pin(async move {
            to_await.await;
            drop(turn);
        }))
    }
}

async fn add_one_by_one(session: Rc<dyn ItemSession>, list: ListKey, adds: Vec<SetAdd>) {
    for SetAdd { op, items, done } in adds {
        let (ended, until_ended) = oneshot::channel();
        let done: Done = Box::new(move |result| {
            done(result);
            let _set_is_gone = ended.send(());
        });
        if let Some(to_await) = Rc::clone(&session).start_add(op, list.clone(), items, done) {
            to_await.await;
        }
        // Dropped unsent if the store has failed.
        let _ended = until_ended.await;
    }
}

impl Drop for ListLock {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use futures_util::future::join_all;

    use super::*;
    use crate::domain::{
        EntityId, EntityType, FeatureId, FeatureKey, FeatureName, Generation, Identity, Keep, Timestamp, Ttl,
        VersionLabel,
    };
    use crate::items::memory::MemoryStore;

    fn list(entity_id: &str) -> ListKey {
        let id = FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new("seen").unwrap() };
        let key = FeatureKey::new(&id, &VersionLabel::default_version(), Generation::FIRST);
        ListKey::new(key, EntityId::new(entity_id).unwrap())
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(20)
    }

    /// The turns come in one order, in any order of the lists.
    #[tokio::test]
    async fn turns_on_several_lists_wait_until_all_are_free() {
        let turns = ListTurns::of(Rc::new(MemoryStore::default()));
        let (both, reversed) = ([list("u-2"), list("u-1")], [list("u-1"), list("u-2"), list("u-1")]);
        let other = turns.alone(&list("u-2"), soon()).await.unwrap();
        let late = turns.take_each(&both, soon()).await;
        assert!(matches!(late, Err(StoreError::Timeout { outcome_unknown: false })));
        assert!(turns.is_free(&list("u-1")));
        drop(other);
        let later = Instant::now() + Duration::from_secs(60);
        let taken = turns.take_each(&both, later).await.unwrap();
        assert!(turns.take_each(&reversed, soon()).await.is_err());
        drop(taken);
        drop(turns.take_each(&reversed, later).await.unwrap());
        assert!(turns.lists.wanted().is_empty());
    }

    #[tokio::test]
    async fn a_removal_is_exclusive_and_adds_are_not() {
        let turns = ListTurns::of(Rc::new(MemoryStore::default()));
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
        // Waiting adds continue together once the removal has ended.
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

    /// An add to a set that waits, and its result.
    type Begun = (oneshot::Receiver<Result<(), StoreError>>, Option<ToAwait>);

    fn begin(turns: &Rc<ListTurns>, set: &ListKey, value: &'static str, millis: u64) -> Begun {
        let op = OpContext::new(Timestamp::MIN, Ttl::MAX, Instant::now() + Duration::from_millis(millis));
        let items = vec![NewItem { timestamp: Timestamp::MIN, value: value.into(), expires_at: u64::MAX }];
        let (reply, added) = oneshot::channel();
        let done: Done = Box::new(|result| reply.send(result).unwrap());
        (added, turns.start_add(op, set.clone(), items, done))
    }

    #[tokio::test(start_paused = true)]
    async fn an_add_that_is_late_before_its_turn_is_refused_alone() {
        let store = Rc::new(MemoryStore::default());
        let (turns, set) = (ListTurns::of(Rc::clone(&store) as Rc<dyn ItemSession>), set("u-1"));
        let op = OpContext::new(Timestamp::MIN, Ttl::MAX, Instant::now() + Duration::from_secs(60));
        let alone = turns.alone(&set, op.deadline).await.unwrap();
        let (first, first_waits) = begin(&turns, &set, "first", 90);
        let (late, late_waits) = begin(&turns, &set, "late", 20);
        let (third, third_waits) = begin(&turns, &set, "third", 90);
        assert!(first_waits.is_some() && late_waits.is_none() && third_waits.is_none(), "two wait with the first");
        let (patient, patient_waits) = begin(&turns, &set, "patient", 60_000);
        assert!(patient_waits.is_some(), "its deadline is another one");
        let mut waits = join_all(first_waits.into_iter().chain(patient_waits));
        tokio::select! {
            _ = &mut waits => panic!("no caller has had a turn"),
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
    async fn a_turn_of_only_late_adds_passes_to_others() {
        let turns = ListTurns::of(Rc::new(MemoryStore::default()));
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
