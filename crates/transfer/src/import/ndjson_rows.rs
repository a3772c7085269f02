//! Rows of an NDJSON file: one JSON object a line. Blank lines are passed over.

use std::borrow::Cow;
use std::fmt;
use std::io::BufRead;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::input::Input;
use super::row::{Row, Step, Unreadable};
use super::shape::{Columns, Shape};

pub struct NdjsonRows {
    input: Input,
    line: Vec<u8>,
    line_number: u64,
    /// The columns of the entity ID, the timestamp and the value, and at the end of the key, if there is one.
    columns: Vec<String>,
    has_key: bool,
}

const ENTITY_ID: usize = 0;
const TIMESTAMP: usize = 1;
const VALUES: usize = 2;

impl NdjsonRows {
    pub fn new(input: Input, shape: &Shape) -> Self {
        let Columns { entity_id, timestamp, key, values, .. } = &shape.columns;
        let columns = [entity_id, timestamp].into_iter().chain(values).chain(key);
        let (columns, has_key) = (columns.cloned().collect(), key.is_some());
        Self { input, line: Vec::new(), line_number: 0, columns, has_key }
    }

    pub fn next(&mut self, shape: &Shape, row: &mut Row) -> Result<Step, Unreadable> {
        let is_ended = loop {
            self.line.clear();
            self.input.row_ended();
            if self.input.read_until(b'\n', &mut self.line).map_err(|e| e.to_string())? == 0 {
                return Ok(Step::End);
            }
            self.line_number += 1;
            let is_ended = self.line.ends_with(b"\n");
            self.line.truncate(self.line.trim_ascii_end().len());
            if !self.line.is_empty() {
                break is_ended;
            }
        };
        let line = self.line_number;
        Ok(match self.fill(shape, row) {
            Ok(()) => Step::Row { line },
            Err(reason) if !is_ended && ends_early(&self.line) => {
                return Err(Unreadable::at(line, format!("{reason}: the file may be truncated in this row")));
            }
            Err(reason) => Step::Bad { line, reason },
        })
    }

    fn fill(&self, shape: &Shape, row: &mut Row) -> Result<(), String> {
        let found = pick(&self.line, &self.columns)?;
        let named = |column: usize, e: String| format!("{}: {e}", self.columns[column]);
        let raw = |column: usize| {
            let raw = found[column].ok_or_else(|| format!("has no member {:?}", self.columns[column]))?;
            Ok::<_, String>(raw.get())
        };
        entity_id(raw(ENTITY_ID)?, &mut row.entity_id).map_err(|e| named(ENTITY_ID, e))?;
        row.set_time(shape.timestamp_json(raw(TIMESTAMP)?).map_err(|e| named(TIMESTAMP, e))?);
        for column in VALUES..self.columns.len() {
            raw(column)?;
        }
        if self.has_key {
            let (column, mut text) = (self.columns.len() - 1, String::new());
            let key = entity_id(raw(column)?, &mut text).and_then(|()| shape.key_of_text(&text, &mut row.key));
            key.map_err(|e| named(column, e))?;
        }
        let value = shape.value_of_json(|column| raw(VALUES + column), &mut row.value);
        value.map_err(|e| named(VALUES, e))
    }

    /// The last line, without its end.
    pub fn line(&self) -> &[u8] {
        &self.line
    }
}

/// Whether JSON ends before its value does. No object begins with another one, so a whole last row needs no line end.
fn ends_early(line: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(line).is_err_and(|error| error.is_eof())
}

/// A string as it is; an integer by its digits, since exports often hold numeric IDs.
pub fn entity_id(raw: &str, out: &mut String) -> Result<(), String> {
    let digits = raw.strip_prefix('-').unwrap_or(raw);
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        out.push_str(raw);
        return Ok(());
    }
    let text: Cow<'_, str> = serde_json::from_str(raw).map_err(|_| "must be a string or an integer".to_owned())?;
    out.push_str(&text);
    Ok(())
}

/// Selects the members with these names from an object, and ignores the rest.
fn pick<'a>(line: &'a [u8], names: &[String]) -> Result<Vec<Option<&'a RawValue>>, String> {
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let mut found = vec![None; names.len()];
    let picked = Pick { names, found: &mut found }.deserialize(&mut deserializer).and_then(|()| deserializer.end());
    picked.map_err(|e| if e.is_data() { format!("is invalid: {e}") } else { format!("is not JSON: {e}") })?;
    Ok(found)
}

struct Pick<'n, 'f, 'a> {
    names: &'n [String],
    found: &'f mut [Option<&'a RawValue>],
}

