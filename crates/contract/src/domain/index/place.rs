//! In which order an index has bags: the place of a number or time, as a timestamp of the entry's.
//!
//! Entries are items, and items are ordered by timestamps. So each number and each time has a timestamp, such that
//! greater ones come later. All are further in the future than any lifetime reaches, in the years 2128 to 2284, so
//! that an entry is visible for as long as its row exists, in any order of the index.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::decimal::Decimal;
use super::scalar::Scalar;
use crate::domain::{Invalid, Timestamp};

/// The beginning of the places. All places are below [`Timestamp::MAX`] after it. No store may be queried for entries
/// after the moment that this number is as a timestamp.
const FIRST: u64 = 5_000_000_000_000_000_000;
/// Numbers have 62 bits, of the 64 of a double in their total order: the two lowest of the fraction are left out.
const NUMBER_BITS_LEFT_OUT: u32 = 2;
/// Times follow all numbers.
const TIMES: u64 = FIRST + (1 << (u64::BITS - NUMBER_BITS_LEFT_OUT));
/// 0000-01-01T00:00:00Z in seconds since the Unix epoch, the first year of RFC 3339.
const YEAR_ZERO: i128 = -62_167_219_200;

/// The value by which bags are ordered. Numbers come before times.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum OrderValue {
    Number(Decimal),
    /// Nanoseconds since the Unix epoch.
    Time(i128),
}

impl OrderValue {
    /// A number, or a string with a time in RFC 3339; otherwise `None`.
    pub(super) fn of(scalar: Scalar) -> Option<Self> {
        match scalar {
            Scalar::Number(number) => Some(Self::Number(number)),
            Scalar::String(text) => time_of(&text),
            Scalar::Null | Scalar::Bool(_) => None,
        }
    }

    /// Reads the bound of a query.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let number = Decimal::parse(text).map(Self::Number);
        number.or_else(|| time_of(text)).ok_or_else(|| {
            Invalid::argument(
                "a bound of this index must be a number, or a time in RFC 3339 such as 2024-08-29T16:44:05.43Z",
            )
        })
    }

    /// Greater values have places that are the same or later: numbers that differ in more than some 15 digits,
    /// and times in other microseconds, have others.
    pub fn place(&self) -> Timestamp {
        let nanos = match self {
            Self::Number(number) => FIRST + (total_order(number) >> NUMBER_BITS_LEFT_OUT),
            // Since the year 0: below 2^59 until the year 9999, which RFC 3339 ends with.
            Self::Time(nanos) => TIMES + (nanos.div_euclid(1_000) - YEAR_ZERO * 1_000_000) as u64,
        };
        Timestamp::saturating_from_nanos(nanos.into())
    }
}

fn time_of(text: &str) -> Option<OrderValue> {
    let moment = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    // An offset may lead out of the years that have four digits.
    let moment = moment.unix_timestamp_nanos().max(YEAR_ZERO * 1_000_000_000);
    Some(OrderValue::Time(moment))
}

/// The bits of the nearest double, as a number with the order of doubles (IEEE 754-2019, section 5.10: negative ones
/// are inverted, and come first).
fn total_order(number: &Decimal) -> u64 {
    let mut text = String::new();
    number.write(&mut text);
    // A valid JSON number is never an error for Rust: beyond the range it is infinite.
    let bits = text.parse::<f64>().unwrap_or_default().to_bits();
    if bits >> 63 == 1 { !bits } else { bits | (1 << 63) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::Ttl;

    fn place(text: &str) -> u64 {
        OrderValue::parse(text).unwrap().place().as_nanos()
    }

    #[test]
    fn places_have_the_order_of_their_values() {
        let ordered = [
            "-1e400",
            "-1e308",
            "-5",
            "-0.25",
            "-1e-400",
            "1e-300",
            "0.1",
            "1",
            "1.5",
            "2251799813685247",
            "2251799813685248",
            "1e308",
            "1e400",
            "0000-01-01T00:00:00Z",
            "0001-01-01T00:00:00Z",
            "1969-12-31T23:59:59.999999Z",
            "1970-01-01T00:00:00Z",
            "2024-08-29T16:44:05.43Z",
            "2024-08-29T16:44:05.430001Z",
            "2024-08-29T11:44:05.5-05:00",
            "9999-12-31T23:59:59.999999Z",
        ];
        for pair in ordered.windows(2) {
            assert!(place(pair[0]) <= place(pair[1]), "{pair:?}");
            assert!(OrderValue::parse(pair[0]).unwrap() < OrderValue::parse(pair[1]).unwrap(), "{pair:?}");
        }
        assert_eq!(place("0"), place("-0.0"));
        assert!(place("-0.25") < place("0") && place("0") < place("0.1"));
    }

    #[test]
    fn places_are_timestamps_that_no_ttl_hides() {
        let now = Timestamp::parse("2100-01-01T00:00:00Z").unwrap();
        let places = ["-1e400", "1e400", "0000-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999999999-23:59"].map(place);
        assert!(places.iter().all(|place| (FIRST..Timestamp::MAX.as_nanos()).contains(place)), "{places:?}");
        assert!(places.iter().all(|place| *place >= Ttl::MIN.visible_from(now).as_nanos()), "{places:?}");
    }

    #[test]
    fn only_numbers_and_times_have_a_place() {
        for bad in ["", "x", "\"5\"", "true", "2024-08-29", "2024-08-29 16:44:05", "1e1234567890123456789"] {
            assert!(OrderValue::parse(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn numbers_keep_their_order(a: f64, b: f64) {
            let value = |n: f64| OrderValue::parse(&n.to_string());
            if let (Ok(x), Ok(y)) = (value(a), value(b)) {
                prop_assert_eq!(x.cmp(&y), a.partial_cmp(&b).unwrap());
                let (less, greater) = if x <= y { (x, y) } else { (y, x) };
                prop_assert!(less.place() <= greater.place());
            }
        }

        #[test]
        fn integers_have_distinct_places(a in -(1_i64 << 51)..1 << 51, b in -(1_i64 << 51)..1 << 51) {
            prop_assert_eq!(place(&a.to_string()).cmp(&place(&b.to_string())), a.cmp(&b));
        }
    }
}
