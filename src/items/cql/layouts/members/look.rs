//! What is asked of a set but its pages: members, counts, payloads, and where it ends that is shown.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use bytes::Bytes;

use super::compare::compare;
use super::entry::{Held, place_of};
use super::read::{self, AllEntries, Slice};
use super::walk::{Standing, Walk, keep_of};
use crate::domain::{IdentityKind, Item, ItemKey, Keep, ListKey, MaxItems, Order, Timestamp};
use crate::items::cql::core::Core;
use crate::items::cql::layouts::keys::{bounds, slice};
use crate::items::{Bounds, Count, Operation, StoreError};

/// Rows of one step of a walk that counts.
const STEP_ROWS: usize = 1_000;
/// Members of one count by rows that are compared with each other: one that moves meanwhile is met twice.
const COMPARED_MAX: usize = 100_000;
/// Payloads are looked for among so many of the newest items, and then in the whole set.
const NEWEST_ROWS: usize = 500;

/// The item of each of these members, in their order.
pub async fn lookup(
    core: &Arc<Core>,
    op: &Operation,
    list: &ListKey,
    members: &[Bytes],
) -> Result<Vec<Option<Item>>, StoreError> {
    let places: Vec<_> = members.iter().map(|member| place_of(member)).collect();
    let asked: HashSet<_> = places.iter().cloned().collect();
    let permit = core.permit(op.deadline).await?;
    let (entries, permit) = read::entries(core, op, list, asked.into_iter().collect(), permit).await?;
    drop(compare(core, op, list, entries.values(), permit).await?);
    let standing = |place: &String| entries.get(place)?.standing(op, keep_of(list));
    let last_shown = last_shown_of(core, op, list, places.iter().filter_map(standing)).await?;
    let shown = |held: &&Held| last_shown.is_none_or(|last| held.key >= last);
    Ok(places.iter().map(|place| standing(place).filter(shown).map(Held::item)).collect())
}

