//! The free space of the disk, and the reserve.
//!
//! Removals empty a full disk, and compactions free the space of hidden items. Both need space themselves. So adds are
//! refused before the disk is full. The reserve is left to removals, compactions and the flush of the memtable.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::Space;

/// The interval between checks of the disk during writes. A check also follows this many bytes, or an eighth of the
/// reserve.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
const CHECK_BYTES: u64 = 1 << 20;
/// The largest reserve, without the share for data files.
const RESERVE_MAX: u64 = 64 << 20;

pub struct Room {
    began: Instant,
    /// When the next check is due, in milliseconds since the start.
    due_at: AtomicU64,
    unchecked_bytes: AtomicU64,
    free: AtomicU64,
    reserve: AtomicU64,
    low: AtomicBool,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            due_at: AtomicU64::new(0),
            unchecked_bytes: AtomicU64::new(0),
            free: AtomicU64::new(u64::MAX),
            reserve: AtomicU64::new(0),
            low: AtomicBool::new(false),
        }
    }
}

/// The reserve of a disk with data files of this size.
pub fn reserve(space: Space, file_bytes: u64) -> u64 {
    (space.total / 8).min(RESERVE_MAX + 4 * file_bytes)
}

impl Room {
    /// Whether a check is due, after `wrote` more bytes were written.
    pub fn is_due(&self, wrote: usize) -> bool {
        let wrote = wrote as u64;
        let unchecked = self.unchecked_bytes.fetch_add(wrote, Ordering::Relaxed) + wrote;
        let reserve = self.reserve.load(Ordering::Relaxed);
        unchecked >= CHECK_BYTES.min(reserve / 8) || self.now() >= self.due_at.load(Ordering::Relaxed)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Records the free space; `None` if it is unknown. `pending` bytes must still be written to data files. Returns
    /// whether this stops or resumes adds.
    pub fn note(&self, space: Option<Space>, file_bytes: u64, pending: u64) -> bool {
        self.unchecked_bytes.store(0, Ordering::Relaxed);
        self.due_at.store(self.now() + CHECK_INTERVAL.as_millis() as u64, Ordering::Relaxed);
        let (free, reserve) = space.map_or((u64::MAX, 0), |space| (space.free, reserve(space, file_bytes)));
        self.free.store(free, Ordering::Relaxed);
        self.reserve.store(reserve, Ordering::Relaxed);
        // Requires a little more before adds resume, so that they do not alternate.
        let kept = if self.is_low() { reserve + reserve / 4 } else { reserve };
        let low = free < kept.saturating_add(pending);
        self.low.swap(low, Ordering::AcqRel) != low
    }

    /// Whether only the reserve is left.
    pub fn is_low(&self) -> bool {
        self.low.load(Ordering::Acquire)
    }

    /// The reason for refusing adds.
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
    fn adds_stop_while_space_remains_for_pending_writes() {
        let room = Room::default();
        let at = |free, pending| room.note(Some(Space { free: free * MIB, total: 80 * MIB }), MIB, pending * MIB);
        assert!(!at(40, 20) && !at(30, 20) && !room.is_low());
        assert!(at(29, 20) && room.is_low() && room.reason().is_some());
        // The memtable was flushed, and adds resume once there is a little more space.
        assert!(!at(12, 0) && room.is_low());
        assert!(at(13, 0) && !room.is_low() && room.reason().is_none());
        assert!(!room.note(None, MIB, u64::MAX));
    }

    #[test]
    fn the_reserve_of_a_large_disk_is_bounded() {
        let total = 4 << 40;
        assert_eq!(reserve(Space { free: 0, total }, 256 * MIB), 64 * MIB + 1_024 * MIB);
    }
}