impl<'a> DeserializeSeed<'a> for Pick<'_, '_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for Pick<'_, '_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Key(key)) = map.next_key::<Key<'a>>()? {
            // One member may serve twice, as the entity ID and in the value.
            let mut places = self.names.iter().enumerate().filter(|(_, name)| **name == key).map(|(place, _)| place);
            let Some(first) = places.next() else {
                map.next_value::<serde::de::IgnoredAny>()?;
                continue;
            };
            if self.found[first].is_some() {
                return Err(serde::de::Error::custom(format!("duplicate member {key:?}")));
            }
            let value: &'a RawValue = map.next_value()?;
            self.found[first] = Some(value);
            places.for_each(|place| self.found[place] = Some(value));
        }
        Ok(())
    }
}

/// A key, borrowed where it holds no escapes.
#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::shape::tests::shape;
    use super::*;
    use crate::domain::ValueType;

    fn rows(shape: &Shape, text: &[u8]) -> Vec<String> {
        try_rows_of(Input::of_bytes(text).unwrap(), shape).unwrap()
    }

    fn try_rows_of(input: Input, shape: &Shape) -> Result<Vec<String>, Unreadable> {
        let mut rows = NdjsonRows::new(input, shape);
        let (mut row, mut all) = (Row::default(), Vec::new());
        loop {
            (row.entity_id, row.value) = (String::new(), Vec::new());
            all.push(match rows.next(shape, &mut row)? {
                Step::End => return Ok(all),
                Step::Bad { line, reason } => format!("{line} ! {reason}"),
                Step::Row { line } => {
                    let (nanos, value) = (row.timestamp.as_nanos(), String::from_utf8_lossy(&row.value));
                    format!("{line} {} {nanos} {value}", row.entity_id)
                }
            });
        }
    }

    #[test]
    fn members_keep_their_types() {
        let text = b"\xef\xbb\xbf{\"user\":\"a\\u00e9\",\"at\":5,\"v\":{\"x\":[1, 2]},\"w\":{\"user\":1}}\r\n\n  \n\
                     {\"\\u0075ser\":17850,\"at\":\"1970-01-01T00:00:00Z\",\"v\":null}";
        assert_eq!(rows(&shape(&["v"], false, ValueType::Json), text), [r#"1 aé 5 {"x":[1, 2]}"#, "4 17850 0 null"]);
        assert_eq!(
            rows(&shape(&["v", "user"], true, ValueType::Json), b"{\"user\":1,\"at\":5,\"v\":true}"),
            [r#"1 1 5 {"v":true,"user":1}"#]
        );
    }

    #[test]
    fn bad_rows_are_reported_and_the_rest_is_read() {
        let text = br#"nonsense
[1]
{"user":"u","at":1}
{"user":1.5,"at":1,"v":"x"}
{"user":"u","at":-1,"v":"x"}
{"user":"u","at":1,"v":7}
{"user":"u","at":1,"v":"x","at":2}
{"user":"u","at":1,"v":"x"} trailing
{"user":"u","at":1,"v":"x"}"#;
        let all = rows(&shape(&["v"], false, ValueType::String), text);
        for (bad, expected) in all.iter().zip([
            "1 ! is not JSON",
            "2 ! is invalid: invalid type: sequence, expected an object",
            "3 ! has no member \"v\"",
            "4 ! user: must be a string or an integer",
            "5 ! at: a timestamp must be 0 to",
            "6 ! v: a value of this feature (value_type string) must be a JSON string",
            "7 ! is invalid: duplicate member \"at\"",
            "8 ! is not JSON",
        ]) {
            assert!(bad.starts_with(expected), "{bad}");
        }
        assert_eq!(all[8], "9 u 1 \"x\"");
    }

    proptest! {
        #[test]
        fn any_ndjson_file_yields_good_or_bad_rows(
            text in r#"([ -~\n]{0,12}|\{"user":"u","at":5,"v":|\{"user":1,|"\\ud800"\}\n|"x"\}\n|é){0,9}"#,
            bytes: Vec<u8>,
        ) {
            let shape = shape(&["v"], false, ValueType::String);
            for text in [text.as_bytes(), &bytes] {
                let lines = text.split(|byte| *byte == b'\n').count();
                // A file that begins like gzip and is not gzip is refused when it is opened, and a cut row when it is
                // read.
                if let Ok(input) = Input::of_bytes(text)
                    && let Ok(rows) = try_rows_of(input, &shape)
                {
                    prop_assert!(rows.len() <= lines);
                }
            }
        }
    }
}
