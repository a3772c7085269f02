//! Numbers that count time since the Unix epoch, and their units.

use clap::ValueEnum;

use crate::domain::Timestamp;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum TimestampUnit {
    /// Seconds
    S,
    /// Milliseconds
    Ms,
    /// Microseconds
    Us,
    /// Nanoseconds
    #[default]
    Ns,
}

/// A number as it is written.
#[derive(Debug, Clone, Copy)]
pub struct Number<'a> {
    text: &'a str,
    is_negative: bool,
    whole: &'a str,
    /// Without zeros at the end.
    decimals: &'a str,
    has_exponent: bool,
}

impl<'a> Number<'a> {
    /// The number in a text; `None` for other texts.
    pub fn of(text: &'a str) -> Option<Self> {
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, Some(exponent)),
            None => (unsigned, None),
        };
        let (whole, decimals) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let exponent = exponent.map(|exponent| exponent.strip_prefix(['-', '+']).unwrap_or(exponent));
        let is_number = !whole.is_empty()
            && is_digits(whole)
            && is_digits(decimals)
            && exponent.is_none_or(|exponent| !exponent.is_empty() && is_digits(exponent));
        is_number.then(|| Self {
            text,
            is_negative: text.starts_with('-'),
            whole,
            decimals: decimals.trim_end_matches('0'),
            has_exponent: exponent.is_some(),
        })
    }

    pub fn text(&self) -> &'a str {
        self.text
    }
}

impl TimestampUnit {
    fn nanos(self) -> u64 {
        match self {
            Self::S => 1_000_000_000,
            Self::Ms => 1_000_000,
            Self::Us => 1_000,
            Self::Ns => 1,
        }
    }

    /// Decimals of a number of this unit that are whole nanoseconds.
    fn decimals_max(self) -> usize {
        match self {
            Self::S => 9,
            Self::Ms => 6,
            Self::Us => 3,
            Self::Ns => 0,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::S => "seconds",
            Self::Ms => "milliseconds",
            Self::Us => "microseconds",
            Self::Ns => "nanoseconds",
        }
    }

    /// How the command line names it.
    pub fn option(self) -> &'static str {
        match self {
            Self::S => "s",
            Self::Ms => "ms",
            Self::Us => "us",
            Self::Ns => "ns",
        }
    }

    /// The unit that a number of this unit was likely meant in, if it gives a moment of 1970.
    pub fn likely(self, read: Timestamp) -> Option<Self> {
        read.mistaken_unit()?;
        let likely = Self::of_whole(read.as_nanos() / self.nanos())?;
        (likely != self).then_some(likely)
    }

    /// The unit in which a number is a moment since 2001.
    pub fn likely_of(number: &Number<'_>) -> Option<Self> {
        Self::of_whole(number.whole.parse().ok()?).filter(|_| !number.is_negative && !number.has_exponent)
    }

    fn of_whole(number: u64) -> Option<Self> {
        /// 2001-01-01.
        const SECONDS_FROM: u64 = 978_307_200;
        let units = [Self::Ns, Self::Us, Self::Ms, Self::S];
        units.into_iter().find(|unit| number / (1_000_000_000 / unit.nanos()) >= SECONDS_FROM)
    }

    /// How numbers are read, and the option that reads them otherwise.
    pub fn doubt(self, likely: Self) -> String {
        let (name, option, likely, other) = (self.name(), self.option(), likely.name(), likely.option());
        format!("read as {name} (--timestamp-unit {option}), but likely {likely}: pass --timestamp-unit {other}")
    }

    /// The moment that a number of this unit is.
    pub fn read(self, number: &Number<'_>) -> Result<Timestamp, String> {
        let (name, option) = (self.name(), self.option());
        if number.has_exponent {
            let text = number.text;
            return Err(format!(
                "{text} may have lost digits: write {name} (--timestamp-unit {option}) without an exponent"
            ));
        }
        if number.is_negative {
            return Err(self.out_of_range());
        }
        if number.decimals.len() > self.decimals_max() {
            let (text, likely) = (number.text, Self::likely_of(number).filter(|likely| *likely != self));
            return Err(match likely {
                Some(likely) => format!(
                    "{text} is not whole {name}, but likely {}: pass --timestamp-unit {}",
                    likely.name(),
                    likely.option()
                ),
                None => format!(
                    "{text} must have at most {} decimals in {name} (--timestamp-unit {option})",
                    self.decimals_max()
                ),
            });
        }
        let whole: Option<u64> = number.whole.parse().ok();
        let decimals = number.decimals.bytes().fold(0, |value, digit| value * 10 + u64::from(digit - b'0'));
        let decimals = decimals * 10_u64.pow((self.decimals_max() - number.decimals.len()) as u32);
        let nanos = whole.and_then(|whole| whole.checked_mul(self.nanos())?.checked_add(decimals));
        let read = nanos.and_then(|nanos| Timestamp::from_nanos(nanos).ok());
        read.ok_or_else(|| match whole.and_then(Self::of_whole).filter(|likely| *likely != self) {
            Some(likely) => format!("{} is beyond 2286, {}", number.text, self.doubt(likely)),
            None => self.out_of_range(),
        })
    }

    fn out_of_range(self) -> String {
        let last = Timestamp::MAX.as_nanos() / self.nanos();
        format!(
            "a timestamp must be 0 to {last} {} since the Unix epoch (--timestamp-unit {})",
            self.name(),
            self.option()
        )
    }
}
