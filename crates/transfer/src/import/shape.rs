//! How a row becomes an item: which columns, which unit of time, which type of value.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::client::Failure;
use crate::client::{write_json, write_string};
use crate::definition::VersionProperties;
use crate::domain::{MemberKey, Timestamp, ValueType};
use crate::typed_times::{TimeReader, TimestampUnit, TypedTime};

/// The columns to read; the rest are ignored.
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

#[derive(Debug, Clone)]
pub struct Shape {
    pub columns: Columns,
    /// The properties of the version, whose identity and TTL matter for comparisons.
    pub properties: VersionProperties,
    times: TimeReader,
    value_type: ValueType,
    /// The keys of an object as they are written: `"quantity":`.
    keys: Vec<Vec<u8>>,
}

impl Shape {
    pub fn new(columns: Columns, times: TimeReader, value_type: ValueType) -> Result<Self, Failure> {
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
        Ok(Self { columns, properties: VersionProperties::default(), times, value_type, keys })
    }

    /// Appends a text as a key, if it is valid.
    pub fn key_of_text(&self, text: &str, out: &mut Vec<u8>) -> Result<(), String> {
        MemberKey::new(text).map_err(|e| e.to_string())?;
        write_string(text, out)
    }

    pub fn timestamp_text(&self, text: &str) -> Result<TypedTime, String> {
        self.times.text(text)
    }

    pub fn timestamp_json(&self, raw: &str) -> Result<TypedTime, String> {
        self.times.json(raw)
    }

    /// The unit that a timestamp was likely meant in, if it is a moment of 1970.
    pub fn likely_unit(&self, read: Timestamp) -> Option<TimestampUnit> {
        self.times.unit.likely(read)
    }

    pub fn unit_warning(&self, likely: TimestampUnit) -> String {
        format!("some timestamps are in 1970 and have expired: {}", self.times.unit.doubt(likely))
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
        // The canonical form costs more than everything else here. The server performs this check.
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

    /// The bytes of a value as a store has them, if it is valid.
    pub fn stored(&self, value: &RawValue) -> Option<Vec<u8>> {
        self.value_type.encode(value.get()).ok().map(|value| value.into_bytes().to_vec())
    }

    /// Whether the server would accept the item, by the server's own rules. `item` is the sent JSON.
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
    pub value: &'a RawValue,
    #[serde(borrow, default)]
    pub key: Option<&'a RawValue>,
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
        Shape::new(columns, TimeReader::default(), value_type).unwrap()
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
            Shape::new(columns, TimeReader::default(), ValueType::String),
            Err(Failure::Usage(text)) if text.contains("value_type is string")
        ));
    }

    #[test]
    fn the_strict_check_equals_the_servers() {
        let shape = shape(&["v"], false, ValueType::Json);
        assert!(shape.check_strictly(br#"{"timestamp":1,"value":{"a":1}}"#).is_ok());
        assert!(shape.check_strictly(br#"{"timestamp":1,"value":{"a":1,"a":2}}"#).is_err());
        assert!(shape.check_strictly(br#"{"timestamp":10000000000000000000,"value":1}"#).is_err());
    }
}
