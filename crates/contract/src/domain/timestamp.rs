//! Timestamps: nanoseconds since the Unix epoch, and their two texts.

use std::fmt;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{Invalid, json};

/// Nanoseconds since the Unix epoch, from 0 to 9,999,999,999,999,999,999 (19 digits; in the year
/// 2286), so that item keys have a fixed width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

/// A unit of whole-number timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampUnit {
    Seconds,
    Milliseconds,
    Microseconds,
}

impl TimestampUnit {
    pub fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Milliseconds => "milliseconds",
            Self::Microseconds => "microseconds",
        }
    }
}

impl Timestamp {
    /// Decimal digits of the largest timestamp, and of every timestamp in an item key.
    pub const DIGITS: usize = 19;
    pub const MIN: Self = Self(0);
    pub const MAX: Self = Self(9_999_999_999_999_999_999);
    /// Bytes of [`Rfc3339Writer`]'s texts.
    pub const RFC3339_LEN: usize = 30;

    #[inline]
    pub fn from_nanos(nanos: u64) -> Result<Self, Invalid> {
        if nanos > Self::MAX.0 { Err(out_of_range()) } else { Ok(Self(nanos)) }
    }

    /// The nearest timestamp in range.
    #[inline]
    pub fn saturating_from_nanos(nanos: u128) -> Self {
        Self(u64::try_from(nanos).unwrap_or(u64::MAX).min(Self::MAX.0))
    }

    #[inline]
    pub fn as_nanos(self) -> u64 {
        self.0
    }

    /// The unit that a number was likely meant in, if it was read as nanoseconds and is a moment of 1970: the
    /// seconds, milliseconds and microseconds of our days are such numbers, and no item of that year is visible.
    pub fn mistaken_unit(self) -> Option<TimestampUnit> {
        // 2001-01-01. In each unit, later numbers are less than the numbers of 2001 in the next finer unit.
        const SECONDS_FROM: u64 = 978_307_200;
        match self.0 {
            ..SECONDS_FROM => None,
            nanos if nanos < SECONDS_FROM * 1_000 => Some(TimestampUnit::Seconds),
            nanos if nanos < SECONDS_FROM * 1_000_000 => Some(TimestampUnit::Milliseconds),
            nanos if nanos < SECONDS_FROM * 10_000_000 => Some(TimestampUnit::Microseconds),
            _ => None,
        }
    }

    /// The microseconds since the epoch, rounded down.
    #[inline]
    pub fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Reads either form that callers may send as text: RFC 3339 with up to nine decimals and any
    /// offset, or a string of digits, which are nanoseconds.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
            return Self::from_digits(text);
        }
        Self::from_rfc3339(text)
    }

    /// Reads decimal nanoseconds.
    pub(super) fn from_digits(digits: &str) -> Result<Self, Invalid> {
        /// Any number with this many digits fits 64 bits, so no digit needs a check for overflow.
        const FIT: usize = 19;
        if digits.is_empty() || digits.len() > FIT {
            let are_digits = digits.bytes().all(|b| b.is_ascii_digit());
            let read = digits.parse().map_err(|_| if are_digits { out_of_range() } else { malformed() });
            return Self::from_nanos(read?);
        }
        let mut nanos = 0;
        for byte in digits.bytes() {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return Err(malformed());
            }
            nanos = nanos * 10 + u64::from(digit);
        }
        Self::from_nanos(nanos)
    }

    /// Reads the raw JSON of a timestamp: a string in either form, or an integer.
    pub fn from_json(raw: &str) -> Result<Self, Invalid> {
        match raw.as_bytes().first() {
            Some(b'"') => Self::parse(&json::string(raw).ok_or_else(malformed)?),
            Some(b'-') => Err(out_of_range()),
            Some(b'0'..=b'9') => Self::from_digits(raw),
            _ => Err(Invalid::argument(format!("a timestamp must be a string or an integer; {FORMS}"))),
        }
    }

    fn from_rfc3339(text: &str) -> Result<Self, Invalid> {
        let decimals = text.split_once('.').map_or(0, |(_, rest)| rest.bytes().take_while(u8::is_ascii_digit).count());
        // The parser would drop decimals beyond the ninth, and Unix time has no leap second. Both would store another
        // moment than the sent one. The parser would also accept any character between date and time.
        let separates = matches!(text.as_bytes().get(10), Some(b'T' | b't' | b' '));
        if decimals > 9 || text.get(17..19) == Some("60") || !separates {
            return Err(malformed());
        }
        let moment = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| malformed())?;
        let nanos = u64::try_from(moment.unix_timestamp_nanos()).map_err(|_| out_of_range())?;
        Self::from_nanos(nanos)
    }
}

