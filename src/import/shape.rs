//! How a row becomes an item: which columns, which unit of time, which type of value.

use clap::ValueEnum;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::client::Failure;
use crate::client::{write_json, write_string};
use crate::domain::{MemberKey, Timestamp, ValueType};

/// The columns that are looked at; all others are passed over.
#[derive(Debug, Clone)]
pub struct Columns {
    pub entity_id: String,
    pub timestamp: String,
    /// Where items have keys.
    pub key: Option<String>,
    pub values: Vec<String>,
    /// Whether the values make an object, with the columns' names as keys.
    pub object: bool,
}

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

impl TimestampUnit {
    fn nanos(self) -> u64 {
        match self {
            Self::S => 1_000_000_000,
            Self::Ms => 1_000_000,
            Self::Us => 1_000,
            Self::Ns => 1,
        }
    }

    /// Its name, and how the command line has it.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::S => ("seconds", "s"),
            Self::Ms => ("milliseconds", "ms"),
            Self::Us => ("microseconds", "us"),
            Self::Ns => ("nanoseconds", "ns"),
        }
    }

    /// The unit that a number of this unit was likely meant in, if it gives a moment of 1970.
    pub(crate) fn likely(self, read: Timestamp) -> Option<Self> {
        read.mistaken_unit()?;
        let likely = Self::of_number(read.as_nanos() / self.nanos())?;
        (likely != self).then_some(likely)
    }

    /// The unit in which a number is a moment since 2001.
    fn of_number(number: u64) -> Option<Self> {
        /// 2001-01-01.
        const SECONDS_FROM: u64 = 978_307_200;
        let units = [Self::Ns, Self::Us, Self::Ms, Self::S];
        units.into_iter().find(|unit| number / (1_000_000_000 / unit.nanos()) >= SECONDS_FROM)
    }

    /// How numbers are read, and the option that reads them otherwise.
    pub(crate) fn doubt(self, likely: Self) -> String {
        let ((name, option), (likely, other)) = (self.names(), likely.names());
        format!("read as {name} (--timestamp-unit {option}), but likely {likely}: pass --timestamp-unit {other}")
    }

    /// A timestamp that stands as text.
    pub(crate) fn read_text(self, text: &str) -> Result<Timestamp, String> {
        if self == Self::Ns {
            return Timestamp::parse(text).map_err(|e| e.to_string());
        }
        if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
            return Timestamp::parse(text).map_err(|_| self.malformed());
        }
        let number: Option<u64> = text.parse().ok();
        let nanos = number.and_then(|number| number.checked_mul(self.nanos()));
        let read = nanos.and_then(|nanos| Timestamp::from_nanos(nanos).ok());
        read.ok_or_else(|| match number.and_then(Self::of_number).filter(|likely| *likely != self) {
            Some(likely) => format!("{text} is beyond 2286, {}", self.doubt(likely)),
            None => self.out_of_range(),
        })
    }

    /// A timestamp that stands as JSON: a string or an integer.
    pub(crate) fn read_json(self, raw: &str) -> Result<Timestamp, String> {
        match raw.as_bytes().first() {
            Some(b'"') => self.read_text(&serde_json::from_str::<String>(raw).map_err(|e| e.to_string())?),
            Some(b'0'..=b'9') => self.read_text(raw),
            _ if self == Self::Ns => Timestamp::from_json(raw).map_err(|e| e.to_string()),
            Some(b'-') => Err(self.out_of_range()),
            _ => Err(self.malformed()),
        }
    }

    fn malformed(self) -> String {
        let (name, option) = self.names();
        format!(
            "not a timestamp from 1970 to 2286; send RFC 3339 with up to nine decimals, such as \
             \"2024-08-29T16:44:05.43Z\", or whole {name} since the Unix epoch (--timestamp-unit {option})"
        )
    }

    fn out_of_range(self) -> String {
        let (name, option) = self.names();
        let last = Timestamp::MAX.as_nanos() / self.nanos();
        format!("a timestamp must be 0 to {last} {name} since the Unix epoch (--timestamp-unit {option})")
    }
}

#[derive(Debug, Clone)]
pub struct Shape {
    pub columns: Columns,
    unit: TimestampUnit,
    value_type: ValueType,
    /// The keys of an object as they are written: `"quantity":`.
    keys: Vec<Vec<u8>>,
}

