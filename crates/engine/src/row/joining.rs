//! Puts a row before another by rewriting only their beginnings, without walking their items.

use bytes::Bytes;

use super::{LEN_SHIFT, SAME_VALUE, has_other_life};
use crate::codec::{put_varint, take_varint};

/// The decoded beginning of a row with items.
pub(super) struct Opened {
    pub(super) count: u64,
    pub(super) base_time: u64,
    pub(super) base_life: u64,
    /// The beginning of the items.
    pub(super) items: usize,
    pub(super) first_head: u64,
    /// The beginning of the rest of the first item, after its time difference.
    pub(super) first_rest: usize,
}

impl Opened {
    /// `None` for a row without items, or one that no [`RowBuilder`](super::RowBuilder) made.
    pub(super) fn of(row: &[u8]) -> Option<Self> {
        let mut at = 0;
        let (count, base_time, base_life) =
            (take_varint(row, &mut at)?, take_varint(row, &mut at)?, take_varint(row, &mut at)?);
        let items = at;
        let (first_head, first_difference) = (take_varint(row, &mut at)?, take_varint(row, &mut at)?);
        let sound = count > 0 && first_difference == 0 && first_head & SAME_VALUE == 0;
        sound.then_some(Self { count, base_time, base_life, items, first_head, first_rest: at })
    }
}

/// The end of the first `count` items that begin at `at`.
fn skip_items(row: &[u8], mut at: usize, count: u64) -> Option<usize> {
    for _ in 0..count {
        let head = take_varint(row, &mut at)?;
        take_varint(row, &mut at)?;
        if has_other_life(head) {
            take_varint(row, &mut at)?;
        }
        if head & SAME_VALUE == 0 {
            at = at.checked_add(usize::try_from(head >> LEN_SHIFT).ok()?)?;
        }
    }
    (at <= row.len()).then_some(at)
}

/// Puts a row before the first `older_max` items of an older one by copying both. No item of the older row may be as
/// new as `newer_oldest`, the timestamp of the newer row's last item. Both must have the same base life, as rows of one
/// feature usually do. `None` if they must be merged item by item.
pub fn join(newer: &[u8], newer_oldest: u64, older: &[u8], older_max: u64) -> Option<Bytes> {
    let (first, second) = (Opened::of(newer)?, Opened::of(older)?);
    if first.base_life != second.base_life || newer_oldest <= second.base_time || older_max == 0 {
        return None;
    }
    let (older_count, older_end) = if older_max < second.count {
        (older_max, skip_items(older, second.items, older_max)?)
    } else {
        (second.count, older.len())
    };
    let mut row = Vec::with_capacity(newer.len() + older_end + 10);
    for integer in [first.count + older_count, first.base_time, first.base_life] {
        put_varint(&mut row, integer);
    }
    row.extend_from_slice(&newer[first.items..]);
    put_varint(&mut row, second.first_head);
    put_varint(&mut row, newer_oldest - second.base_time);
    row.extend_from_slice(&older[second.first_rest..older_end]);
    Some(Bytes::from(row))
}
