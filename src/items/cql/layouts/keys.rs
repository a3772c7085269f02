//! Slices of a partition: their bounds, and their keys without the values, to count them and to find where the items
//! end that a list shows.

use std::sync::Arc;

use crate::domain::{ItemKey, MaxItems, Order, Timestamp};
use crate::items::cql::call::{Call, Pages};
use crate::items::cql::error::damaged_row;
use crate::items::cql::statements::Query;
use crate::items::cql::statements::lists::ListStatement;
use crate::items::{Bounds, Count, Operation, StoreError};

/// Keys of one request.
const PAGE_KEYS: usize = 5_000;
/// Rows of a value that are found before the next ones are asked for, and bytes of them.
///
/// ScyllaDB cuts a page of rows at 1 MB (`query_page_size_in_bytes`), and loses rows of an indexed query behind such a
/// cut (scylladb/scylladb issue 25839). So no page comes near to it. The rows are read with their value, though only
/// their keys are asked for.
const FOUND_ROWS_MAX: usize = 1_000;
const FOUND_BYTES_MAX: usize = 256 << 10;
const ROW_BYTES: usize = 256;

/// Rows of one page of a search by the index.
pub fn rows_of_value(value: &[u8]) -> usize {
    (FOUND_BYTES_MAX / (value.len() + ROW_BYTES)).clamp(1, FOUND_ROWS_MAX)
}

/// Counts the visible items of a slice, by their keys alone.
pub async fn count(call: &mut Call, within: &Bounds, max: u64) -> Result<Count, StoreError> {
    let last_shown = match within.max_timestamp {
        // From the newest item on, the first ones are those that are shown.
        Timestamp::MAX => None,
        _ => last_shown(call).await?,
    };
    let shown = call.op.max_items.map_or(u64::MAX, MaxItems::as_u64);
    let max = max.min(shown);
    let Keys { count, .. } = walk_keys(call, within, last_shown, (max.saturating_add(1), 0)).await?;
    call.core.wide.met(&call.list, count);
    // What was added in between may have made them more than are shown.
    let count = count.min(shown);
    Ok(Count { items: count.min(max), exact: count <= max })
}

/// What was found of the keys of a slice.
#[derive(Default)]
pub struct Keys {
    pub count: u64,
    /// The key at the place that was asked for, if there are so many.
    pub last: Option<ItemKey>,
}

/// Reads the keys of the visible items of a slice, newest first: at most so many, and the one at a place, which
/// counts from 1.
pub async fn walk_keys(
    call: &mut Call,
    within: &Bounds,
    last_shown: Option<ItemKey>,
    (max, place): (u64, u64),
) -> Result<Keys, StoreError> {
    let mut keys = Keys::default();
    let Some((lower, upper)) = bounds(&call.op, within, None, last_shown) else { return Ok(keys) };
    let core = Arc::clone(&call.core);
    let limit = i32::try_from(max).unwrap_or(i32::MAX);
    let values = [lower.as_str().into(), upper.as_str().into(), limit.into()];
    let query = Query::of_partition(ListStatement::Keys, values);
    let (mut pages, mut at) = (Pages::new(), upper.clone());
    while keys.count < max {
        let page = pages.next(call, &query, PAGE_KEYS).await;
        let Some(page) = core.to_sweep.check(page, (&call.list, &at, Order::Newest))? else { break };
        let rows = page.rows_count() as u64;
        if let Some(row) = place.checked_sub(keys.count + 1).filter(|row| *row < rows) {
            let mut found = page.rows::<(&str,)>()?;
            let (key,) = usize::try_from(row).ok().and_then(|row| found.nth(row)).ok_or_else(damaged_row)??;
            keys.last = Some(ItemKey::parse(key).map_err(|_| damaged_row())?);
        }
        keys.count += rows;
        if !pages.are_over()
            && let Some(Ok((last,))) = page.rows::<(&str,)>()?.last()
        {
            last.clone_into(&mut at);
        }
    }
    Ok(keys)
}

/// The bounds of what an operation sees as text, `lower <= item_key < upper`, or `None` if nothing lies
/// between them.
///
/// A key is its timestamp's 19 digits, `#` and more; so `t` is below all keys of the timestamp t, and
/// `t$` above them, since `$` follows `#`. (The next timestamp would do as well, but for the largest.) All
/// keys have the same length: what follows a key is above `key$`. `last_shown` is the last item of a list that
/// does not show all.
pub fn bounds(
    op: &Operation,
    within: &Bounds,
    after: Option<(ItemKey, Order)>,
    last_shown: Option<ItemKey>,
) -> Option<(String, String)> {
    let oldest = within.min_timestamp.max(op.ttl.visible_from(op.now));
    let (mut lower, mut upper) = slice(&Bounds { min_timestamp: oldest, ..*within });
    match after {
        Some((after, Order::Newest)) => upper = upper.min(after.to_string()),
        Some((after, Order::Oldest)) => lower = lower.max(after.to_string() + "$"),
        None => {}
    }
    if let Some(last) = last_shown {
        lower = lower.max(last.to_string());
    }
    (oldest <= within.max_timestamp && lower < upper).then_some((lower, upper))
}

/// Bounds as text, whatever is visible.
pub fn slice(bounds: &Bounds) -> (String, String) {
    (digits(bounds.min_timestamp), digits(bounds.max_timestamp) + "$")
}

