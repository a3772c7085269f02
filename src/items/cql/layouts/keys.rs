//! Slices of a partition: bounds on its keys.

use super::walk::Slice;
use crate::domain::{ItemKey, Order, Timestamp};
use crate::items::{Bounds, OpContext};

/// Rows of a value that are found before the next ones are requested, and bytes of them.
///
/// ScyllaDB cuts a page of rows at 1 MB (`query_page_size_in_bytes`), and loses rows of an indexed query behind such a
/// cut (scylladb/scylladb issue 25839). So no page comes near to it. The rows are read with their value, though only
/// their keys are requested.
const FOUND_ROWS_MAX: usize = 1_000;
const FOUND_BYTES_MAX: usize = 256 << 10;
const ROW_BYTES: usize = 256;

/// Rows of one page of a search by the index.
pub fn rows_of_value(value: &[u8]) -> usize {
    (FOUND_BYTES_MAX / (value.len() + ROW_BYTES)).clamp(1, FOUND_ROWS_MAX)
}

/// The bounds of what an operation sees as text, `lower <= item_key < upper`, or `None` if nothing lies
/// between them.
///
/// A key is its timestamp's 19 digits, `#` and more; so `t` is below all keys of the timestamp t, and
/// `t$` above them, since `$` follows `#`. (The next timestamp would do as well, but for the largest.) All
/// keys have the same length: what follows a key is above `key$`. `last_shown` is the last item of a list that
/// does not show all.
pub fn bounds(
    op: &OpContext,
    within: &Bounds,
    (order, after): (Order, Option<ItemKey>),
    last_shown: Option<ItemKey>,
) -> Option<Slice> {
    let oldest = within.min_timestamp.max(op.ttl.visible_from(op.now));
    let (mut lower, mut upper) = slice(&Bounds { min_timestamp: oldest, ..*within });
    match (after, order) {
        (Some(after), Order::Newest) => upper = upper.min(after.to_string()),
        (Some(after), Order::Oldest) => lower = lower.max(after.to_string() + "$"),
        (None, _) => {}
    }
    if let Some(last) = last_shown {
        lower = lower.max(last.to_string());
    }
    (oldest <= within.max_timestamp && lower < upper).then_some(Slice { order, lower, upper })
}

/// Bounds as text, regardless of visibility.
pub fn slice(bounds: &Bounds) -> (String, String) {
    (digits(bounds.min_timestamp), digits(bounds.max_timestamp) + "$")
}

fn digits(timestamp: Timestamp) -> String {
    format!("{:0width$}", timestamp.as_nanos(), width = Timestamp::DIGITS)
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

    fn op(now: u64, ttl_secs: u64) -> OpContext {
        let deadline = Instant::now() + Duration::from_secs(1);
        OpContext::new(at(now), Ttl::from_secs(ttl_secs).unwrap(), deadline)
    }

    fn pair_of(slice: Option<Slice>) -> Option<(String, String)> {
        slice.map(|Slice { lower, upper, .. }| (lower, upper))
    }

    fn bounds(op: &OpContext, (min, max, after): (u64, u64, Option<ItemKey>)) -> Option<(String, String)> {
        let within = Bounds { min_timestamp: at(min), max_timestamp: at(max) };
        pair_of(super::bounds(op, &within, (Order::Newest, after), None))
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
            pair_of(super::bounds(&op(0, 1), &within, (Order::Oldest, Some(key)), None))
        };
        assert_eq!(oldest(5, 9), pair("0000000000000000007#1B2M2Y8AsgTpgAmY7PhCfg==$", "0000000000000000009$"));
        assert_eq!(oldest(8, 9), pair("0000000000000000008", "0000000000000000009$"));
        assert_eq!(oldest(5, 6), None);
    }

    #[test]
    fn the_last_visible_item_raises_the_lower_bound() {
        let key = ItemKey::new(at(7), ValueDigest::of(b""));
        let lower = |min, last| {
            let within = Bounds { min_timestamp: at(min), ..Bounds::ALL };
            super::bounds(&op(0, 1), &within, (Order::Newest, None), last).map(|slice| slice.lower)
        };
        assert_eq!(lower(5, Some(key)).unwrap(), "0000000000000000007#1B2M2Y8AsgTpgAmY7PhCfg==", "and it is shown");
        assert_eq!(lower(7, Some(key)), lower(5, Some(key)));
        assert_eq!(lower(8, Some(key)), lower(8, None));
        let before = Bounds { max_timestamp: at(6), ..Bounds::ALL };
        assert!(super::bounds(&op(0, 1), &before, (Order::Newest, None), Some(key)).is_none());
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
