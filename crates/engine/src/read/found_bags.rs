//! Bags that are read from memory: one, or many together.
//!
//! Most of what many bags cost is waiting for memory that is in no cache of the processor: the head of each, its row,
//! and the count of those who share the row. So all heads are looked up first, then a word of each line of their rows
//! is read, which the processor does beside each other, and short documents are copied, so that their counts are left
//! alone.

use std::hint::black_box;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use liststore_contract::domain::{FeatureKey, Item, ListKeys};
use liststore_storage::Operation;

use crate::list_id::BorrowedListId;
use crate::memory::head::Head;
use crate::memory::heads::Heads;
use crate::options::ListHash;

/// Longer documents share the memory of their rows.
const COPIED_BYTES_MAX: usize = 1 << 10;
/// Bytes that come from memory together.
const LINE_BYTES: usize = 64;

/// The visible bag of a list, or that there is none, if its head tells.
pub fn bag(heads: &Heads, op: &Operation, bag: BorrowedListId<'_>) -> Option<Option<Item>> {
    let head = heads.head(bag)?;
    head.newest(op, |timestamp, value| Item { timestamp, value: head.row.slice_ref(value) })
}

/// The same of many, in the order of the entries whose values are the IDs of their entities.
pub fn bags(
    heads: &Heads,
    hash: ListHash,
    op: &Operation,
    feature_key: &FeatureKey,
    entries: &[Item],
) -> Vec<Option<Option<Item>>> {
    let mut keys = ListKeys::of(feature_key);
    let head = |entry: &Item| heads.head(BorrowedListId::of(keys.key(&entry.value), hash));
    let heads: Vec<Option<Arc<Head>>> = entries.iter().map(head).collect();
    let mut short = 0;
    for head in heads.iter().flatten() {
        bring(&head.row);
        short += Some(head.row.len()).filter(|len| *len <= COPIED_BYTES_MAX).unwrap_or(0);
    }
    let mut copied = BytesMut::with_capacity(short);
    let mut bag = |head: &Head| {
        head.newest(op, |timestamp, value| {
            if value.len() > COPIED_BYTES_MAX {
                return Item { timestamp, value: head.row.slice_ref(value) };
            }
            copied.extend_from_slice(value);
            Item { timestamp, value: copied.split().freeze() }
        })
    };
    heads.iter().map(|head| bag(head.as_deref()?)).collect()
}

/// Has what of a row is going to be copied brought from memory, without waiting for it.
fn bring(row: &Bytes) {
    let lines = row.iter().take(COPIED_BYTES_MAX).step_by(LINE_BYTES);
    black_box(lines.fold(0, |all, byte| all ^ byte));
}
