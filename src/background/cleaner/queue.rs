//! The Cleaner's repairs: bounded, and the newest report comes first.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::domain::{EntityId, FeatureKey, ListKey, Timestamp};
use crate::items::{EntryChange, SwapId};

/// Beyond this number, the oldest reports are dropped. A later reader reports them again.
const WAITING_MAX: usize = 10_000;
/// Beyond this number, the Cleaner does not search for noted swaps: they would push out reports that exist nowhere
/// else.
const MUCH: usize = WAITING_MAX / 2;
/// A write that has swapped a bag and is about to change its entries has this long before its rest is repaired.
const SOON: Duration = Duration::from_millis(500);

/// A disagreement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wrong {
    /// A bag of which some entries may be missing, and some of the entries that these changes took out may still
    /// exist.
    Bag { list: ListKey, entries: Vec<EntryChange>, noted: Option<Noted> },
    /// An entry that its bag does not have.
    Entry { list: ListKey, place: Timestamp, entity: EntityId },
}

/// A swap that is noted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Noted {
    pub swap: SwapId,
    /// Whether to remove the note once its bag is repaired.
    pub is_last: bool,
    /// The indexes that its bag was entered in.
    pub entered_in: Option<Vec<FeatureKey>>,
}

/// A repair that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Due {
    pub what: Wrong,
    since: Instant,
    not_before: Instant,
}

impl Due {
    pub fn at_once(what: Wrong) -> Self {
        let now = Instant::now();
        Self { what, since: now, not_before: now }
    }

    pub fn soon(what: Wrong) -> Self {
        let now = Instant::now();
        Self { what, since: now, not_before: now + SOON }
    }

