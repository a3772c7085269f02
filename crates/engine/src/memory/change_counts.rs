//! Counts of changes to lists, in memory that grows where lists change.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use zerocopy::FromZeros;

/// The number of counts in one allocation. A single allocation for all of them, 8 MiB on most machines, would become
/// resident at once if the allocator has to zero it, as it does after a start that freed memory.
const PIECE: usize = 2048;

/// One count for each place. Lists have places by their hashes.
#[derive(Debug)]
pub struct ChangeCounts {
    /// A piece exists from the first change in it on. Until then its counts are 0.
    pieces: Box<[OnceLock<Box<[AtomicU64]>>]>,
    len: usize,
}

impl ChangeCounts {
    /// `len` is a power of two.
    pub fn new(len: usize) -> Self {
        Self { pieces: (0..len.div_ceil(PIECE)).map(|_| OnceLock::new()).collect(), len }
    }

    #[inline]
    pub fn place(&self, hash: u64) -> usize {
        (hash as usize) % self.len
    }

    #[inline]
    pub fn get(&self, place: usize) -> u64 {
        self.pieces[place / PIECE].get().map_or(0, |piece| piece[place % PIECE].load(Ordering::Acquire))
    }

    #[inline]
    pub fn increment(&self, place: usize) {
        let piece = self.pieces[place / PIECE].get_or_init(zeroed);
        piece[place % PIECE].fetch_add(1, Ordering::AcqRel);
    }
}

/// Counts whose memory becomes resident when they are used, if the allocator has memory that is zero.
fn zeroed() -> Box<[AtomicU64]> {
    <[AtomicU64]>::new_box_zeroed_with_elems(PIECE)
        .unwrap_or_else(|_| std::iter::repeat_with(AtomicU64::default).take(PIECE).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_its_own_count() {
        let counts = ChangeCounts::new(4 * PIECE);
        let places = [0, 1, PIECE - 1, PIECE, 4 * PIECE - 1];
        for (times, place) in (1..).zip(places) {
            assert_eq!(counts.get(place), 0);
            (0..times).for_each(|_| counts.increment(place));
        }
        assert_eq!(places.map(|place| counts.get(place)), [1, 2, 3, 4, 5]);
        assert_eq!([2, 2 * PIECE].map(|place| counts.get(place)), [0, 0]);
        assert_eq!(counts.place(u64::MAX), 4 * PIECE - 1);
    }

    #[test]
    fn only_places_that_change_take_memory() {
        let counts = ChangeCounts::new(1 << 20);
        let pieces = || counts.pieces.iter().filter(|piece| piece.get().is_some()).count();
        assert_eq!((counts.get(1 << 19), pieces()), (0, 0));
        counts.increment(1 << 19);
        counts.increment((1 << 19) + 1);
        assert_eq!(pieces(), 1);
    }
}