/// The newest item of each of these values.
pub async fn contains(
    core: &Arc<Core>,
    op: &Operation,
    list: &ListKey,
    within: &Bounds,
    values: &[Bytes],
) -> Result<Vec<Option<Timestamp>>, StoreError> {
    if list.identity().kind() == IdentityKind::Value {
        let found = lookup(core, op, list, values).await?.into_iter();
        let timestamp = |item: Item| Some(item.timestamp).filter(|timestamp| within.contain(*timestamp));
        return Ok(found.map(|item| item.and_then(timestamp)).collect());
    }
    let last_shown = last_shown(core, op, list).await?;
    let mut sought = Sought { list, values: values.iter().map(|value| &value[..]).collect(), newest: HashMap::new() };
    let Some((lower, upper)) = bounds(op, within, None, last_shown) else {
        return Ok(vec![None; values.len()]);
    };
    // They are often recent.
    let permit = core.permit(op.deadline).await?;
    let mut walk = Walk::new(core, op, list, Slice { order: Order::Newest, lower, upper });
    let (standing, mut permit) = walk.next(NEWEST_ROWS, permit).await?;
    for Standing { held, .. } in standing.into_iter().flatten() {
        sought.meet(&held.stored, held.key.timestamp);
    }
    let (mut all, mut by_rows) = (AllEntries::new(), core.dense.has(list));
    while !walk.is_over() && sought.newest.len() < sought.values.len() {
        if by_rows {
            let standing;
            (standing, permit) = walk.next(STEP_ROWS, permit).await?;
            for Standing { held, .. } in standing.into_iter().flatten() {
                sought.meet(&held.stored, held.key.timestamp);
            }
            continue;
        }
        let read = all.next(core, op, list, permit).await;
        let entries;
        (entries, permit) = match read {
            Err(StoreError::TooManyTombstones { .. }) => {
                core.dense.met(list);
                by_rows = true;
                permit = core.permit(op.deadline).await?;
                continue;
            }
            read => read?,
        };
        let Some(entries) = entries else { break };
        permit = compare(core, op, list, entries.iter(), permit).await?;
        let shown = |key: &ItemKey| within.contain(key.timestamp) && last_shown.is_none_or(|last| *key >= last);
        for held in entries.iter().filter_map(|entry| entry.standing(op, keep_of(list))) {
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
pub async fn count(
    core: &Arc<Core>,
    op: &Operation,
    list: &ListKey,
    within: &Bounds,
    max: u64,
) -> Result<Count, StoreError> {
    let max = max.min(op.max_items.map_or(u64::MAX, MaxItems::as_u64));
    let oldest = op.ttl.visible_from(op.now);
    let is_whole = within.max_timestamp == Timestamp::MAX && within.min_timestamp <= oldest;
    let by_entries = if is_whole && !core.dense.has(list) {
        count_entries(core, op, list, max.saturating_add(1)).await?
    } else {
        None
    };
    let counted = if let Some(counted) = by_entries {
        counted
    } else {
        let last_shown = match within.max_timestamp {
            // Of those up to the newest item, as many are shown as the bound allows.
            Timestamp::MAX => None,
            _ => last_shown(core, op, list).await?,
        };
        match bounds(op, within, None, last_shown) {
            Some((lower, upper)) => {
                let slice = Slice { order: towards_moved(list), lower, upper };
                count_rows(core, op, list, slice, max.saturating_add(1)).await?
            }
            None => 0,
        }
    };
    // What was added in between may have made them more than are shown.
    let counted = counted.min(op.max_items.map_or(u64::MAX, MaxItems::as_u64));
    Ok(Count { items: counted.min(max), exact: counted <= max })
}

/// Counts the whole set by its entries, up to a number: each is a member. None if they have too many tombstones.
async fn count_entries(
    core: &Arc<Core>,
    op: &Operation,
    list: &ListKey,
    enough: u64,
) -> Result<Option<u64>, StoreError> {
    let (mut all, mut permit) = (AllEntries::new(), core.permit(op.deadline).await?);
    let mut counted = 0;
    while counted < enough {
        let entries;
        (entries, permit) = match all.next(core, op, list, permit).await {
            Err(StoreError::TooManyTombstones { .. }) => {
                core.dense.met(list);
                return Ok(None);
            }
            read => read?,
        };
        let Some(entries) = entries else { break };
        permit = compare(core, op, list, entries.iter(), permit).await?;
        counted += entries.iter().filter(|entry| entry.standing(op, keep_of(list)).is_some()).count() as u64;
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
async fn count_rows(
    core: &Arc<Core>,
    op: &Operation,
    list: &ListKey,
    slice: Slice,
    enough: u64,
) -> Result<u64, StoreError> {
    let (mut walk, mut permit) = (Walk::new(core, op, list, slice), core.permit(op.deadline).await?);
    let (mut counted, mut met) = (0, Met::default());
    while counted < enough {
        let rows = usize::try_from(enough - counted).unwrap_or(usize::MAX).min(STEP_ROWS);
        let standing;
        (standing, permit) = walk.next(rows, permit).await?;
        let Some(standing) = standing else { break };
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
pub async fn has_items(core: &Arc<Core>, op: &Operation, list: &ListKey) -> Result<bool, StoreError> {
    match bounds(op, &Bounds::ALL, None, None) {
        Some((lower, upper)) => {
            let slice = Slice { order: Order::Newest, lower, upper };
            Ok(count_rows(core, op, list, slice, 1).await? > 0)
        }
        None => Ok(false),
    }
}

/// The last item that a set shows, if it has more than these.
pub async fn last_shown(core: &Arc<Core>, op: &Operation, list: &ListKey) -> Result<Option<ItemKey>, StoreError> {
    let (lower, _) = slice(&Bounds { min_timestamp: op.ttl.visible_from(op.now), ..Bounds::ALL });
    last_shown_from(core, op, list, lower).await
}

/// The last item that a set shows, if some of these items, which stand in it, are not shown. Looks no further than the
/// last of them.
pub async fn last_shown_of<'h>(
    core: &Arc<Core>,
    op: &Operation,
    list: &ListKey,
    standing: impl Iterator<Item = &'h Held>,
) -> Result<Option<ItemKey>, StoreError> {
    match standing.map(|held| held.key).min() {
        Some(last) => last_shown_from(core, op, list, last.to_string()).await,
        None => Ok(None),
    }
}

/// The last item that a set shows, if it has more than these that are not below this bound.
async fn last_shown_from(
    core: &Arc<Core>,
    op: &Operation,
    list: &ListKey,
    lower: String,
) -> Result<Option<ItemKey>, StoreError> {
    let Some(max_items) = op.max_items else { return Ok(None) };
    let (_, upper) = slice(&Bounds::ALL);
    let slice = Slice { order: Order::Newest, lower, upper };
    let (mut walk, mut permit) = (Walk::new(core, op, list, slice), core.permit(op.deadline).await?);
    let (mut counted, mut last) = (0, None);
    loop {
        let standing;
        (standing, permit) = walk.next((max_items.get() + 1 - counted).min(STEP_ROWS), permit).await?;
        for Standing { held, .. } in standing.into_iter().flatten() {
            counted += 1;
            if counted == max_items.get() {
                last = Some(held.key);
            }
            if counted > max_items.get() {
                core.overlong.met(op, list);
                return Ok(last);
            }
        }
        if walk.is_over() {
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