    /// By which it is known again. Bags are not, but by their swaps: each time others of their entries may be
    /// concerned.
    fn key(&self) -> Option<Key> {
        match &self.what {
            Wrong::Bag { noted, .. } => noted.as_ref().map(|noted| Key::Swap(noted.swap.clone())),
            Wrong::Entry { list, place, entity } => Some(Key::Entry(list.clone(), *place, entity.clone())),
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
enum Key {
    Swap(SwapId),
    Entry(ListKey, Timestamp, EntityId),
}

#[derive(Debug, Default)]
struct State {
    /// The newest report is the last one.
    waiting: VecDeque<Due>,
    keys: HashSet<Key>,
    /// When the repairs in progress were reported.
    at_work: Vec<Instant>,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    news: Notify,
}

impl Queue {
    /// Returns whether nothing had to be dropped for it.
    pub fn add(&self, due: Due) -> bool {
        let mut state = self.state();
        if due.key().is_some_and(|key| !state.keys.insert(key)) {
            return true;
        }
        state.waiting.push_back(due);
        let kept = state.keep_bound();
        drop(state);
        self.news.notify_one();
        kept
    }

    /// Waits for due repairs, and takes at most `most`, newest first. Call [`Queue::ended`] before the next call.
    pub async fn next(&self, most: usize) -> Vec<Due> {
        loop {
            let next_at = match self.state().take(most, Instant::now()) {
                Ok(taken) => return taken,
                Err(next_at) => next_at,
            };
            match next_at {
                Some(at) => {
                    let _at_the_latest = timeout_at(at, self.news.notified()).await;
                }
                None => self.news.notified().await,
            }
        }
    }

    /// Ends the repairs in progress. Failed ones go behind all others.
    pub fn ended(&self, failed: Vec<Due>) {
        let mut state = self.state();
        state.at_work.clear();
        for due in failed {
            if due.key().is_none_or(|key| state.keys.insert(key)) {
                state.waiting.push_front(due);
            }
        }
        state.keep_bound();
    }

    /// Repairs that wait or are in progress.
    pub fn len(&self) -> usize {
        let state = self.state();
        state.waiting.len() + state.at_work.len()
    }

    /// Whether there is no space for reports that also exist elsewhere.
    pub fn has_much(&self) -> bool {
        self.len() > MUCH
    }

    /// For how long the oldest of it has been known.
    pub fn lag(&self) -> Duration {
        let state = self.state();
        let oldest = state.waiting.iter().map(|due| due.since).chain(state.at_work.iter().copied()).min();
        oldest.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes due repairs. If none is due, returns the time when the next one will be, if there is one.
    fn take(&mut self, most: usize, now: Instant) -> Result<Vec<Due>, Option<Instant>> {
        let due: Vec<_> =
            (0..self.waiting.len()).rev().filter(|at| self.waiting[*at].not_before <= now).take(most).collect();
        if due.is_empty() {
            return Err(self.waiting.iter().map(|due| due.not_before).min());
        }
        let taken: Vec<_> = due.into_iter().filter_map(|at| self.waiting.remove(at)).collect();
        for key in taken.iter().filter_map(Due::key) {
            self.keys.remove(&key);
        }
        self.at_work = taken.iter().map(|due| due.since).collect();
        Ok(taken)
    }

    fn keep_bound(&mut self) -> bool {
        let surplus = self.waiting.len().saturating_sub(WAITING_MAX);
        for dropped in self.waiting.drain(..surplus) {
            if let Some(key) = dropped.key() {
                self.keys.remove(&key);
            }
        }
        surplus == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{EntityType, FeatureId, Generation, VersionLabel};

    fn list(entity: &str) -> ListKey {
        let id = FeatureId::of_bags(EntityType::new("t").unwrap());
        let key = FeatureKey::new(&id, &VersionLabel::new("i").unwrap(), Generation::FIRST);
        ListKey::new(key, EntityId::new(entity).unwrap())
    }

    fn bag(entity: &str) -> Due {
        Due::at_once(Wrong::Bag { list: list(entity), entries: Vec::new(), noted: None })
    }

    fn entry(place: u64) -> Due {
        let (place, entity) = (Timestamp::from_nanos(place).unwrap(), EntityId::new("e").unwrap());
        Due::soon(Wrong::Entry { list: list("v"), place, entity })
    }

    #[tokio::test(start_paused = true)]
    async fn the_newest_entry_comes_first_and_failed_ones_last() {
        let queue = Queue::default();
        let (a, b, c) = (bag("a"), bag("b"), bag("c"));
        for due in [&a, &b, &c] {
            assert!(queue.add(due.clone()));
        }
        assert_eq!(queue.next(2).await, [c.clone(), b]);
        queue.ended(vec![c.clone()]);
        assert_eq!(queue.len(), 2);
        assert_eq!(queue.next(1).await, [a]);
        queue.ended(Vec::new());
        assert_eq!(queue.next(9).await, [c]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_entry_waits_for_the_write_that_may_remove_it_and_is_queued_once() {
        let queue = Queue::default();
        assert!(queue.add(entry(1)) && queue.add(entry(1)) && queue.add(entry(2)));
        assert_eq!(queue.len(), 2);
        let began = Instant::now();
        assert_eq!(queue.next(9).await.len(), 2);
        assert_eq!(began.elapsed(), SOON);
        assert_eq!(queue.lag(), SOON, "what is being repaired lags, too");
        queue.ended(Vec::new());
        assert_eq!((queue.len(), queue.lag()), (0, Duration::ZERO));
        assert!(queue.add(entry(1)));
        assert_eq!(queue.len(), 1, "it is there again");
    }

    /// Otherwise a swap that cannot be repaired for now, and that each check finds again, would fill the queue.
    #[tokio::test(start_paused = true)]
    async fn a_noted_swap_is_queued_once() {
        let queue = Queue::default();
        let swap = |id: u128, is_last: bool| {
            let swap = SwapId::new(id.to_be_bytes().to_vec());
            let noted = Some(Noted { swap, is_last, entered_in: None });
            Due::at_once(Wrong::Bag { list: list("e"), entries: Vec::new(), noted })
        };
        for id in 0..10 {
            assert!(queue.add(swap(id, false)) && queue.add(swap(id, false)) && queue.add(swap(id, true)));
        }
        assert_eq!(queue.len(), 10);
        let taken = queue.next(9).await;
        assert!(queue.add(swap(9, false)), "it may be as it was again");
        queue.ended(taken);
        assert_eq!(queue.len(), 10);
        assert!(!queue.has_much());
        (10..=MUCH as u128).for_each(|id| assert!(queue.add(swap(id, false))));
        assert!(queue.has_much());
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_entry_is_dropped_for_newer_ones() {
        let queue = Queue::default();
        assert!((1..=WAITING_MAX as u64).all(|place| queue.add(entry(place))));
        assert!(!queue.add(bag("a")));
        assert_eq!(queue.len(), WAITING_MAX);
        assert_eq!(queue.next(1).await.len(), 1);
        queue.ended(Vec::new());
        assert!(queue.add(entry(1)), "there is room, and it is known no more");
        assert_eq!(queue.len(), WAITING_MAX);
    }
}
