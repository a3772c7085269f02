//! Bounds the number of connections, and selects the one that makes way for a new one.
//!
//! Each connection has a slot. When all slots are taken, a new connection replaces the connection that has waited
//! longest for its client, because ending that one loses nothing. Every connection waits for a request in this sense. A
//! connection without a known caller also waits for a body, for the reading of its answers, and for its next turn.
//! Connections of known callers are replaced last.
//!
//! If no connection waits, the new one gets one of few slots in reserve. A connection there gets answers about health
//! only, unless there is room once its request has arrived. If the reserve is full too, the connection that has waited
//! longest in it ends. So health requests are always answered, because they arrive with their connection, regardless of
//! the number of silent connections.
//!
//! One lock covers the decisions at the beginning and the end of a connection. Changes between waiting and working do
//! not take it. One exchange of a member's role decides whether it was sent away before its request arrived, so the
//! number of members never exceeds its limit.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use tokio::sync::Notify;
use tokio::time::{Duration, Instant, timeout};

/// Slots in addition to the members': for the reserve, and for connections that must leave and have not left yet.
pub(crate) const EXTRA: usize = 256;
/// How long a connection waits for a slot of the reserve.
const ENTRY_TIMEOUT: Duration = Duration::from_secs(5);

/// The content of a slot. It changes only under the lock, except for members' changes between waiting and working.
mod role {
    pub const FREE: u8 = 0;
    /// May send any request, and waits for one.
    pub const WAITING: u8 = 1;
    /// May send any request, and has one, or has just begun.
    pub const WORKING: u8 = 2;
    /// In the reserve.
    pub const SPARE: u8 = 3;
    /// Must leave. Another connection already has its place.
    pub const LEAVING: u8 = 4;
}

/// Each in a separate cache line, because workers write to their cells with every request.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Cell {
    role: AtomicU8,
    /// The start of the wait for a request, in milliseconds of the slots' time. 0 before the first wait, and while a
    /// connection in the reserve does not wait.
    waits_since: AtomicU64,
    /// Whether its last request came from a known caller.
    is_known: AtomicBool,
    waker: AtomicWaker,
}

