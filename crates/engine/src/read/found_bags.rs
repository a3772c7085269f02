//! Reads bags from memory: one, or many together.
//!
//! Most of the cost of many bags is waiting for memory that no cache of the processor contains: the head of each, its
//! row, and the row's reference count. So all heads are looked up first. Then one word of each cache line of their rows
//! is read, which the processor does in parallel. Short documents are copied, which leaves their reference counts
//! untouched.

use std::hint::black_box;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use liststore_contract::domain::{FeatureKey, Item, ListKeys};
use liststore_storage::OpContext;

use crate::list_id::BorrowedListId;
use crate::memory::head::Head;
use crate::memory::heads::Heads;
use crate::options::ListHash;

/// Longer documents share the memory of their rows.
const COPIED_BYTES_MAX: usize = 1 << 10;
/// The size of a cache line.
const LINE_BYTES: usize = 64;

/// The visible bag of a list, or its absence, if its head shows it.
pub fn bag(heads: &Heads, op: &OpContext, bag: BorrowedListId<'_>) -> Option<Option<Item>> {
    let head = heads.head(bag)?;
    head.newest(op, |timestamp, value| Item { timestamp, value: head.row.slice_ref(value) })
}

/// Does the same for many bags, in the order of the entries whose values are the IDs of their entities.
pub fn bags(
    heads: &Heads,
    hash: ListHash,
    op: &OpContext,
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

/// Prefetches the part of a row that will be copied.
fn bring(row: &Bytes) {
    let lines = row.iter().take(COPIED_BYTES_MAX).step_by(LINE_BYTES);
    black_box(lines.fold(0, |all, byte| all ^ byte));
}
