//! What is asked of a set but its pages: members, counts, payloads, and where it ends that is shown.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use bytes::Bytes;

use super::compare::compare;
use super::entry::{Held, place_of};
use super::read::{self, AllEntries, Slice};
use super::walk::{Standing, Walk, keep_of};
use crate::domain::{IdentityKind, Item, ItemKey, Keep, ListKey, MaxItems, Order, Timestamp};
use crate::items::cql::call::Call;
use crate::items::cql::layouts::keys::{bounds, slice};
use crate::items::{Bounds, Count, StoreError};

/// Rows of one step of a walk that counts.
const STEP_ROWS: usize = 1_000;
/// Members of one count by rows that are compared with each other: one that moves meanwhile is met twice.
const COMPARED_MAX: usize = 100_000;
/// Payloads are looked for among so many of the newest items, and then in the whole set.
const NEWEST_ROWS: usize = 500;

/// The item of each of these members, in their order.
pub async fn lookup(call: &mut Call, members: &[Bytes]) -> Result<Vec<Option<Item>>, StoreError> {
    let places: Vec<_> = members.iter().map(|member| place_of(member)).collect();
    let asked: HashSet<_> = places.iter().cloned().collect();
    let entries = read::entries(call, asked.into_iter().collect()).await?;
    compare(call, entries.values()).await?;
    let (op, keep) = (call.op, keep_of(&call.list));
    let standing = |place: &String| entries.get(place)?.standing(&op, keep);
    let last_shown = last_shown_of(call, places.iter().filter_map(standing)).await?;
    let shown = |held: &&Held| last_shown.is_none_or(|last| held.key >= last);
    Ok(places.iter().map(|place| standing(place).filter(shown).map(Held::item)).collect())
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
    let Some((lower, upper)) = bounds(&op, within, None, last_shown) else {
        return Ok(vec![None; values.len()]);
    };
    // They are often recent.
    let mut walk = Walk::new(Slice { order: Order::Newest, lower, upper });
    for Standing { held, .. } in walk.next(call, NEWEST_ROWS).await?.into_iter().flatten() {
        sought.meet(&held.stored, held.key.timestamp);
    }
    let (mut all, mut by_rows) = (AllEntries::new(), call.core.dense.has(&list));
    while !walk.is_over() && sought.newest.len() < sought.values.len() {
        if by_rows {
            for Standing { held, .. } in walk.next(call, STEP_ROWS).await?.into_iter().flatten() {
                sought.meet(&held.stored, held.key.timestamp);
            }
            continue;
        }
        let entries = match all.next(call).await {
            Err(StoreError::TooManyTombstones { .. }) => {
                call.core.dense.met(&list);
                by_rows = true;
                continue;
            }
            read => read?,
        };
        let Some(entries) = entries else { break };
        compare(call, entries.iter()).await?;
        let shown = |key: &ItemKey| within.contain(key.timestamp) && last_shown.is_none_or(|last| *key >= last);
        for held in entries.iter().filter_map(|entry| entry.standing(&op, keep_of(&list))) {
            if shown(&held.key) {
                sought.meet(&held.stored, held.key.timestamp);
            }
        }
    }
    Ok(values.iter().map(|value| sought.newest.get(&value[..]).copied()).collect())
}

/// Values, and the newest item of each that was met.
struct Sought<'a> {
    list: &'a ListKey,
    values: HashSet<&'a [u8]>,
    newest: HashMap<&'a [u8], Timestamp>,
}

impl Sought<'_> {
    fn meet(&mut self, stored: &[u8], timestamp: Timestamp) {
        if let Some(value) = self.values.get(self.list.identity().value(stored)) {
            let newest = self.newest.entry(value).or_insert(timestamp);
            *newest = timestamp.max(*newest);
        }
    }
}

/// Counts the items that stand within the bounds.
pub async fn count(call: &mut Call, within: &Bounds, max: u64) -> Result<Count, StoreError> {
    let shown = call.op.max_items.map_or(u64::MAX, MaxItems::as_u64);
    let max = max.min(shown);
    let oldest = call.op.ttl.visible_from(call.op.now);
    let is_whole = within.max_timestamp == Timestamp::MAX && within.min_timestamp <= oldest;
    let by_entries = if is_whole && !call.core.dense.has(&call.list) {
        count_entries(call, max.saturating_add(1)).await?
    } else {
        None
    };
    let counted = if let Some(counted) = by_entries {
        counted
    } else {
        let last_shown = match within.max_timestamp {
            // Of those up to the newest item, as many are shown as the bound allows.
            Timestamp::MAX => None,
            _ => last_shown(call).await?,
        };
        match bounds(&call.op, within, None, last_shown) {
            Some((lower, upper)) => {
                let slice = Slice { order: towards_moved(&call.list), lower, upper };
                count_rows(call, slice, max.saturating_add(1)).await?
            }
            None => 0,
        }
    };
    // What was added in between may have made them more than are shown.
    let counted = counted.min(shown);
    Ok(Count { items: counted.min(max), exact: counted <= max })
}

