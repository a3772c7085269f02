//! Counts the items of a list in buckets, and finds where those end that it shows, by their keys alone.

use super::directory::{Names, partition};
use super::pace::Pace;
use super::several::{SEVERAL_MAX, Slice};
use crate::domain::{ItemKey, MaxItems, Order, Timestamp};
use crate::items::cql::call::Call;
use crate::items::cql::layouts::keys::{Keys, bounds, walk_keys};
use crate::items::{Bounds, Count, StoreError};

/// As [`keys::count`](super::super::keys::count).
pub async fn count(call: &mut Call, within: &Bounds, max: u64) -> Result<Count, StoreError> {
    let last_shown = match within.max_timestamp {
        // From the newest item on, the first ones are those that are shown.
        Timestamp::MAX => None,
        _ => last_shown(call).await?,
    };
    let shown = call.op.max_items.map_or(u64::MAX, MaxItems::as_u64);
    let (max, list) = (max.min(shown), call.list.clone());
    let mut count = 0;
    if let Some((lower, upper)) = bounds(&call.op, within, None, last_shown) {
        let mut names = Names::between(&list, Order::Newest, (&lower, &upper));
        while count <= max {
            let some = names.take(call, SEVERAL_MAX).await?;
            if some.is_empty() {
                break;
            }
            let several = Slice { list: &list, names: &some, lower: &lower, upper: &upper, with_values: false };
            if let Some(counted) = several.count(call, max.saturating_add(1) - count).await? {
                count += counted;
                continue;
            }
            for name in &some {
                let left = max.saturating_add(1).saturating_sub(count);
                if left == 0 {
                    break;
                }
                call.turn_to(partition(&list, name));
                count += walk_keys(call, within, last_shown, (left, 0)).await?.count;
            }
            call.turn_to(list.clone());
        }
    }
    // What was added in between may have made them more than are shown.
    let count = count.min(shown);
    Ok(Count { items: count.min(max), exact: count <= max })
}

/// As [`walk_keys`] with no bounds but the TTL: at most so many keys, and the one at a place, which counts from 1.
pub async fn first_keys(call: &mut Call, (max, place): (u64, u64)) -> Result<Keys, StoreError> {
    let mut keys = Keys::default();
    let Some((lower, upper)) = bounds(&call.op, &Bounds::ALL, None, None) else { return Ok(keys) };
    let list = call.list.clone();
    let mut names = Names::between(&list, Order::Newest, (&lower, &upper));
    let mut pace = Pace::default();
    while keys.count < max {
        let (before, missing) = (keys.count, usize::try_from(max - keys.count).unwrap_or(usize::MAX));
        let some = names.take(call, pace.buckets(missing)).await?;
        let found = match &some[..] {
            [] => break,
            [_] => vec![None],
            _ => {
                let each = Pace::rows_of_each(missing, some.len());
                let several = Slice { list: &list, names: &some, lower: &lower, upper: &upper, with_values: false };
                several.rows(call, each).await?
            }
        };
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
                call.turn_to(partition(&list, name));
                let walked = walk_keys(call, &Bounds::ALL, None, left).await?;
                call.turn_to(list.clone());
                keys = Keys { count: keys.count + walked.count, last: walked.last.or(keys.last) };
            }
        }
        pace.met(some.len(), usize::try_from(keys.count - before).unwrap_or(usize::MAX));
    }
    Ok(keys)
}

/// The last item that a list shows, if it has more than these.
pub async fn last_shown(call: &mut Call) -> Result<Option<ItemKey>, StoreError> {
    let Some(max_items) = call.op.max_items else { return Ok(None) };
    let shown = max_items.as_u64();
    let Keys { count, last } = first_keys(call, (shown + 1, shown)).await?;
    call.release();
    if count <= shown {
        return Ok(None);
    }
    call.core.overlong.met(&call.op, &call.list);
    Ok(last)
}