/// Writes timestamps as RFC 3339 in UTC with nine decimals: `2024-08-29T16:44:05.430000000Z`.
///
/// It remembers the date that it wrote last, since neighbours in a list mostly share theirs.
#[derive(Debug, Clone)]
pub struct Rfc3339Writer {
    day: u64,
    text: [u8; Timestamp::RFC3339_LEN],
}

impl Default for Rfc3339Writer {
    fn default() -> Self {
        Self { day: 0, text: *b"1970-01-01T00:00:00.000000000Z" }
    }
}

impl Rfc3339Writer {
    pub fn text(&mut self, timestamp: Timestamp) -> &[u8; Timestamp::RFC3339_LEN] {
        const SECS_PER_DAY: u64 = 86_400;
        let (seconds, nanos) = (timestamp.0 / 1_000_000_000, timestamp.0 % 1_000_000_000);
        let (day, second_of_day) = (seconds / SECS_PER_DAY, seconds % SECS_PER_DAY);
        let text = &mut self.text;
        if day != self.day {
            self.day = day;
            let (year, month, day) = civil_from_days(day);
            two_digits(text, 0, year / 100);
            two_digits(text, 2, year % 100);
            two_digits(text, 5, month);
            two_digits(text, 8, day);
        }
        two_digits(text, 11, second_of_day / 3_600);
        two_digits(text, 14, second_of_day / 60 % 60);
        two_digits(text, 17, second_of_day % 60);
        two_digits(text, 20, nanos / 10_000_000);
        two_digits(text, 22, nanos / 100_000 % 100);
        two_digits(text, 24, nanos / 1_000 % 100);
        two_digits(text, 26, nanos / 10 % 100);
        text[28] = b'0' + (nanos % 10) as u8;
        text
    }
}

