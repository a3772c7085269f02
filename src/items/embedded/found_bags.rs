//! Bags that are read from memory: one, or many together.
//!
//! Most of what many bags cost is waiting for memory that is in no cache of the processor: the head of each, its row,
//! and the count of those who share the row. So all heads are looked up first, then a word of each line of their rows
//! is read, which the processor does beside each other, and short documents are copied, so that their counts are left
//! alone.

use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;

use super::head::Head;
use super::heads::Heads;
use super::list_id::BorrowedListId;
use super::options::ListHash;
use crate::domain::{EntityId, FeatureKey, Item, ListKeys, Timestamp};
use crate::items::Operation;

/// Longer documents share the memory of their rows.
const COPIED_BYTES_MAX: usize = 1 << 10;
/// Bytes that come from memory together.
const LINE_BYTES: usize = 64;

/// The visible bag of a list, or that there is none, if its head tells.
pub fn bag(heads: &Heads, op: &Operation, bag: BorrowedListId<'_>) -> Option<Option<Item>> {
    heads.head(bag)?.newest(op, |timestamp, row| Item { timestamp, value: row.value_bytes() })
}

/// The same of many entities, in their order; that there is none where no entity is named.
pub fn bags(
    heads: &Heads,
    hash: ListHash,
    op: &Operation,
    feature_key: &FeatureKey,
    entities: &[Option<EntityId>],
) -> Vec<Option<Option<Item>>> {
    let mut keys = ListKeys::of(feature_key);
    let head = |entity: &Option<EntityId>| match entity {
        Some(entity) => heads.head(BorrowedListId::of(keys.key(entity), hash)).map(Some),
        None => Some(None),
    };
    let heads: Vec<Option<Option<Arc<Head>>>> = entities.iter().map(head).collect();
    let known = || heads.iter().flatten().flatten();
    known().for_each(|head| bring(&head.row));
    let mut copied =
        Vec::with_capacity(known().map(|head| head.row.len()).filter(|len| *len <= COPIED_BYTES_MAX).sum());
    let read = |head: &Option<Option<Arc<Head>>>| match head {
        Some(Some(head)) => head.newest(op, |timestamp, row| match row.value() {
            long if long.len() > COPIED_BYTES_MAX => (timestamp, Document::Shared(row.value_bytes())),
            value => {
                let start = copied.len();
                copied.extend_from_slice(value);
                (timestamp, Document::Copied(start, copied.len()))
            }
        }),
        Some(None) => Some(None),
        None => None,
    };
    let read: Vec<Option<Option<(Timestamp, Document)>>> = heads.iter().map(read).collect();
    let copied = Bytes::from(copied);
    let item = |(timestamp, document)| match document {
        Document::Copied(start, end) => Item { timestamp, value: copied.slice(start..end) },
        Document::Shared(value) => Item { timestamp, value },
    };
    read.into_iter().map(|bag| bag.map(|bag| bag.map(item))).collect()
}

enum Document {
    /// From where to where.
    Copied(usize, usize),
    Shared(Bytes),
}

/// Has what of a row is going to be copied brought from memory, without waiting for it.
fn bring(row: &Bytes) {
    let lines = row.iter().take(COPIED_BYTES_MAX).step_by(LINE_BYTES);
    black_box(lines.fold(0, |all, byte| all ^ byte));
}