impl Shape {
    pub fn new(columns: Columns, unit: TimestampUnit, value_type: ValueType) -> Result<Self, Failure> {
        if columns.object && value_type != ValueType::Json {
            return Err(Failure::Usage(format!(
                "--value-columns makes JSON objects, but the feature's value_type is {value_type}: use --value-column"
            )));
        }
        let key = |name: &String| {
            let mut key = Vec::new();
            write_string(name, &mut key).map_err(|e| Failure::Usage(format!("--value-columns: {e}")))?;
            key.push(b':');
            Ok(key)
        };
        let keys = columns.values.iter().map(key).collect::<Result<_, Failure>>()?;
        Ok(Self { columns, unit, value_type, keys })
    }

    /// Appends a key, which is to be one.
    pub fn key_of_text(&self, text: &str, out: &mut Vec<u8>) -> Result<(), String> {
        MemberKey::new(text).map_err(|e| e.to_string())?;
        write_string(text, out)
    }

    pub fn timestamp_text(&self, text: &str) -> Result<Timestamp, String> {
        self.unit.read_text(text)
    }

    pub fn timestamp_json(&self, raw: &str) -> Result<Timestamp, String> {
        self.unit.read_json(raw)
    }

    /// The unit that a timestamp was likely meant in, if it is a moment of 1970.
    pub fn likely_unit(&self, read: Timestamp) -> Option<TimestampUnit> {
        self.unit.likely(read)
    }

    pub fn unit_warning(&self, likely: TimestampUnit) -> String {
        format!("some timestamps are in 1970 and have expired: {}", self.unit.doubt(likely))
    }

    /// Appends the value of a row whose columns are texts.
    pub fn value_of_texts<'a>(
        &self,
        mut text: impl FnMut(usize) -> Result<&'a str, String>,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        if self.columns.object {
            return self.object(out, |column, out| write_string(text(column)?, out));
        }
        write_json(self.value_type, text(0)?, out)
    }

    /// Appends the value of a row whose columns are JSON.
    pub fn value_of_json<'a>(
        &self,
        mut raw: impl FnMut(usize) -> Result<&'a str, String>,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let append = |raw: &str, out: &mut Vec<u8>| out.extend_from_slice(raw.as_bytes());
        if self.columns.object {
            return self.object(out, |column, out| {
                append(raw(column)?, out);
                Ok(())
            });
        }
        let raw = raw(0)?;
        // The canonical form costs more than all else here; what it refuses, the server will.
        if self.value_type != ValueType::Json {
            self.value_type.encode(raw).map_err(|e| e.to_string())?;
        }
        append(raw, out);
        Ok(())
    }

    fn object(
        &self,
        out: &mut Vec<u8>,
        mut member: impl FnMut(usize, &mut Vec<u8>) -> Result<(), String>,
    ) -> Result<(), String> {
        for (column, key) in self.keys.iter().enumerate() {
            out.push(if column == 0 { b'{' } else { b',' });
            out.extend_from_slice(key);
            member(column, out)?;
        }
        out.push(b'}');
        Ok(())
    }

    /// Whether the server would take the item, by the server's own rules. `item` is the JSON that
    /// is sent.
    pub fn check_strictly(&self, item: &[u8]) -> Result<(), String> {
        let item: SentItem<'_> = serde_json::from_slice(item).map_err(|e| e.to_string())?;
        self.value_type.encode(item.value.get()).map_err(|e| e.to_string())?;
        Timestamp::from_nanos(item.timestamp).map(|_| ()).map_err(|e| e.to_string())
    }
}

