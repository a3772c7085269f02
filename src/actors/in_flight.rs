//! Counts the operations of a routing by their lists, for the actors to which lists move.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

use smallvec::SmallVec;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::domain::Token;

/// Operations are counted by this many shares of the lists. Two lists of one share wait for each other when they move.
const SHARES: usize = 4_096;

/// The operations of one routing.
#[derive(Debug)]
pub(super) struct InFlight {
    counts: Box<[AtomicU32]>,
    /// Whether an operation of the next routing has waited.
    is_awaited: AtomicBool,
    ended: Notify,
}

/// Operations on some lists that are counted until this is dropped.
#[derive(Debug)]
pub(super) struct Counted {
    in_flight: Arc<InFlight>,
    shares: SmallVec<[u16; 2]>,
}

fn share_of(list: Token) -> u16 {
    // The token is a hash: its low bits are as good as others.
    (list.as_i64() as u64 % SHARES as u64) as u16
}

impl InFlight {
    pub fn new() -> Arc<Self> {
        let counts = (0..SHARES).map(|_| AtomicU32::new(0)).collect();
        Arc::new(Self { counts, is_awaited: AtomicBool::new(false), ended: Notify::new() })
    }

    fn counts(&self, share: u16) -> &AtomicU32 {
        &self.counts[usize::from(share)]
    }

    pub fn count(self: &Arc<Self>, lists: impl Iterator<Item = Token>) -> Counted {
        let shares: SmallVec<_> = lists.map(share_of).collect();
        for share in &shares {
            self.counts(*share).fetch_add(1, Ordering::SeqCst);
        }
        Counted { in_flight: Arc::clone(self), shares }
    }

    /// The operations of a list's share.
    #[cfg(test)]
    pub fn of(&self, list: Token) -> u32 {
        self.counts(share_of(list)).load(Ordering::SeqCst)
    }

    /// Waits until no operation of a list's share runs, at most until `until`. Returns whether that is so.
    pub async fn ended(&self, list: Token, until: Instant) -> bool {
        let count = self.counts(share_of(list));
        self.is_awaited.store(true, Ordering::SeqCst);
        loop {
            let mut ended = pin!(self.ended.notified());
            ended.as_mut().enable();
            // Pairs with the fence in `Admission::enter`.
            fence(Ordering::SeqCst);
            if count.load(Ordering::SeqCst) == 0 {
                return true;
            }
            if timeout_at(until, ended).await.is_err() {
                return false;
            }
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        for share in &self.shares {
            let was_last = self.in_flight.counts(*share).fetch_sub(1, Ordering::SeqCst) == 1;
            if was_last && self.in_flight.is_awaited.load(Ordering::SeqCst) {
                self.in_flight.ended.notify_waiters();
            }
        }
    }
}