/// Counts the whole set by its entries, up to a number: each is a member. None if they have too many tombstones.
async fn count_entries(call: &mut Call, enough: u64) -> Result<Option<u64>, StoreError> {
    let (mut all, mut counted) = (AllEntries::new(), 0);
    while counted < enough {
        let entries = match all.next(call).await {
            Err(StoreError::TooManyTombstones { .. }) => {
                call.core.dense.met(&call.list);
                return Ok(None);
            }
            read => read?,
        };
        let Some(entries) = entries else { break };
        compare(call, entries.iter()).await?;
        let (op, keep) = (&call.op, keep_of(&call.list));
        counted += entries.iter().filter(|entry| entry.standing(op, keep).is_some()).count() as u64;
    }
    Ok(Some(counted))
}

/// The order in which a walk misses no member that moves meanwhile: members move in it alone, to where the walk has not
/// been yet.
fn towards_moved(list: &ListKey) -> Order {
    match keep_of(list) {
        Keep::Newest => Order::Oldest,
        Keep::Oldest => Order::Newest,
    }
}

/// Counts a slice, up to a number.
async fn count_rows(call: &mut Call, slice: Slice, enough: u64) -> Result<u64, StoreError> {
    let (mut walk, mut counted, mut met) = (Walk::new(slice), 0, Met::default());
    while counted < enough {
        let rows = usize::try_from(enough - counted).unwrap_or(usize::MAX).min(STEP_ROWS);
        let Some(standing) = walk.next(call, rows).await? else { break };
        counted += standing.iter().filter(|standing| met.is_new(&standing.member)).count() as u64;
    }
    Ok(counted)
}

/// The members that a count has met, as far as there are not too many.
#[derive(Default)]
struct Met {
    hasher: RandomState,
    members: HashSet<u64>,
}

impl Met {
    /// Whether a member was not met before.
    fn is_new(&mut self, member: &str) -> bool {
        let hash = self.hasher.hash_one(member);
        if self.members.len() < COMPARED_MAX { self.members.insert(hash) } else { !self.members.contains(&hash) }
    }
}

/// Whether anything can be seen of a set.
pub async fn has_items(call: &mut Call) -> Result<bool, StoreError> {
    match bounds(&call.op, &Bounds::ALL, None, None) {
        Some((lower, upper)) => {
            let slice = Slice { order: Order::Newest, lower, upper };
            Ok(count_rows(call, slice, 1).await? > 0)
        }
        None => Ok(false),
    }
}

/// The last item that a set shows, if it has more than these.
pub async fn last_shown(call: &mut Call) -> Result<Option<ItemKey>, StoreError> {
    let (lower, _) = slice(&Bounds { min_timestamp: call.op.ttl.visible_from(call.op.now), ..Bounds::ALL });
    last_shown_from(call, lower).await
}

/// The last item that a set shows, if some of these items, which stand in it, are not shown. Looks no further than the
/// last of them.
pub async fn last_shown_of<'h>(
    call: &mut Call,
    standing: impl Iterator<Item = &'h Held>,
) -> Result<Option<ItemKey>, StoreError> {
    match standing.map(|held| held.key).min() {
        Some(last) => last_shown_from(call, last.to_string()).await,
        None => Ok(None),
    }
}

/// The last item that a set shows, if it has more than these that are not below this bound.
async fn last_shown_from(call: &mut Call, lower: String) -> Result<Option<ItemKey>, StoreError> {
    let Some(max_items) = call.op.max_items else { return Ok(None) };
    // Callers that wait for a permit come before it, and after it.
    call.release();
    let (_, upper) = slice(&Bounds::ALL);
    let mut walk = Walk::new(Slice { order: Order::Newest, lower, upper });
    let (mut counted, mut last) = (0, None);
    loop {
        let rows_max = (max_items.get() + 1 - counted).min(STEP_ROWS);
        for Standing { held, .. } in walk.next(call, rows_max).await?.into_iter().flatten() {
            counted += 1;
            if counted == max_items.get() {
                last = Some(held.key);
            }
            if counted > max_items.get() {
                call.core.overlong.met(&call.op, &call.list);
                call.release();
                return Ok(last);
            }
        }
        if walk.is_over() {
            call.release();
            return Ok(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_counted_once_and_memory_is_bounded() {
        let mut met = Met::default();
        assert_eq!(["a", "b", "a"].map(|member| met.is_new(member)), [true, true, false]);
        let counted = (0..COMPARED_MAX + 10).filter(|n| met.is_new(&format!("m-{n}"))).count();
        assert_eq!((counted, met.members.len(), met.is_new("b")), (COMPARED_MAX + 10, COMPARED_MAX, false));
    }
}