/// Writes a number below 100 in two digits.
fn two_digits(text: &mut [u8; Timestamp::RFC3339_LEN], at: usize, number: u64) {
    const DIGITS: [[u8; 2]; 100] = {
        let mut digits = [[0; 2]; 100];
        let mut number = 0;
        while number < 100 {
            digits[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
            number += 1;
        }
        digits
    };
    let [tens, ones] = DIGITS[number as usize % 100];
    (text[at], text[at + 1]) = (tens, ones);
}

/// The Gregorian date of a day counted from 1970-01-01 (Howard Hinnant, "chrono-Compatible
/// Low-Level Date Algorithms", `civil_from_days`, for days that are not negative).
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

pub(crate) const FORMS: &str = "send RFC 3339 with up to nine decimals, such as \"2024-08-29T16:44:05.43Z\", or nanoseconds \
                     since the Unix epoch";

fn malformed() -> Invalid {
    Invalid::timestamp(format!("not a timestamp; {FORMS}"))
}

fn out_of_range() -> Invalid {
    Invalid::timestamp(format!("a timestamp must be 0 to {} nanoseconds since the Unix epoch", Timestamp::MAX.0))
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(Rfc3339Writer::default().text(*self)).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nanos(text: &str) -> Result<u64, super::super::Code> {
        Timestamp::parse(text).map(Timestamp::as_nanos).map_err(|e| e.code)
    }

    #[test]
    fn both_forms_are_read() {
        let expected = Ok(1_724_949_845_430_000_000);
        assert_eq!(nanos("2024-08-29T16:44:05.430000000Z"), expected);
        assert_eq!(nanos("2024-08-29T16:44:05.43Z"), expected);
        assert_eq!(nanos("2024-08-29T18:44:05.43+02:00"), expected);
        assert_eq!(nanos("2024-08-29t16:44:05.43z"), expected);
        assert_eq!(nanos("2024-08-29 16:44:05.43+00:00"), expected);
        assert_eq!(nanos("2024-08-29T11:14:05.43-05:30"), expected);
        assert_eq!(nanos("1724949845430000000"), expected);
        assert_eq!(nanos("0"), Ok(0));
        assert_eq!(nanos("9999999999999999999"), Ok(9_999_999_999_999_999_999));
        assert_eq!(nanos("2286-11-20T17:46:39.999999999Z"), Ok(9_999_999_999_999_999_999));
    }

    #[test]
    fn anything_but_a_timestamp_is_refused() {
        for bad in [
            "",
            "now",
            "-1",
            "+1",
            "1.5",
            "1e9",
            " 1",
            "10000000000000000000",
            "99999999999999999999",
            "1969-12-31T23:59:59.999999999Z",
            "2286-11-20T17:46:40Z",
            "2024-08-29T16:44:05.1234567890Z",
            "2024-08-29T16:44:05",
            "2024-08-29",
            "2024-08-29 16:44",
            "2024-08-29_16:44:05Z",
            "2024-08-29  16:44:05Z",
            "2024-08-29\t16:44:05Z",
            "2024-08-29\n16:44:05Z",
            "2024-08-29\u{1b}16:44:05Z",
            "2024-08-29é16:44:05Z",
            "2024-02-30T00:00:00Z",
            "2016-12-31T23:59:60Z",
        ] {
            assert_eq!(nanos(bad), Err(super::super::Code::InvalidTimestamp), "{bad:?}");
        }
    }

    #[test]
    fn json_may_be_a_string_or_an_integer() {
        let read = |raw: &str| Timestamp::from_json(raw).map(Timestamp::as_nanos).map_err(|e| e.code);
        assert_eq!(read("17"), Ok(17));
        assert_eq!(read("\"17\""), Ok(17));
        assert_eq!(read("\"1970-01-01T00:00:00.000000017Z\""), Ok(17));
        for bad in ["-1", "1.0", "1e3", "\"x\"", "10000000000000000000"] {
            assert_eq!(read(bad), Err(super::super::Code::InvalidTimestamp), "{bad}");
        }
        for bad in ["null", "true", "[]", "{}"] {
            assert_eq!(read(bad), Err(super::super::Code::InvalidArgument), "{bad}");
        }
    }

    /// Leap days and the ends of centuries are few: drawing days at random misses them.
    #[test]
    fn every_day_has_its_date() {
        let mut writer = Rfc3339Writer::default();
        let mut date = time::macros::date!(1970 - 01 - 01);
        while date <= time::macros::date!(2286 - 11 - 20) {
            let days = (date - time::macros::date!(1970 - 01 - 01)).whole_days() as u64;
            let midnight = Timestamp::from_nanos(days * 86_400_000_000_000).unwrap();
            let (year, month, day) = (date.year(), u8::from(date.month()), date.day());
            let expected = format!("{year:04}-{month:02}-{day:02}T00:00:00.000000000Z");
            assert_eq!(String::from_utf8_lossy(writer.text(midnight)), expected);
            date = date.next_day().unwrap();
        }
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_round_trips(
            text in r".{0,40}|[0-9]{1,21}|[0-9]{4}-[01][0-9]-[0-3][0-9].[0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{1,12})?([Zz]|[+-][0-2][0-9]:[0-6][0-9])",
        ) {
            if let Ok(timestamp) = Timestamp::parse(&text) {
                prop_assert_eq!(Timestamp::parse(&timestamp.to_string()).unwrap(), timestamp);
                let separator = text.chars().nth(10).filter(|_| text.contains('-'));
                prop_assert!(separator.is_none_or(|c| "Tt ".contains(c)), "{}", text);
            }
        }

        #[test]
        fn the_text_equals_that_of_the_time_crate_and_reads_back(nanos in 0..=Timestamp::MAX.as_nanos()) {
            let format = time::macros::format_description!(
                "[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:9]Z"
            );
            let timestamp = Timestamp::from_nanos(nanos).unwrap();
            let moment = OffsetDateTime::from_unix_timestamp_nanos(i128::from(nanos)).unwrap();
            prop_assert_eq!(timestamp.to_string(), moment.format(&format).unwrap());
            prop_assert_eq!(Timestamp::parse(&timestamp.to_string()).unwrap(), timestamp);
        }

        #[test]
        fn a_writer_caches_only_correct_dates(nanos in prop::collection::vec(0..400_000_000_000_000_u64, 1..20)) {
            let mut writer = Rfc3339Writer::default();
            for nanos in nanos {
                let timestamp = Timestamp::from_nanos(nanos).unwrap();
                let text = String::from_utf8_lossy(writer.text(timestamp)).into_owned();
                prop_assert_eq!(text, timestamp.to_string());
            }
        }
    }

    #[test]
    fn numbers_of_another_unit_are_detected() {
        // 2024-08-29T16:44:05.43Z
        let nanos: u64 = 1_724_949_845_430_000_000;
        let unit = |number: u64| Timestamp::from_nanos(number).unwrap().mistaken_unit();
        assert_eq!(unit(nanos), None);
        assert_eq!(unit(nanos / 1_000), Some(TimestampUnit::Microseconds));
        assert_eq!(unit(nanos / 1_000_000), Some(TimestampUnit::Milliseconds));
        assert_eq!(unit(nanos / 1_000_000_000), Some(TimestampUnit::Seconds));
        assert_eq!((unit(0), unit(7)), (None, None));
        // 2006, the oldest that can be visible; 1980; the last moment that there is.
        assert_eq!(
            (unit(1_136_073_600 << 30), unit(315_532_800_000_000_000), unit(9_999_999_999_999_999_999)),
            (None, None, None)
        );
    }
}
