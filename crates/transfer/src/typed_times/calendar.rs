//! Dates and times of day, with the year first, as RFC 3339, ISO 8601 and databases write them, and the forms of
//! HTTP and `ctime`, which name the month.

use jiff::civil::DateTime;
use jiff::fmt::{rfc2822, strtime};
use jiff::tz::Offset;

use super::Moment;
use super::zone::{Zone, offset, resolve};

/// Why a text is not a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    Why(String),
    /// `11/12/2026` is in November or in December.
    DayOrMonthFirst,
    Unknown,
}

impl From<String> for Refused {
    fn from(why: String) -> Self {
        Self::Why(why)
    }
}

fn why(text: &str) -> Refused {
    Refused::Why(text.to_owned())
}

/// Words of other programs for a missing value.
const MISSING: [&str; 7] = ["null", "none", "nan", "nat", "n/a", "na", "\\n"];

/// Reads a text in its own zone, otherwise in `zone`, otherwise in UTC.
pub fn read(text: &str, zone: Option<&Zone>) -> Result<Moment, Refused> {
    if text.is_empty() {
        return Err(why("the timestamp is empty"));
    }
    if MISSING.contains(&text.to_ascii_lowercase().as_str()) {
        return Err(Refused::Why(format!("the timestamp is missing ({text})")));
    }
    if text.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return named(text, zone);
    }
    if is_slashed(text) {
        return Err(Refused::DayOrMonthFirst);
    }
    let mut scan = Scan(text.as_bytes());
    let civil = scan.civil()?;
    let rest = scan.0.trim_ascii();
    let rest = std::str::from_utf8(rest).map_err(|_| Refused::Unknown)?;
    let offset = if rest.is_empty() { None } else { Some(zone_of(rest)?) };
    Ok(resolve(civil, offset, zone)?)
}

/// The offset after a time of day.
fn zone_of(text: &str) -> Result<Offset, Refused> {
    if let Some(offset) = offset(text) {
        return Ok(offset);
    }
    if text.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return Err(Refused::Why(format!(
            "{text} is not the same offset everywhere and all year: write an offset, such as +01:00"
        )));
    }
    Err(Refused::Unknown)
}

/// A text that begins with the name of a weekday.
fn named(text: &str, zone: Option<&Zone>) -> Result<Moment, Refused> {
    if text.contains(":60") {
        return Err(leap_second());
    }
    if let Ok(at) = rfc2822::parse(text) {
        return Ok(at.timestamp().into());
    }
    let read = |format: &str| strtime::parse(format, text).ok();
    if let Some(at) = read("%a %b %d %H:%M:%S %z %Y").and_then(|parsed| parsed.to_timestamp().ok()) {
        return Ok(at.into());
    }
    match read("%a %b %d %H:%M:%S %Y").and_then(|parsed| parsed.to_datetime().ok()) {
        Some(civil) => Ok(resolve(civil, None, zone)?),
        None => Err(Refused::Unknown),
    }
}

fn leap_second() -> Refused {
    why("Unix time has no leap seconds: write second 59 instead of 60")
}

/// Whether a date begins with one or two digits and a separator, so that its first number is not a year.
fn is_slashed(text: &str) -> bool {
    const SEPARATORS: [char; 3] = ['/', '-', '.'];
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let first = digits(text);
    let Some(rest) = text[first..].strip_prefix(SEPARATORS) else { return false };
    let second = digits(rest);
    [first, second].iter().all(|digits| (1..=2).contains(digits)) && rest[second..].starts_with(SEPARATORS)
}

/// The bytes that are not read yet.
struct Scan<'a>(&'a [u8]);

impl Scan<'_> {
    /// A number of exactly `digits` digits.
    fn number(&mut self, digits: usize) -> Result<i16, Refused> {
        let (number, rest) = self.0.split_at_checked(digits).ok_or(Refused::Unknown)?;
        let value = number
            .iter()
            .try_fold(0, |value: i16, digit| digit.is_ascii_digit().then(|| value * 10 + i16::from(digit - b'0')));
        self.0 = rest;
        value.ok_or(Refused::Unknown)
    }

    /// The next byte, if it is one of these.
    fn one_of(&mut self, bytes: &[u8]) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        bytes.contains(first).then(|| {
            self.0 = rest;
            *first
        })
    }

    fn is_digit_ahead(&self) -> bool {
        self.0.first().is_some_and(u8::is_ascii_digit)
    }

    /// A date, and a time of day if there is one: `2026-11-20T16:44:05.43`, `20261120T164405`, `2026-11-20 16:44`.
    fn civil(&mut self) -> Result<DateTime, Refused> {
        let year = self.number(4)?;
        if self.is_digit_ahead() && self.0.get(1).is_some_and(|byte| !byte.is_ascii_digit()) {
            return Err(why("the year must be from 1970 to 2286"));
        }
        let separator = self.one_of(b"-/");
        let month = self.number(2)?;
        if separator != self.one_of(b"-/") {
            return Err(Refused::Unknown);
        }
        let day = self.number(2)?;
        let [mut hour, mut minute, mut second, mut nanos] = [0_i32; 4];
        if self.one_of(b"Tt ").is_some() {
            (hour, minute, second, nanos) = self.time_of_day()?;
        } else if separator.is_none() {
            return Err(Refused::Unknown);
        }
        match (hour, minute, second) {
            (24, 0, 0) => return Err(why("24:00 must be written as 00:00 of the next day")),
            (_, _, 60) => return Err(leap_second()),
            _ => {}
        }
        let small = |number: i32| i8::try_from(number).map_err(|_| Refused::Unknown);
        let (month, day) = (small(month.into())?, small(day.into())?);
        DateTime::new(year, month, day, small(hour)?, small(minute)?, small(second)?, nanos)
            .map_err(|_| why("no such date or time of day"))
    }

    /// Hour, minute, second and nanosecond.
    fn time_of_day(&mut self) -> Result<(i32, i32, i32, i32), Refused> {
        let hour = self.number(2)?;
        let has_colons = self.one_of(b":").is_some();
        let minute = self.number(2)?;
        let has_second = if has_colons { self.one_of(b":").is_some() } else { self.is_digit_ahead() };
        let second = if has_second { self.number(2)? } else { 0 };
        let nanos = if has_second && self.one_of(b".,").is_some() { self.decimals()? } else { 0 };
        Ok((hour.into(), minute.into(), second.into(), nanos))
    }

    /// The decimals of a second, in nanoseconds.
    fn decimals(&mut self) -> Result<i32, Refused> {
        let digits = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (decimals, rest) = self.0.split_at(digits);
        self.0 = rest;
        let kept = decimals.len() - decimals.iter().rev().take_while(|digit| **digit == b'0').count();
        if decimals.is_empty() {
            return Err(Refused::Unknown);
        }
        if kept > 9 {
            return Err(why("a second must have at most nine decimals"));
        }
        let padded = decimals[..kept].iter().copied().chain(std::iter::repeat(b'0')).take(9);
        Ok(padded.fold(0, |nanos, digit| nanos * 10 + i32::from(digit - b'0')))
    }
}
