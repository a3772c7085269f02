//! How much room the disk has left, and what of it is kept.
//!
//! A full disk is emptied by removals, and what those hide is given back by merges; both need room
//! themselves. So adds end while there is a reserve, which is left to them, and to the flush of what is
//! pending.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::Space;

/// The disk is looked at so often while there are writes, or after so many bytes, or an eighth of the
/// reserve.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
const LOOK_BYTES: u64 = 1 << 20;
/// The most that is kept, beside some data files.
const RESERVE_MAX: u64 = 64 << 20;

pub struct Room {
    began: Instant,
    /// When it is to be looked at again, in milliseconds since the beginning.
    due_at: AtomicU64,
    unlooked_bytes: AtomicU64,
    free: AtomicU64,
    reserve: AtomicU64,
    low: AtomicBool,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            due_at: AtomicU64::new(0),
            unlooked_bytes: AtomicU64::new(0),
            free: AtomicU64::new(u64::MAX),
            reserve: AtomicU64::new(0),
            low: AtomicBool::new(false),
        }
    }
}

/// What is kept of a disk, where data files have so many bytes.
pub fn reserve(space: Space, file_bytes: u64) -> u64 {
    (space.total / 8).min(RESERVE_MAX + 4 * file_bytes)
}

impl Room {
    /// Whether the disk is to be looked at, after some more bytes were written.
    pub fn is_due(&self, wrote: usize) -> bool {
        let wrote = wrote as u64;
        let unlooked = self.unlooked_bytes.fetch_add(wrote, Ordering::Relaxed) + wrote;
        let reserve = self.reserve.load(Ordering::Relaxed);
        unlooked >= LOOK_BYTES.min(reserve / 8) || self.now() >= self.due_at.load(Ordering::Relaxed)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Notes what there is; `None` if the disk does not say. `pending` bytes are still to be written to
    /// data files. Tells whether adds end, or are taken again, by it.
    pub fn note(&self, space: Option<Space>, file_bytes: u64, pending: u64) -> bool {
        self.unlooked_bytes.store(0, Ordering::Relaxed);
        self.due_at.store(self.now() + LOOK_INTERVAL.as_millis() as u64, Ordering::Relaxed);
        let (free, reserve) = space.map_or((u64::MAX, 0), |space| (space.free, reserve(space, file_bytes)));
        self.free.store(free, Ordering::Relaxed);
        self.reserve.store(reserve, Ordering::Relaxed);
        // A little more until they are taken again, lest they be taken and refused by turns.
        let kept = if self.is_low() { reserve + reserve / 4 } else { reserve };
        let low = free < kept.saturating_add(pending);
        self.low.swap(low, Ordering::AcqRel) != low
    }

    /// Whether only the reserve is left.
    pub fn is_low(&self) -> bool {
        self.low.load(Ordering::Acquire)
    }

    /// Why no adds are taken.
    pub fn reason(&self) -> Option<String> {
        self.is_low().then(|| {
            let (free, reserve) = (self.free.load(Ordering::Relaxed), self.reserve.load(Ordering::Relaxed));
            format!(
                "the disk has {} KiB left, but {} KiB, plus room for the memtable, are reserved for removals and \
                 compactions",
                free >> 10,
                reserve >> 10
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn adds_end_with_the_reserve_and_what_is_pending_still_there() {
        let room = Room::default();
        let at = |free, pending| room.note(Some(Space { free: free * MIB, total: 80 * MIB }), MIB, pending * MIB);
        assert!(!at(40, 20) && !at(30, 20) && !room.is_low());
        assert!(at(29, 20) && room.is_low() && room.reason().is_some());
        // What is pending was written, and adds are taken once there is a little more.
        assert!(!at(12, 0) && room.is_low());
        assert!(at(13, 0) && !room.is_low() && room.reason().is_none());
        assert!(!room.note(None, MIB, u64::MAX));
    }

    #[test]
    fn a_large_disk_keeps_no_share() {
        let total = 4 << 40;
        assert_eq!(reserve(Space { free: 0, total }, 256 * MIB), 64 * MIB + 1_024 * MIB);
    }
}
