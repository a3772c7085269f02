//! What an add, or a removal, does to a set: one write, with a row of new items and of deleted entries of those
//! that go, and a row that does the same to the reverse entries. So a member is there once, and found, for
//! readers at any moment and after a crash.

use std::collections::HashMap;

use bytes::Bytes;

use super::change::{Change, Changes};
use super::item_changes::ItemChanges;
use super::list_id::ListId;
use super::members::{Met, Present};
use super::reverse::{self, Pointer, ReverseEntry};
use crate::domain::{Identity, ItemKey, NewItem, ValueDigest};
use crate::items::Operation;

/// What a write does to the items of a set, and to their entries.
#[derive(Default)]
pub struct SetWrite {
    items: ItemChanges,
    entries: Vec<ReverseEntry>,
}

/// What becomes of a member.
struct Outcome {
    met: Met,
    /// The item that is to stand, and its key.
    stands: Option<(ItemKey, NewItem)>,
}

impl SetWrite {
    /// Adds new items, of whose members this is known.
    pub fn add(op: &Operation, identity: Identity, items: Vec<NewItem>, met: Vec<Met>) -> Self {
        let keep = identity.keep().unwrap_or_default();
        let mut outcomes: HashMap<Bytes, Outcome> = HashMap::with_capacity(items.len());
        for (item, met) in items.into_iter().zip(met) {
            let key = ItemKey::new(item.timestamp, ValueDigest::of(&item.value));
            let member = item.value.slice_ref(identity.member(&item.value));
            let outcome = outcomes.entry(member).or_insert(Outcome { met, stands: None });
            let rival = match (&outcome.stands, &outcome.met.present) {
                (Some((key, _)), _) => Some(*key),
                (None, Some(present)) if present.is_seen_by(op) => present.key(),
                (None, _) => None,
            };
            if rival.is_none_or(|rival| keep.replaces(&key, &rival)) {
                outcome.stands = Some((key, item));
            }
        }
        let mut write = Self::default();
        for Outcome { met, stands } in outcomes.into_values() {
            if let Some((key, item)) = stands {
                if met.present.as_ref().and_then(Present::key) != Some(key) {
                    write.delete(&met);
                }
                write.put(met.place, key, item);
            }
        }
        write
    }

    fn put(&mut self, place: u64, key: ItemKey, NewItem { value, expires_at, .. }: NewItem) {
        self.items.put(key, expires_at, value);
        self.entries.push(ReverseEntry::new(place, pointer_to(&key), expires_at));
    }

    /// Removes what there is of a member.
    pub fn delete(&mut self, met: &Met) {
        if let Some(present) = &met.present
            && let Some(key) = present.key()
        {
            self.items.delete(key, present.value().clone());
            self.entries.push(ReverseEntry::deleted(met.place, pointer_to(&key)));
        }
        self.entries.extend(met.stale.iter().map(|stale| ReverseEntry::deleted(met.place, *stale)));
    }

    /// The changes to the set and to its reverse list. `None` if there is nothing to be changed.
    pub fn into_changes(self, set: ListId, reverse: ListId) -> Option<Changes> {
        changes_of(set, self.items.into_row(), reverse, self.entries)
    }
}

/// Changes to a set, by a row with its oldest timestamp, and to its reverse list. `None` if there are none.
pub fn changes_of(
    set: ListId,
    items: Option<(Bytes, u64)>,
    reverse: ListId,
    entries: Vec<ReverseEntry>,
) -> Option<Changes> {
    let change = |list| move |(row, oldest)| (list, Change::Row(row), oldest);
    Changes::of_each(items.map(change(set)).into_iter().chain(reverse::row_of(entries).map(change(reverse))))
}

fn pointer_to(key: &ItemKey) -> Pointer {
    Pointer::to(key.timestamp.as_nanos(), &key.digest)
}