impl Cell {
    /// Exchanges one role for another. Returns false if the cell has a different role.
    fn takes(&self, from: u8, to: u8) -> bool {
        self.role.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

#[derive(Debug)]
struct State {
    free: Vec<usize>,
    members: usize,
}

#[derive(Debug)]
pub(crate) struct Slots {
    cells: Box<[Cell]>,
    members_max: usize,
    began: Instant,
    state: Mutex<State>,
    freed: Notify,
}

impl Slots {
    /// Makes slots for this many members.
    pub fn new(members_max: usize) -> Arc<Self> {
        let cells: Box<[Cell]> = (0..members_max + EXTRA).map(|_| Cell::default()).collect();
        // The first cells first, so that few connections are found among few cells.
        let free = (0..cells.len()).rev().collect();
        let state = Mutex::new(State { free, members: 0 });
        Arc::new(Self { cells, members_max, began: Instant::now(), state, freed: Notify::new() })
    }

    /// A slot for a new connection; `None` if even the reserve has been busy for too long.
    pub async fn enter(self: &Arc<Self>) -> Option<Slot> {
        let entering = async {
            loop {
                let mut freed = std::pin::pin!(self.freed.notified());
                // From here on every freed slot is noticed.
                freed.as_mut().enable();
                if let Some(slot) = self.try_enter() {
                    return slot;
                }
                freed.await;
            }
        };
        timeout(ENTRY_TIMEOUT, entering).await.ok()
    }

    fn try_enter(self: &Arc<Self>) -> Option<Slot> {
        let mut state = self.state();
        let Some(cell) = state.free.pop() else {
            self.send_away(role::SPARE);
            return None;
        };
        let role = if self.make_member(&mut state) { role::WORKING } else { role::SPARE };
        self.cells[cell].role.store(role, Ordering::Release);
        Some(Slot { slots: Arc::clone(self), cell })
    }

    /// Counts one more member, which replaces a waiting one if necessary.
    fn make_member(&self, state: &mut State) -> bool {
        let has_room = state.members < self.members_max;
        if has_room {
            state.members += 1;
        }
        has_room || self.send_away(role::WAITING)
    }

    /// Makes the connection of this role leave that has waited longest, strangers first. Under the lock.
    fn send_away(&self, role: u8) -> bool {
        loop {
            let waiting = self.cells.iter().filter(|cell| cell.role.load(Ordering::Acquire) == role);
            let waiting = waiting.filter_map(|cell| {
                let since = cell.waits_since.load(Ordering::Relaxed);
                (since > 0).then_some((cell.is_known.load(Ordering::Relaxed), since, cell))
            });
            let Some((.., cell)) = waiting.min_by_key(|(is_known, since, _)| (*is_known, *since)) else { return false };
            // If its request has arrived, it stays.
            if cell.takes(role, role::LEAVING) {
                cell.waker.wake();
                return true;
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's slot, held until drop.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Arc<Slots>,
    cell: usize,
}

impl Slot {
    fn cell(&self) -> &Cell {
        &self.slots.cells[self.cell]
    }

    /// Records that the connection waits for its client since then. Ready once the connection must leave.
    pub fn poll_leave(&self, since: Instant, context: &Context<'_>) -> Poll<()> {
        self.cell().waker.register(context.waker());
        self.rest(since);
        if self.is_leaving() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Records that the connection can give up its slot since then, even if it has another request, which is admitted
    /// as any other. It does not wake the connection.
    pub(super) fn rest(&self, since: Instant) {
        let cell = self.cell();
        let since = since.saturating_duration_since(self.slots.began).as_millis() as u64 + 1;
        cell.waits_since.store(since, Ordering::Relaxed);
        cell.takes(role::WORKING, role::WAITING);
    }

    /// Whether another connection has its place, so that it must end.
    pub fn is_leaving(&self) -> bool {
        self.role() == role::LEAVING
    }

    /// Whether it waited since its last request, so that another connection may have its place.
    pub(super) fn has_waited(&self) -> bool {
        matches!(self.role(), role::WAITING | role::LEAVING)
    }

    /// Records whether the caller of the connection's last request is known.
    pub(super) fn note_caller(&self, is_known: bool) {
        self.cell().is_known.store(is_known, Ordering::Relaxed);
    }

    pub(super) fn is_spare(&self) -> bool {
        self.role() == role::SPARE
    }

    fn role(&self) -> u8 {
        self.cell().role.load(Ordering::Acquire)
    }

    /// Records that the connection has a request, and must not leave. Returns whether the request may be for anything.
    /// A connection in the reserve may send any request if there is room now. So may a connection whose request arrived
    /// while it had to leave: it stays.
    pub(super) fn admit(&self) -> bool {
        let cell = self.cell();
        if cell.takes(role::WAITING, role::WORKING) || self.role() == role::WORKING {
            return true;
        }
        cell.waits_since.store(0, Ordering::Relaxed);
        let mut state = self.slots.state();
        let admitted = self.slots.make_member(&mut state);
        if admitted {
            cell.role.store(role::WORKING, Ordering::Release);
        }
        admitted
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let cell = self.cell();
        let mut state = self.slots.state();
        if matches!(cell.role.swap(role::FREE, Ordering::AcqRel), role::WAITING | role::WORKING) {
            state.members -= 1;
        }
        cell.waits_since.store(0, Ordering::Relaxed);
        cell.is_known.store(false, Ordering::Relaxed);
        drop(cell.waker.take());
        state.free.push(self.cell);
        drop(state);
        self.slots.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::task::Waker;

    use super::*;

    fn waits(slot: &Slot, secs: u64) -> bool {
        let since = slot.slots.began + Duration::from_secs(secs);
        slot.poll_leave(since, &Context::from_waker(Waker::noop())).is_pending()
    }

    #[test]
    fn the_longest_waiting_connection_makes_room() {
        let slots = Slots::new(3);
        let [first, second, third] = [(); 3].map(|()| slots.try_enter().unwrap());
        assert!(waits(&first, 2) && waits(&second, 1) && waits(&third, 3));
        // It has a request now.
        assert!(second.admit());
        let fourth = slots.try_enter().unwrap();
        assert_eq!([&first, &second, &third, &fourth].map(|slot| slot.is_leaving()), [true, false, false, false]);
        assert!(!waits(&first, 4) && !fourth.is_spare());
        // Its place was taken when it had to leave, not when it left.
        let fifth = slots.try_enter().unwrap();
        assert!(third.is_leaving() && !fifth.is_spare());
        let sixth = slots.try_enter().unwrap();
        assert!(sixth.is_spare() && !sixth.admit());
        // A connection that must leave cannot begin a request while all other connections work.
        assert!(!first.admit() && first.is_leaving());
        drop(fifth);
        assert!(sixth.admit() && !sixth.is_spare());
        drop(second);
        assert!(first.admit() && !first.is_leaving());
        drop((first, third, fourth, sixth));
        let state = slots.state();
        assert_eq!((state.members, state.free.len()), (0, 3 + EXTRA));
    }

    #[test]
    fn anonymous_callers_make_room_before_known_ones() {
        let slots = Slots::new(3);
        let [known, first, second] = [(); 3].map(|()| slots.try_enter().unwrap());
        known.note_caller(true);
        assert!(waits(&known, 1) && waits(&first, 2) && waits(&second, 3));
        let mut newest = Vec::new();
        for leaving in [[false, true, false], [false, true, true], [true, true, true]] {
            newest.push(slots.try_enter().unwrap());
            assert_eq!([&known, &first, &second].map(|slot| slot.is_leaving()), leaving);
        }
        // A freed slot retains nothing of its connection.
        drop((known, newest));
        assert!(slots.cells.iter().all(|cell| !cell.is_known.load(Ordering::Relaxed)));
    }

    #[test]
    fn a_connection_can_leave_between_its_requests() {
        let slots = Slots::new(1);
        let first = slots.try_enter().unwrap();
        first.rest(slots.began);
        assert!(first.admit() && slots.try_enter().unwrap().is_spare());
        first.rest(slots.began);
        assert!(!slots.try_enter().unwrap().is_spare() && first.is_leaving());
    }

    #[test]
    fn the_reserve_is_for_the_latest() {
        let slots = Slots::new(1);
        let busy = slots.try_enter().unwrap();
        let reserve: Vec<_> = (0..EXTRA).map(|_| slots.try_enter().unwrap()).collect();
        reserve.iter().enumerate().for_each(|(number, slot)| assert!(waits(slot, 1 + number as u64)));
        assert!(reserve.iter().all(Slot::is_spare) && !busy.is_spare());
        assert!(slots.try_enter().is_none());
        assert!(reserve[0].is_leaving() && !reserve[1].is_leaving());
        drop(reserve);
        assert!(slots.try_enter().unwrap().is_spare());
        drop(busy);
        assert!(!slots.try_enter().unwrap().is_spare());
    }

    /// A request may arrive at the moment in which a new connection replaces its own. If both were admitted, health
    /// checks would find no room.
    #[test]
    fn a_request_and_a_new_connection_never_share_a_slot() {
        const ROUNDS: usize = 20_000;
        let slots = Slots::new(1);
        for _ in 0..ROUNDS {
            let first = slots.try_enter().unwrap();
            assert!(waits(&first, 1));
            let together = Barrier::new(2);
            let (admitted, second) = std::thread::scope(|threads| {
                let entering = threads.spawn(|| {
                    together.wait();
                    slots.try_enter().unwrap()
                });
                together.wait();
                (first.admit(), entering.join().unwrap())
            });
            assert!(!(admitted && second.admit()));
        }
    }

    #[tokio::test]
    async fn a_connection_without_a_slot_waits_for_one() {
        let slots = Slots::new(1);
        let _busy = slots.try_enter().unwrap();
        let mut reserve: Vec<_> = (0..EXTRA).map(|_| slots.try_enter().unwrap()).collect();
        let ending = async {
            tokio::task::yield_now().await;
            reserve.pop();
        };
        let (entered, ()) = tokio::join!(slots.enter(), ending);
        assert!(entered.unwrap().is_spare());
    }
}
