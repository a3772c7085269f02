//! Counts the items of a list in buckets, and finds where those end that it shows, by their keys alone.

use std::sync::Arc;

use super::directory::{Names, partition};
use super::pace::Pace;
use super::several::{SEVERAL_MAX, Slice};
use crate::domain::{ItemKey, ListKey, MaxItems, Order, Timestamp};
use crate::items::cql::core::Core;
use crate::items::cql::layouts::keys::{Keys, bounds, walk_keys};
use crate::items::cql::pressure::permits::Permit;
use crate::items::{Bounds, Count, Operation, StoreError};

/// As [`keys::count`](super::super::keys::count).
pub async fn count(
    core: &Arc<Core>,
    op: &Operation,
    list: &ListKey,
    within: &Bounds,
    max: u64,
) -> Result<Count, StoreError> {
    let last_shown = match within.max_timestamp {
        // From the newest item on, the first ones are those that are shown.
        Timestamp::MAX => None,
        _ => last_shown(core, op, list).await?,
    };
    let shown = op.max_items.map_or(u64::MAX, MaxItems::as_u64);
    let max = max.min(shown);
    let mut count = 0;
    if let Some((lower, upper)) = bounds(op, within, None, last_shown) {
        let mut names = Names::between(core, op, list, Order::Newest, (&lower, &upper));
        let mut permit = core.permit(op.deadline).await?;
        while count <= max {
            let (some, counted);
            (some, permit) = names.take(SEVERAL_MAX, permit).await?;
            if some.is_empty() {
                break;
            }
            let several = Slice { list, names: &some, lower: &lower, upper: &upper, with_values: false };
            (counted, permit) = several.count(core, op, max.saturating_add(1) - count, permit).await?;
            if let Some(counted) = counted {
                count += counted;
                continue;
            }
            for name in &some {
                let left = max.saturating_add(1).saturating_sub(count);
                if left == 0 {
                    break;
                }
                let bucket = partition(list, name);
                let keys = walk_keys(core, op, &bucket, within, last_shown, (left, 0), permit).await?;
                count += keys.count;
                permit = keys.permit;
            }
        }
    }
    // What was added in between may have made them more than are shown.
    let count = count.min(shown);
    Ok(Count { items: count.min(max), exact: count <= max })
}

/// As [`walk_keys`] with no bounds but the TTL: at most so many keys, and the one at a place, which counts from 1.
pub async fn first_keys(
    core: &Arc<Core>,
    op: &Operation,
    list: &ListKey,
    (max, place): (u64, u64),
    permit: Permit,
) -> Result<Keys, StoreError> {
    let mut keys = Keys { count: 0, last: None, permit };
    let Some((lower, upper)) = bounds(op, &Bounds::ALL, None, None) else { return Ok(keys) };
    let mut names = Names::between(core, op, list, Order::Newest, (&lower, &upper));
    let mut pace = Pace::default();
    while keys.count < max {
        let (before, missing) = (keys.count, usize::try_from(max - keys.count).unwrap_or(usize::MAX));
        let (some, kept) = names.take(pace.buckets(missing), keys.permit).await?;
        keys.permit = kept;
        let found;
        match &some[..] {
            [] => break,
            [_] => found = vec![None],
            _ => {
                let each = Pace::rows_of_each(missing, some.len());
                let several = Slice { list, names: &some, lower: &lower, upper: &upper, with_values: false };
                (found, keys.permit) = several.rows(core, op, each, keys.permit).await?;
            }
        }
        for (name, rows) in some.iter().zip(found) {
            let here = place.saturating_sub(keys.count);
            if let Some(rows) = rows {
                let at = usize::try_from(here).ok().and_then(|here| here.checked_sub(1));
                if let Some((key, _)) = at.and_then(|at| rows.get(at)) {
                    keys.last = ItemKey::parse(key).ok();
                }
                keys.count += rows.len() as u64;
            } else if keys.count < max {
                let left = (max - keys.count, here);
                let walked = walk_keys(core, op, &partition(list, name), &Bounds::ALL, None, left, keys.permit).await?;
                let Keys { count, last, permit } = walked;
                keys = Keys { count: keys.count + count, last: last.or(keys.last), permit };
            }
        }
        pace.met(some.len(), usize::try_from(keys.count - before).unwrap_or(usize::MAX));
    }
    Ok(keys)
}

/// The last item that a list shows, if it has more than these.
pub async fn last_shown(core: &Arc<Core>, op: &Operation, list: &ListKey) -> Result<Option<ItemKey>, StoreError> {
    let Some(max_items) = op.max_items else { return Ok(None) };
    let permit = core.permit(op.deadline).await?;
    let shown = max_items.as_u64();
    let Keys { count, last, .. } = first_keys(core, op, list, (shown + 1, shown), permit).await?;
    if count <= shown {
        return Ok(None);
    }
    core.overlong.met(op, list);
    Ok(last)
}
