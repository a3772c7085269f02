//! Buckets: the periods by which a store may divide a list into pieces, so that no piece grows without bound.
//!
//! A bucket is a period of the calendar in UTC. Its name has a fixed width, so that names of one kind of buckets are in
//! the order of time.

use std::fmt;

use time::{Date, Month, OffsetDateTime};

use super::{Identity, Invalid, Timestamp};

const NANOS_PER_DAY: u64 = 86_400 * 1_000_000_000;

/// How long the periods are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bucket {
    Day,
    /// From Monday on (ISO 8601).
    Week,
    Month,
    Year,
}

impl Bucket {
    pub const ALL: [Self; 4] = [Self::Day, Self::Week, Self::Month, Self::Year];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let known = Self::ALL.into_iter().find(|bucket| bucket.as_str() == text);
        known.ok_or_else(|| Invalid::argument("bucket must be day, week, month or year"))
    }

    /// The buckets of lists with an identity: a set has none, as it changes in one partition.
    pub fn of(bucket: Option<Self>, identity: Identity) -> Result<Option<Self>, Invalid> {
        if bucket.is_some() && identity.is_set() {
            return Err(Invalid::argument(
                "bucket is not available for the identities value and key, whose lists have one partition: leave it \
                 out, or send null if the feature's default version has a bucket",
            ));
        }
        Ok(bucket)
    }

    /// The name of the bucket that a moment is in: `2026-11-23`, `2026-W48`, `2026-11`, `2026`.
    pub fn name_of(self, at: Timestamp) -> String {
        let date = date_of(at);
        let (year, month) = (date.year(), u8::from(date.month()));
        match self {
            Self::Day => format!("{year:04}-{month:02}-{:02}", date.day()),
            Self::Week => {
                let (year, week, _) = date.to_iso_week_date();
                format!("{year:04}-W{week:02}")
            }
            Self::Month => format!("{year:04}-{month:02}"),
            Self::Year => format!("{year:04}"),
        }
    }

    /// The end of the bucket of a moment, in nanoseconds since the Unix epoch. It may exceed [`Timestamp::MAX`].
    pub fn end_of(self, at: Timestamp) -> u64 {
        let (day, date) = (at.as_nanos() / NANOS_PER_DAY, date_of(at));
        let first_of = |year, month| Date::from_calendar_date(year, month, 1).ok().map(day_number);
        let end = match self {
            Self::Day => Some(day + 1),
            // 1970-01-01 was a Thursday.
            Self::Week => Some((day + 3) / 7 * 7 + 4),
            Self::Month if date.month() == Month::December => first_of(date.year() + 1, Month::January),
            Self::Month => first_of(date.year(), date.month().next()),
            Self::Year => first_of(date.year() + 1, Month::January),
        };
        // The calendar continues far beyond the last timestamp.
        end.unwrap_or(day + 1) * NANOS_PER_DAY
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn date_of(at: Timestamp) -> Date {
    let seconds = i64::try_from(at.as_nanos() / 1_000_000_000).unwrap_or_default();
    OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH).date()
}

/// Days since 1970-01-01.
fn day_number(date: Date) -> u64 {
    let days = date.to_julian_day() - OffsetDateTime::UNIX_EPOCH.to_julian_day();
    u64::try_from(days).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    #[test]
    fn names_follow_the_calendar() {
        let names = |text: &str| Bucket::ALL.map(|bucket| bucket.name_of(at(text)));
        assert_eq!(names("1970-01-01T00:00:00Z"), ["1970-01-01", "1970-W01", "1970-01", "1970"]);
        assert_eq!(names("2026-11-23T23:59:59.999999999Z"), ["2026-11-23", "2026-W48", "2026-11", "2026"]);
        // ISO 8601: the week of the year's first Thursday is its first.
        assert_eq!(names("2027-01-03T00:00:00Z"), ["2027-01-03", "2026-W53", "2027-01", "2027"]);
        assert_eq!(names("2024-12-30T00:00:00Z"), ["2024-12-30", "2025-W01", "2024-12", "2024"]);
        assert_eq!(Bucket::Day.name_of(Timestamp::MAX), "2286-11-20");
    }

    #[test]
    fn a_bucket_ends_where_the_next_begins() {
        let ends = |text: &str| Bucket::ALL.map(|bucket| bucket.end_of(at(text)));
        let of = |texts: [&str; 4]| texts.map(|text| at(text).as_nanos());
        assert_eq!(
            ends("2024-12-28T12:00:00Z"),
            of(["2024-12-29T00:00:00Z", "2024-12-30T00:00:00Z", "2025-01-01T00:00:00Z", "2025-01-01T00:00:00Z"])
        );
        assert_eq!(
            ends("1970-01-01T00:00:00Z"),
            of(["1970-01-02T00:00:00Z", "1970-01-05T00:00:00Z", "1970-02-01T00:00:00Z", "1971-01-01T00:00:00Z"])
        );
        assert!(Bucket::Year.end_of(Timestamp::MAX) > Timestamp::MAX.as_nanos());
    }

    proptest! {
        #[test]
        fn names_are_in_the_order_of_time_and_change_at_borders(a in 0..=Timestamp::MAX.as_nanos(), b in 0..=Timestamp::MAX.as_nanos()) {
            let at = |nanos| Timestamp::from_nanos(nanos).unwrap();
            let (early, late) = (at(a.min(b)), at(a.max(b)));
            for bucket in Bucket::ALL {
                prop_assert!(bucket.name_of(early) <= bucket.name_of(late));
                let end = bucket.end_of(early);
                prop_assert!(end > early.as_nanos());
                prop_assert_eq!(bucket.name_of(at(end - 1)), bucket.name_of(early));
                if let Ok(next) = Timestamp::from_nanos(end) {
                    prop_assert_ne!(bucket.name_of(next), bucket.name_of(early));
                }
            }
        }
    }
}
