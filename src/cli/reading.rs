//! Options of files that other programs wrote: their times and their CSV dialect.

use clap::Args;

use crate::import::{CsvDialect, CsvEscape};
use crate::typed_times::{TimeFormat, TimeReader, TimestampUnit, Zone};

#[derive(Debug, Args)]
pub(super) struct ReadingArguments {
    /// The unit of numeric timestamps
    #[arg(long, value_enum, default_value_t, value_name = "UNIT")]
    timestamp_unit: TimestampUnit,
    /// The form of timestamps in strftime directives, such as '%d/%m/%Y %H:%M'
    #[arg(long, value_name = "FORMAT", value_parser = TimeFormat::parse, conflicts_with = "timestamp_unit")]
    timestamp_format: Option<TimeFormat>,
    /// The time zone of timestamps without one: +01:00, or a name such as Europe/Paris [default: UTC]
    #[arg(long, value_name = "ZONE", value_parser = Zone::parse, allow_hyphen_values = true)]
    timezone: Option<Zone>,
    /// The character between the cells of CSV files: a comma, ; or | or tab
    #[arg(long, value_name = "CHARACTER", default_value = ",", value_parser = delimiter)]
    delimiter: u8,
    /// How CSV files escape quotes within quotes, other than by doubling them [default: none]
    #[arg(long, value_enum, value_name = "ESCAPE")]
    csv_escape: Option<CsvEscape>,
}

impl ReadingArguments {
    pub(super) fn times(&self) -> TimeReader {
        let (zone, format) = (self.timezone.clone(), self.timestamp_format.clone());
        TimeReader { unit: self.timestamp_unit, zone, format, now: None }
    }

    /// Whether an option differs from its default.
    pub(super) fn is_given(&self) -> bool {
        self.timestamp_unit != TimestampUnit::default()
            || self.timestamp_format.is_some()
            || self.timezone.is_some()
            || self.dialect() != CsvDialect::default()
    }

    pub(super) fn dialect(&self) -> CsvDialect {
        CsvDialect { delimiter: self.delimiter, escape: self.csv_escape }
    }
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text {
        "tab" | "\\t" | "\t" => Ok(b'\t'),
        _ => match text.as_bytes() {
            [byte] if byte.is_ascii_graphic() && !byte.is_ascii_alphanumeric() && !matches!(byte, b'"' | b'\\') => {
                Ok(*byte)
            }
            _ => Err("must be tab, or one ASCII character other than a letter, digit, quote or backslash".to_owned()),
        },
    }
}
