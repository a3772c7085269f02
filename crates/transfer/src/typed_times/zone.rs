//! Time zones: fixed offsets, and places whose offset changes over the year.

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

use super::{Moment, TypedTime};
use crate::domain::Timestamp;

/// The time zone of texts that name none.
#[derive(Debug, Clone)]
pub struct Zone {
    name: String,
    zone: TimeZone,
}

impl Zone {
    /// Reads an offset such as `+01:00` or a name of the time zone database such as `Europe/Paris`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let named = |zone| Self { name: text.to_owned(), zone };
        if let Some(offset) = offset(text) {
            return Ok(named(TimeZone::fixed(offset)));
        }
        TimeZone::get(text).map(named).map_err(|_| {
            let reason = if jiff::tz::db().is_definitively_empty() {
                "this system has no time zone database: write an offset such as +01:00"
            } else {
                "unknown time zone: write an offset such as +01:00, or a name such as Europe/Paris"
            };
            reason.to_owned()
        })
    }
}

/// The offset that a text is: `Z`, `UTC`, `GMT`, `+01`, `+0100` or `+01:00`.
pub fn offset(text: &str) -> Option<Offset> {
    if ["z", "utc", "gmt"].iter().any(|name| text.eq_ignore_ascii_case(name)) {
        return Some(Offset::UTC);
    }
    let (sign, digits) = match text.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = match digits.len() {
        2 => (digits, "00"),
        4 => digits.split_at_checked(2)?,
        5 => digits.split_once(':')?,
        _ => return None,
    };
    let number = |text: &str, max: i32| {
        let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<i32>().ok()).flatten().filter(|number| *number <= max)
    };
    Offset::from_seconds(sign * (number(hours, 23)? * 3_600 + number(minutes, 59)? * 60)).ok()
}

/// The moment of a date and time of day: at its own offset, in the zone, or in UTC.
pub fn resolve(civil: DateTime, offset: Option<Offset>, zone: Option<&Zone>) -> Result<Moment, String> {
    let out_of_range = |_: jiff::Error| RANGE.to_owned();
    let Some(Zone { name, zone }) = zone.filter(|_| offset.is_none()) else {
        let at = offset.unwrap_or(Offset::UTC).to_timestamp(civil).map_err(out_of_range)?;
        return Ok(Moment { at, is_utc_assumed: offset.is_none() });
    };
    let moment = zone.to_ambiguous_timestamp(civil);
    match moment.offset() {
        AmbiguousOffset::Unambiguous { .. } => {}
        AmbiguousOffset::Gap { .. } => {
            return Err(format!("{civil} does not exist in {name}, where clocks skip it: write an offset"));
        }
        AmbiguousOffset::Fold { .. } => {
            return Err(format!("{civil} occurs twice in {name}, where clocks are set back: write an offset"));
        }
    }
    Ok(Moment { at: moment.unambiguous().map_err(out_of_range)?, is_utc_assumed: false })
}

const RANGE: &str = "a timestamp must be from 1970-01-01T00:00:00Z to 2286-11-20T17:46:39.999999999Z";

/// A moment as a timestamp, which has bounds.
pub fn in_range(Moment { at, is_utc_assumed }: Moment) -> Result<TypedTime, String> {
    let nanos = u64::try_from(at.as_nanosecond()).map_err(|_| RANGE.to_owned())?;
    let at = Timestamp::from_nanos(nanos).map_err(|_| RANGE.to_owned())?;
    Ok(TypedTime { at, is_utc_assumed })
}