fn digits(timestamp: Timestamp) -> String {
    format!("{:0width$}", timestamp.as_nanos(), width = Timestamp::DIGITS)
}

/// The last item that a list shows, if it has more than these.
pub async fn last_shown(call: &mut Call) -> Result<Option<ItemKey>, StoreError> {
    let Some(max_items) = call.op.max_items else { return Ok(None) };
    let shown = max_items.as_u64();
    let Keys { count, last } = walk_keys(call, &Bounds::ALL, None, (shown + 1, shown)).await?;
    call.release();
    if count <= shown {
        return Ok(None);
    }
    call.core.overlong.met(&call.op, &call.list);
    Ok(last)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;
    use crate::domain::{ItemKey, Ttl, ValueDigest};

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos).unwrap()
    }

    fn op(now: u64, ttl_secs: u64) -> Operation {
        let deadline = Instant::now() + Duration::from_secs(1);
        Operation::new(at(now), Ttl::from_secs(ttl_secs).unwrap(), deadline)
    }

    fn bounds(op: &Operation, (min, max, after): (u64, u64, Option<ItemKey>)) -> Option<(String, String)> {
        let within = Bounds { min_timestamp: at(min), max_timestamp: at(max) };
        super::bounds(op, &within, after.map(|key| (key, Order::Newest)), None)
    }

    fn range(min: u64, max: u64, after: Option<ItemKey>) -> (u64, u64, Option<ItemKey>) {
        (min, max, after)
    }
    const LAST: u64 = 9_999_999_999_999_999_999;

    #[test]
    fn bounds_are_digits_and_the_dollar_sign() {
        let text = |min, max, after| bounds(&op(0, 1), range(min, max, after));
        let pair = |lower: &str, upper: &str| Some((lower.to_owned(), upper.to_owned()));
        assert_eq!(text(0, LAST, None), pair("0000000000000000000", "9999999999999999999$"));
        assert_eq!(text(5, 5, None), pair("0000000000000000005", "0000000000000000005$"));
        let key = ItemKey::new(at(7), ValueDigest::of(b""));
        assert_eq!(text(5, 9, Some(key)), pair("0000000000000000005", "0000000000000000007#1B2M2Y8AsgTpgAmY7PhCfg=="));
        assert_eq!(text(5, 6, Some(key)), pair("0000000000000000005", "0000000000000000006$"));
        let oldest = |min, max| {
            let within = Bounds { min_timestamp: at(min), max_timestamp: at(max) };
            super::bounds(&op(0, 1), &within, Some((key, Order::Oldest)), None)
        };
        assert_eq!(oldest(5, 9), pair("0000000000000000007#1B2M2Y8AsgTpgAmY7PhCfg==$", "0000000000000000009$"));
        assert_eq!(oldest(8, 9), pair("0000000000000000008", "0000000000000000009$"));
        assert_eq!(oldest(5, 6), None);
    }

    #[test]
    fn the_last_item_that_is_shown_raises_the_lower_bound() {
        let key = ItemKey::new(at(7), ValueDigest::of(b""));
        let lower = |min, last| {
            let within = Bounds { min_timestamp: at(min), ..Bounds::ALL };
            super::bounds(&op(0, 1), &within, None, last).map(|(lower, _)| lower)
        };
        assert_eq!(lower(5, Some(key)).unwrap(), "0000000000000000007#1B2M2Y8AsgTpgAmY7PhCfg==", "and it is shown");
        assert_eq!(lower(7, Some(key)), lower(5, Some(key)));
        assert_eq!(lower(8, Some(key)), lower(8, None));
        let before = Bounds { max_timestamp: at(6), ..Bounds::ALL };
        assert_eq!(super::bounds(&op(0, 1), &before, None, Some(key)), None);
    }

    #[test]
    fn the_ttl_raises_the_lower_bound() {
        let lower = |now, min| bounds(&op(now, 10), range(min, LAST, None)).unwrap().0;
        assert_eq!(lower(15_000_000_000, 0), "0000000005000000001");
        assert_eq!(lower(15_000_000_000, 6_000_000_000), "0000000006000000000");
        assert_eq!(lower(9_000_000_000, 3), "0000000000000000003");
    }

    #[test]
    fn a_page_of_a_search_by_value_has_few_bytes() {
        assert_eq!(rows_of_value(b""), 1_000);
        for bytes in [1, 100, 1_000, 64_000] {
            let rows = rows_of_value(&vec![b'v'; bytes]);
            assert!(rows >= 1 && rows * bytes <= FOUND_BYTES_MAX, "{rows} of {bytes}");
        }
    }

    #[test]
    fn nothing_between_the_bounds_needs_no_query() {
        assert_eq!(bounds(&op(15_000_000_000, 10), range(0, 5_000_000_000, None)), None);
        assert_eq!(bounds(&op(0, 10), range(6, 5, None)), None);
        let key = ItemKey::new(at(4), ValueDigest::of(b""));
        assert_eq!(bounds(&op(0, 10), range(5, 9, Some(key))), None);
        let first = ItemKey::new(at(5), ValueDigest::of(b""));
        assert!(bounds(&op(0, 10), range(5, 9, Some(first))).is_some(), "a tie with smaller digests may follow");
    }
}
