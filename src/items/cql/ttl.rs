//! Row TTLs: the arithmetic between an item's exact expiry and the whole seconds of CQL.
//!
//! A row's TTL only reclaims space. Visibility follows from the operation's `now`, the item's timestamp and the present
//! TTL, to the nanosecond; so a row must never vanish before its item expires, and it vanishes at most two seconds
//! after (and as much later as an attempt to store it was repeated).

use crate::domain::Timestamp;

/// The longest row TTL that Cassandra and ScyllaDB take: 20 years of 365 days
/// (Cassandra's `Attributes.MAX_TTL`; ScyllaDB's "Expiring data with time to live", which calls it
/// "20 years in seconds").
pub const ROW_TTL_SECS_MAX: i32 = 630_720_000;

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// The TTL of a row whose item expires at `expires_at` (nanoseconds since the Unix epoch): what
/// is left, in seconds, rounded up, plus one. The coordinator counts from its own second, rounded
/// down, so without the one a row could vanish up to a second early.
///
/// Never 0, which would mean "never expire" even on a table with a default TTL, and never
/// negative, which fails the whole batch. `None` if the item has expired by `now`.
pub fn row_ttl_secs(expires_at: u64, now: Timestamp) -> Option<i32> {
    let left = expires_at.checked_sub(now.as_nanos()).filter(|left| *left > 0)?;
    let secs = left.div_ceil(NANOS_PER_SEC) + 1;
    Some(i32::try_from(secs).unwrap_or(ROW_TTL_SECS_MAX).min(ROW_TTL_SECS_MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos).unwrap()
    }

    #[test]
    fn seconds_are_rounded_up_and_one_is_added() {
        let now = at(100_500_000_000);
        assert_eq!(row_ttl_secs(100_500_000_001, now), Some(2));
        assert_eq!(row_ttl_secs(101_500_000_000, now), Some(2));
        assert_eq!(row_ttl_secs(101_500_000_001, now), Some(3));
    }

    #[test]
    fn expired_items_have_no_row() {
        assert_eq!(row_ttl_secs(100, at(100)), None);
        assert_eq!(row_ttl_secs(99, at(100)), None);
    }

    #[test]
    fn twenty_years_are_the_maximum() {
        let most = 630_720_000 * NANOS_PER_SEC;
        assert_eq!(row_ttl_secs(most, at(0)), Some(ROW_TTL_SECS_MAX));
        assert_eq!(row_ttl_secs(most - NANOS_PER_SEC, at(0)), Some(ROW_TTL_SECS_MAX));
        assert_eq!(row_ttl_secs(most - NANOS_PER_SEC - 1, at(0)), Some(ROW_TTL_SECS_MAX));
        assert_eq!(row_ttl_secs(most - 2 * NANOS_PER_SEC, at(0)), Some(ROW_TTL_SECS_MAX - 1));
        assert_eq!(row_ttl_secs(u64::MAX, at(0)), Some(ROW_TTL_SECS_MAX));
    }

    proptest! {
        /// The coordinator expires a row at its own second, rounded down, plus the TTL.
        #[test]
        fn a_row_outlives_its_item_by_two_seconds_at_most(
            now in 0..4_000_000_000_u64 * NANOS_PER_SEC,
            left in 1..630_719_998_u64 * NANOS_PER_SEC,
        ) {
            let ttl = row_ttl_secs(now + left, at(now)).unwrap();
            let vanishes = (now / NANOS_PER_SEC + u64::try_from(ttl).unwrap()) * NANOS_PER_SEC;
            prop_assert!(vanishes >= now + left);
            prop_assert!(vanishes <= now + left + 2 * NANOS_PER_SEC);
        }
    }
}
