//! Times in the notations of people and other programs: the only parser of commands and imports.
//!
//! The API takes RFC 3339 and nanoseconds only. This parser also takes dates, times without seconds or a time zone,
//! times relative to now, and the texts of common databases. It never guesses: an ambiguous text is refused, and the
//! error contains the accepted forms. `tests/support/typed_times.json` is the table of the spellings of this parser and
//! of the console (`src/console/static/lib/times.js`).

mod calendar;
mod format;
mod relative;
mod unit;
mod zone;

pub use format::TimeFormat;
pub use unit::TimestampUnit;
pub use zone::Zone;

use crate::domain::Timestamp;

/// More than any form of a timestamp needs. An error may repeat a text, so a cell of any length must not get further.
const TEXT_BYTES_MAX: usize = 200;

/// How texts and numbers become timestamps.
#[derive(Debug, Clone, Default)]
pub struct TimeReader {
    /// The unit of numbers.
    pub unit: TimestampUnit,
    /// The zone of texts without one. None is UTC, which the result reports.
    pub zone: Option<Zone>,
    /// The only form that is read, if it is given.
    pub format: Option<TimeFormat>,
    /// The current moment, if texts such as `now` and `-7d` are read.
    pub now: Option<Timestamp>,
}

/// A timestamp that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypedTime {
    pub at: Timestamp,
    /// Whether the text has no time zone and was read as UTC.
    pub is_utc_assumed: bool,
}

/// A moment of any year, before it is a timestamp.
#[derive(Debug, Clone, Copy)]
struct Moment {
    at: jiff::Timestamp,
    is_utc_assumed: bool,
}

impl From<jiff::Timestamp> for Moment {
    fn from(at: jiff::Timestamp) -> Self {
        Self { at, is_utc_assumed: false }
    }
}

impl From<Timestamp> for TypedTime {
    fn from(at: Timestamp) -> Self {
        Self { at, is_utc_assumed: false }
    }
}

impl TimeReader {
    /// Reads the texts that a person types on a command line, at this moment.
    pub fn at(now: Timestamp) -> Self {
        Self { now: Some(now), ..Self::default() }
    }

    /// Reads a text.
    pub fn text(&self, text: &str) -> Result<TypedTime, String> {
        let text = text.trim();
        if text.len() > TEXT_BYTES_MAX {
            return Err(format!("not a timestamp: {}", self.forms()));
        }
        if let Some(format) = &self.format {
            return format.read(text, self.zone.as_ref());
        }
        // The console shows a time and how long ago it was.
        let with_words = self.now.and_then(|now| text.split_once(" · ").filter(|(_, words)| is_in_words(words, now)));
        let text = with_words.map_or(text, |(at, _)| at);
        // The two forms of nearly all files.
        let is_integer = text.bytes().all(|byte| byte.is_ascii_digit());
        let is_plain = !is_integer || self.unit == TimestampUnit::Ns && self.now.is_none();
        if is_plain && let Ok(at) = Timestamp::parse(text) {
            return Ok(at.into());
        }
        if let Some(now) = self.now
            && let Some(read) = relative::read(text, now)
        {
            return read.map(TypedTime::from);
        }
        if let Some(number) = unit::Number::of(text) {
            return self.number(&number).map(TypedTime::from);
        }
        zone::in_range(calendar::read(text, self.zone.as_ref()).map_err(|error| self.refusal(text, error))?)
    }

    /// Reads a text that may also be a date before 1970 or after 2286, as properties of bags have. Returns it in RFC
    /// 3339, and whether it was read as UTC.
    pub fn of_any_year(&self, text: &str) -> Result<(String, bool), String> {
        let refused = match self.text(text) {
            Ok(read) => return Ok((read.at.to_string(), read.is_utc_assumed)),
            Err(refused) => refused,
        };
        if text.len() > TEXT_BYTES_MAX {
            return Err(refused);
        }
        let Ok(Moment { at, is_utc_assumed }) = calendar::read(text.trim(), self.zone.as_ref()) else {
            return Err(refused);
        };
        // A year of RFC 3339 has four digits, and an offset may lead out of them.
        Some(format!("{at:.9}"))
            .filter(|at| at.starts_with(|c: char| c.is_ascii_digit()))
            .map(|at| (at, is_utc_assumed))
            .ok_or(refused)
    }

    /// Reads raw JSON: a string or a number.
    pub fn json(&self, raw: &str) -> Result<TypedTime, String> {
        match raw.as_bytes().first() {
            Some(b'"') => self.text(&serde_json::from_str::<String>(raw).map_err(|e| e.to_string())?),
            Some(b'-' | b'0'..=b'9') => self.text(raw),
            _ => Err(format!("a timestamp must be a string or a number: {}", self.forms())),
        }
    }

    fn number(&self, number: &unit::Number<'_>) -> Result<Timestamp, String> {
        if self.now.is_none() {
            return self.unit.read(number);
        }
        // On a command line, a moment of 1970 is a slip: no item of that year is visible.
        let likely = TimestampUnit::likely_of(number).filter(|likely| *likely != self.unit);
        match likely.and_then(|likely| Some((likely.name(), likely.read(number).ok()?))) {
            Some((name, at)) => Err(format!("{} is not nanoseconds but likely {name}: write {at}", number.text())),
            None => match self.unit.read(number) {
                Ok(_) if is_bare_date(number.text()) => Err(format!(
                    "{} would be nanoseconds since the Unix epoch, a moment of 1970: write a date such as 2026-11-20",
                    number.text()
                )),
                Ok(at) => Ok(at),
                Err(_) => {
                    let (text, last) = (number.text(), Timestamp::MAX.as_nanos());
                    Err(format!("{text} must be whole nanoseconds since the Unix epoch, 0 to {last}"))
                }
            },
        }
    }

    fn refusal(&self, text: &str, error: calendar::Refused) -> String {
        use calendar::Refused;
        match error {
            Refused::Why(why) => why,
            Refused::Unknown => format!("not a timestamp: {}", self.forms()),
            Refused::DayOrMonthFirst if self.now.is_some() => {
                "day and month may be swapped: write the year first, such as 2026-11-20".to_owned()
            }
            Refused::DayOrMonthFirst => {
                let [month_first, day_first] = format::slashed(text);
                format!(
                    "day and month may be swapped: pass --timestamp-format '{month_first}' or --timestamp-format \
                     '{day_first}'"
                )
            }
        }
    }

    /// The accepted forms.
    fn forms(&self) -> String {
        if self.now.is_some() {
            return "write 2024-08-29, \"2024-08-29 16:44\", 2024-08-29T16:44:05Z, now, -7d (7 days ago), or nanoseconds \
                    since the Unix epoch"
                .to_owned();
        }
        let (name, option) = (self.unit.name(), self.unit.option());
        format!(
            "expected RFC 3339 such as 2024-08-29T16:44:05.43Z, a date, or {name} since the Unix epoch \
             (--timestamp-unit {option}); --timestamp-format names any other form"
        )
    }
}

/// Whether digits look like a year, a month, a day, a minute, a second or a millisecond, without separators. The digits
/// of an hour are likely seconds since the Unix epoch.
fn is_bare_date(digits: &str) -> bool {
    matches!(digits.len(), 4 | 6 | 8 | 12 | 14 | 17)
        && matches!(digits.get(..2), Some("19" | "20" | "21" | "22"))
        && digits.get(4..6).is_none_or(|month| ("01"..="12").contains(&month))
}

fn is_in_words(text: &str, now: Timestamp) -> bool {
    relative::in_words(text, now).is_some_and(|read| read.is_ok())
}

#[cfg(test)]
mod tests;