/// An item as its JSON is sent.
#[derive(Deserialize)]
pub struct SentItem<'a> {
    /// Nanoseconds since the Unix epoch.
    pub timestamp: u64,
    #[serde(borrow)]
    value: &'a RawValue,
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn shape(values: &[&str], object: bool, value_type: ValueType) -> Shape {
        let columns = Columns {
            entity_id: "user".into(),
            timestamp: "at".into(),
            key: None,
            values: values.iter().map(|column| (*column).to_owned()).collect(),
            object,
        };
        Shape::new(columns, TimestampUnit::Ns, value_type).unwrap()
    }

    fn nanos(unit: TimestampUnit, raw: &str) -> Option<u64> {
        let shape = Shape { unit, ..shape(&["v"], false, ValueType::String) };
        shape.timestamp_json(raw).ok().map(Timestamp::as_nanos)
    }

    #[test]
    fn integers_have_the_given_unit_and_texts_their_own() {
        for (unit, nanos_each) in [
            (TimestampUnit::S, 1_000_000_000),
            (TimestampUnit::Ms, 1_000_000),
            (TimestampUnit::Us, 1_000),
            (TimestampUnit::Ns, 1),
        ] {
            assert_eq!(nanos(unit, "1291191960"), Some(1_291_191_960 * nanos_each));
            assert_eq!(nanos(unit, "\"1291191960\""), Some(1_291_191_960 * nanos_each));
            assert_eq!(nanos(unit, "\"2010-12-01T08:26:00Z\""), Some(1_291_191_960_000_000_000));
        }
        for bad in ["-1", "1.5", "1e3", "true", "\"\"", "\"yesterday\"", "99999999999999999999", "10000000000"] {
            assert_eq!(nanos(TimestampUnit::S, bad), None, "{bad}");
        }
    }

    #[test]
    fn errors_and_doubts_name_the_unit_that_was_given() {
        use TimestampUnit::{Ms, Ns, S, Us};
        let refused = |unit: TimestampUnit, raw: &str| unit.read_json(raw).unwrap_err();
        for raw in ["\"soon\"", "1.5", "true", "\"1969-12-31T23:59:59Z\""] {
            let refused = refused(Ms, raw);
            assert!(refused.contains("whole milliseconds since the Unix epoch (--timestamp-unit ms)"), "{refused}");
        }
        for raw in ["-1", "99999999999999999999"] {
            let expected =
                "a timestamp must be 0 to 9999999999999 milliseconds since the Unix epoch (--timestamp-unit ms)";
            assert_eq!(refused(Ms, raw), expected);
        }
        let expected = "1795193045430 is beyond 2286, read as seconds (--timestamp-unit s), but likely \
                        milliseconds: pass --timestamp-unit ms";
        assert_eq!(refused(S, "1795193045430"), expected);
        assert!(refused(Us, "1795193045430000000").ends_with("but likely nanoseconds: pass --timestamp-unit ns"));
        let likely = |unit: TimestampUnit, number: &str| unit.likely(unit.read_text(number).unwrap());
        for (unit, number, expected) in [
            (Ns, "1795193045", Some(S)),
            (Us, "1795193045", Some(S)),
            (Ms, "1795193045", Some(S)),
            (Ns, "1795193045430", Some(Ms)),
            (Us, "1795193045430", Some(Ms)),
            (Ns, "1795193045430000", Some(Us)),
            (Ns, "1795193045430000000", None),
            (Us, "1795193045430000", None),
            (Ms, "1795193045430", None),
            (S, "1795193045", None),
            (Ms, "0", None),
            (Ns, "2026-11-20T16:44:05Z", None),
        ] {
            assert_eq!(likely(unit, number), expected, "{unit:?} {number}");
        }
        assert!(Ms.doubt(S).contains("--timestamp-unit ms), but likely seconds"));
    }

    #[test]
    fn several_columns_make_an_object_in_their_order() {
        let shape = shape(&["b", "a\"c"], true, ValueType::Json);
        let mut out = Vec::new();
        shape.value_of_texts(|column| Ok(["x\n", "1"][column]), &mut out).unwrap();
        assert_eq!(out, br#"{"b":"x\n","a\"c":"1"}"#);
        out.clear();
        shape.value_of_json(|column| Ok(["[1]", "null"][column]), &mut out).unwrap();
        assert_eq!(out, br#"{"b":[1],"a\"c":null}"#);
    }

    #[test]
    fn objects_need_a_json_feature() {
        let columns =
            Columns { entity_id: "u".into(), timestamp: "t".into(), key: None, values: vec!["v".into()], object: true };
        assert!(matches!(
            Shape::new(columns, TimestampUnit::Ns, ValueType::String),
            Err(Failure::Usage(text)) if text.contains("value_type is string")
        ));
    }

    #[test]
    fn the_strict_check_is_the_servers() {
        let shape = shape(&["v"], false, ValueType::Json);
        assert!(shape.check_strictly(br#"{"timestamp":1,"value":{"a":1}}"#).is_ok());
        assert!(shape.check_strictly(br#"{"timestamp":1,"value":{"a":1,"a":2}}"#).is_err());
        assert!(shape.check_strictly(br#"{"timestamp":10000000000000000000,"value":1}"#).is_err());
    }
}
