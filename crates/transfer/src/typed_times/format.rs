//! Times in a form that the caller describes, in the directives of `strftime`.

use jiff::SignedDuration;
use jiff::fmt::strtime::{self, BrokenDownTime};

use super::TypedTime;
use super::zone::{Zone, in_range, resolve};

/// A description of a form, such as `%m/%d/%Y %H:%M`.
#[derive(Debug, Clone)]
pub struct TimeFormat(String);

impl TimeFormat {
    /// Checks that texts of this form name a date.
    pub fn parse(text: &str) -> Result<Self, String> {
        let format = Self(text.to_owned());
        let sample = jiff::Timestamp::UNIX_EPOCH.to_zoned(jiff::tz::TimeZone::UTC);
        let written = strtime::format(text, &sample).map_err(|e| e.to_string())?;
        let read = strtime::parse(text, &written).map_err(|e| e.to_string())?;
        if has_moment(&read) || read.to_datetime().is_ok() {
            return Ok(format);
        }
        Err("must have a year, a month and a day, such as '%Y-%m-%d %H:%M:%S'".to_owned())
    }

    pub fn read(&self, text: &str, zone: Option<&Zone>) -> Result<TypedTime, String> {
        let refused = |e: jiff::Error| format!("{text:?} is not of the form '{}': {e}", self.0);
        // The parser would read a leap second as the second before it.
        if text.contains(":60") {
            return Err("Unix time has no leap seconds: write second 59 instead of 60".to_owned());
        }
        let read = strtime::parse(&self.0, text).map_err(refused)?;
        if has_moment(&read) {
            let at = read.to_timestamp().map_err(refused)?;
            // Seconds since the epoch have no decimals of their own.
            let decimals = read.timestamp().and(read.subsec_nanosecond()).unwrap_or(0);
            let at = at.checked_add(SignedDuration::from_nanos(decimals.into())).map_err(refused)?;
            return in_range(at.into());
        }
        let named = read.iana_time_zone().map(Zone::parse).transpose()?;
        in_range(resolve(read.to_datetime().map_err(refused)?, None, named.as_ref().or(zone))?)
    }
}

/// Whether an offset, or seconds since the Unix epoch, make a moment of it.
fn has_moment(read: &BrokenDownTime) -> bool {
    read.offset().is_some() || read.timestamp().is_some()
}

/// The two forms that a text such as `11/20/2026 16:44` may have, with the month or the day first.
pub fn slashed(text: &str) -> [String; 2] {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let first = digits(text);
    let separator = text[first..].chars().next().unwrap_or('/');
    let (date, time) = text.split_once(' ').unwrap_or((text, ""));
    let year = if date.rsplit(separator).next().is_some_and(|year| year.len() == 4) { "%Y" } else { "%y" };
    let has_noon = time.to_ascii_lowercase().ends_with('m');
    let hour = if has_noon { "%I" } else { "%H" };
    let mut rest = match time.matches(':').count() {
        0 => String::new(),
        1 => format!(" {hour}:%M"),
        _ if time.contains('.') => format!(" {hour}:%M:%S%.f"),
        _ => format!(" {hour}:%M:%S"),
    };
    if has_noon {
        rest.push_str(" %p");
    }
    [["%m", "%d"], ["%d", "%m"]].map(|[first, second]| format!("{first}{separator}{second}{separator}{year}{rest}"))
}
