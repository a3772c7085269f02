//! Reads of a set other than pages: members, counts, payloads, and the end of the shown items.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use super::compare::compare;
use super::entry::{Held, place_of};
use super::read::{self, AllEntries};
use super::walk::{CurrentItem, STEP_ROWS, SetWalk, keep_of};
use crate::domain::{IdentityKind, Item, ItemKey, Keep, ListKey, MaxItems, Order, Timestamp};
use crate::items::cql::call::Call;
use crate::items::cql::layouts::keys::bounds;
use crate::items::cql::layouts::walk::{self, What};
use crate::items::{Bounds, StoreError};

/// Payloads are looked for among so many of the newest items, and then in the whole set.
const NEWEST_ROWS: usize = 500;

/// The item of each of these members, in their order.
pub async fn lookup(call: &mut Call, members: &[Bytes]) -> Result<Vec<Option<Item>>, StoreError> {
    let places: Vec<_> = members.iter().map(|member| place_of(member)).collect();
    let asked: HashSet<_> = places.iter().cloned().collect();
    let entries = read::entries(call, asked.into_iter().collect()).await?;
    compare(call, entries.values()).await?;
    let (op, keep) = (call.op, keep_of(&call.list));
    let current = |place: &String| entries.get(place)?.current(&op, keep);
    let last_shown = last_shown_of(call, places.iter().filter_map(current)).await?;
    let shown = |held: &&Held| last_shown.is_none_or(|last| held.key >= last);
    Ok(places.iter().map(|place| current(place).filter(shown).map(Held::item)).collect())
}

/// The newest item of each of these values.
pub async fn contains(
    call: &mut Call,
    within: &Bounds,
    values: &[Bytes],
) -> Result<Vec<Option<Timestamp>>, StoreError> {
    if call.list.identity().kind() == IdentityKind::Value {
        let found = lookup(call, values).await?.into_iter();
        let timestamp = |item: Item| Some(item.timestamp).filter(|timestamp| within.contain(*timestamp));
        return Ok(found.map(|item| item.and_then(timestamp)).collect());
    }
    let last_shown = last_shown(call).await?;
    let (op, list) = (call.op, call.list.clone());
    let mut sought =
        Sought { list: &list, values: values.iter().map(|value| &value[..]).collect(), newest: HashMap::new() };
    let Some(slice) = bounds(&op, within, (Order::Newest, None), last_shown) else {
        return Ok(vec![None; values.len()]);
    };
    // They are often recent.
    let mut walk = SetWalk::new(slice, What::Keys, usize::MAX);
    for CurrentItem { held, .. } in walk.next_items(call, NEWEST_ROWS).await?.into_iter().flatten() {
        sought.note(&held.stored, held.key.timestamp);
    }
    let (mut all, mut by_rows) = (AllEntries::new(), call.core.dense.has(&list));
    while !walk.is_over() && sought.newest.len() < sought.values.len() {
        if by_rows {
            for CurrentItem { held, .. } in walk.next_items(call, STEP_ROWS).await?.into_iter().flatten() {
                sought.note(&held.stored, held.key.timestamp);
            }
            continue;
        }
        let entries = match all.next(call).await {
            Err(StoreError::TooManyTombstones { .. }) => {
                call.core.dense.note(&list);
                by_rows = true;
                continue;
            }
            read => read?,
        };
        let Some(entries) = entries else { break };
        compare(call, entries.iter()).await?;
        let shown = |key: &ItemKey| within.contain(key.timestamp) && last_shown.is_none_or(|last| *key >= last);
        for held in entries.iter().filter_map(|entry| entry.current(&op, keep_of(&list))) {
            if shown(&held.key) {
                sought.note(&held.stored, held.key.timestamp);
            }
        }
    }
    Ok(values.iter().map(|value| sought.newest.get(&value[..]).copied()).collect())
}

/// Values, and the newest item found of each.
struct Sought<'a> {
    list: &'a ListKey,
    values: HashSet<&'a [u8]>,
    newest: HashMap<&'a [u8], Timestamp>,
}

impl Sought<'_> {
    fn note(&mut self, stored: &[u8], timestamp: Timestamp) {
        if let Some(value) = self.values.get(self.list.identity().value(stored)) {
            let newest = self.newest.entry(value).or_insert(timestamp);
            *newest = timestamp.max(*newest);
        }
    }
}

/// Counts a set by its entries, up to a number, if all of it is within the bounds. `None` if it must be counted by its
/// rows.
pub async fn count_whole(call: &mut Call, within: &Bounds, enough: u64) -> Result<Option<u64>, StoreError> {
    let oldest = call.op.ttl.visible_from(call.op.now);
    let is_whole = within.max_timestamp == Timestamp::MAX && within.min_timestamp <= oldest;
    if is_whole && !call.core.dense.has(&call.list) { count_entries(call, enough).await } else { Ok(None) }
}

/// Counts the whole set by its entries, up to a number: each is a member. None if they have too many tombstones.
async fn count_entries(call: &mut Call, enough: u64) -> Result<Option<u64>, StoreError> {
    let (mut all, mut counted) = (AllEntries::new(), 0);
    while counted < enough {
        let entries = match all.next(call).await {
            Err(StoreError::TooManyTombstones { .. }) => {
                call.core.dense.note(&call.list);
                return Ok(None);
            }
            read => read?,
        };
        let Some(entries) = entries else { break };
        compare(call, entries.iter()).await?;
        let (op, keep) = (&call.op, keep_of(&call.list));
        counted += entries.iter().filter(|entry| entry.current(op, keep).is_some()).count() as u64;
    }
    Ok(Some(counted))
}

/// The order in which members move. A walk in this order misses no member that moves during the walk, because it moves
/// to a place that the walk has not reached.
pub fn order_of_moves(list: &ListKey) -> Order {
    match keep_of(list) {
        Keep::Newest => Order::Oldest,
        Keep::Oldest => Order::Newest,
    }
}

/// The last item that a set shows, if some of these items, which stand in it, are not shown. Looks no further than the
/// last of them.
pub async fn last_shown_of<'h>(
    call: &mut Call,
    current: impl Iterator<Item = &'h Held>,
) -> Result<Option<ItemKey>, StoreError> {
    match (current.map(|held| held.key).min(), call.op.max_items) {
        (Some(last), Some(max_items)) => shown_from(call, max_items, Some(last)).await,
        _ => Ok(None),
    }
}

/// The last item that a set shows, if it has more.
pub async fn last_shown(call: &mut Call) -> Result<Option<ItemKey>, StoreError> {
    match call.op.max_items {
        Some(max_items) => shown_from(call, max_items, None).await,
        None => Ok(None),
    }
}

/// The same, if the set has more items than it shows down to this one.
async fn shown_from(
    call: &mut Call,
    max_items: MaxItems,
    lowest: Option<ItemKey>,
) -> Result<Option<ItemKey>, StoreError> {
    // Callers that wait for a permit get one before and after it.
    call.release();
    let Some(slice) = bounds(&call.op, &Bounds::ALL, (Order::Newest, None), lowest) else { return Ok(None) };
    walk::last_shown(call, max_items, SetWalk::new(slice, What::Keys, max_items.get() + 1)).await
}
