//! Values that are compared and returned: each distinct one once, in one piece of memory.

use std::cmp::Ordering;
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};
use liststore_contract::domain::{Int64As, JsonForm, ValueType, json};
use serde_json::Value;

use super::number::Number;

/// What the bytes of values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form(pub JsonForm);

impl Form {
    pub fn is_json(self) -> bool {
        self.0.value_type == ValueType::Json
    }

    /// An integer of the values' type, as a get returns it.
    pub fn int(self, int: i64) -> Value {
        if self.0.value_type == ValueType::Int64 && self.0.int64_as == Int64As::String {
            return int.to_string().into();
        }
        int.into()
    }

    /// A number that is one of the values.
    pub fn number_to_json(self, number: Number) -> Value {
        match number {
            Number::Int(int) => self.int(int),
            Number::Double(double) => double.into(),
        }
    }

    /// The number that a value is, if it is one.
    pub fn number(self, value: &[u8]) -> Option<Number> {
        match self.0.value_type {
            ValueType::Int64 => Some(Number::Int(i64::from_be_bytes(value.try_into().ok()?))),
            ValueType::Double => {
                let double = f64::from_be_bytes(value.try_into().ok()?);
                double.is_finite().then_some(Number::Double(double))
            }
            ValueType::Json => Number::of_json(value),
            ValueType::String | ValueType::Bool | ValueType::Bytes => None,
        }
    }

    /// The value as a get returns it; none if the bytes are not of this form.
    pub fn to_json(self, value: &[u8]) -> Option<Value> {
        if self.is_json() {
            return serde_json::from_slice(value).ok();
        }
        let mut text = Vec::with_capacity(value.len() + 2);
        self.0.write_json(value, &mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// The order of values: numbers by their size, and texts by their characters. JSON of several types is in the order
    /// null, booleans, numbers, strings, arrays, objects.
    pub fn order(self, one: &[u8], other: &[u8]) -> Ordering {
        match (self.number(one), self.number(other)) {
            (Some(one), Some(other)) => return one.order(other),
            _ if !self.is_json() => return one.cmp(other),
            _ => {}
        }
        match rank(one).cmp(&rank(other)) {
            Ordering::Equal if one.first() == Some(&b'"') => text(one).cmp(&text(other)),
            Ordering::Equal => one.cmp(other),
            unequal => unequal,
        }
    }
}

fn text(quoted: &[u8]) -> Option<std::borrow::Cow<'_, str>> {
    json::string(std::str::from_utf8(quoted).ok()?)
}

/// The place of a type of JSON among all.
fn rank(json: &[u8]) -> u8 {
    match json.first() {
        Some(b'n') => 0,
        Some(b't' | b'f') => 1,
        Some(b'"') => 3,
        Some(b'[') => 4,
        Some(b'{') => 5,
        _ => 2,
    }
}

/// Distinct values, each with a number, counted from 0.
#[derive(Debug, Default)]
pub struct Values {
    hasher: DefaultHashBuilder,
    table: HashTable<u32>,
    bytes: Vec<u8>,
    /// Where each value ends.
    ends: Vec<usize>,
}

impl Values {
    pub fn number_of(&mut self, value: &[u8]) -> u32 {
        let Self { hasher, table, bytes, ends } = self;
        let hash = hasher.hash_one(value);
        if let Some(number) = table.find(hash, |number| slice(bytes, ends, *number) == value) {
            return *number;
        }
        let number = u32::try_from(ends.len()).unwrap_or(u32::MAX);
        bytes.extend_from_slice(value);
        ends.push(bytes.len());
        let (bytes, ends) = (&*bytes, &*ends);
        table.insert_unique(hash, number, |number| hasher.hash_one(slice(bytes, ends, *number)));
        number
    }

    pub fn get(&self, number: u32) -> &[u8] {
        slice(&self.bytes, &self.ends, number)
    }

    /// The memory that they take.
    pub fn memory(&self) -> usize {
        /// A number and a byte of its hash, and as much again that is free.
        const SLOT: usize = 8;
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>() + self.table.capacity() * SLOT
    }
}

fn slice<'b>(bytes: &'b [u8], ends: &[usize], number: u32) -> &'b [u8] {
    let number = number as usize;
    let begin = number.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
    ends.get(number).and_then(|end| bytes.get(begin..*end)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(value_type: ValueType) -> Form {
        Form(JsonForm { value_type, int64_as: Int64As::Number })
    }

    #[test]
    fn each_value_has_one_number() {
        let mut values = Values::default();
        let texts: Vec<_> = (0..1_000).map(|n| format!("value {n}")).collect();
        for _ in 0..2 {
            for (number, text) in (0..).zip(&texts) {
                assert_eq!(values.number_of(text.as_bytes()), number);
            }
        }
        assert_eq!(values.number_of(b""), 1_000);
        assert_eq!((values.get(999), values.get(1_000)), (&b"value 999"[..], &b""[..]));
        assert!(values.memory() > 9_000);
    }

    #[test]
    fn values_have_an_order_by_their_type() {
        let sorted = |form: Form, mut values: Vec<&str>| {
            values.sort_by(|one, other| form.order(one.as_bytes(), other.as_bytes()));
            values.join(" ")
        };
        let json = vec!["{}", "10", "\"b\"", "9", "null", "[1]", "true", "\"a!\"", "false", "-1.5", "\"a\"", "1e+30"];
        let expected = "null false true -1.5 9 10 1e+30 \"a\" \"a!\" \"b\" [1] {}";
        assert_eq!(sorted(form(ValueType::Json), json), expected);
        assert_eq!(sorted(form(ValueType::String), vec!["b", "10", "9", "a!", "a"]), "10 9 a a! b");
        let of = form(ValueType::Int64);
        assert_eq!(of.order(&(-1_i64).to_be_bytes(), &1_i64.to_be_bytes()), Ordering::Less);
        let of = form(ValueType::Double);
        assert_eq!(of.order(&(-1_f64).to_be_bytes(), &0_f64.to_be_bytes()), Ordering::Less);
    }

    #[test]
    fn values_are_returned_as_json() {
        let json = |of: ValueType, value: &[u8]| form(of).to_json(value).map(|json| json.to_string());
        assert_eq!(json(ValueType::Bytes, b"\0\xff").as_deref(), Some("\"AP8=\""));
        assert_eq!(json(ValueType::String, b"a\"").as_deref(), Some(r#""a\"""#));
        assert_eq!(json(ValueType::Int64, &7_i64.to_be_bytes()).as_deref(), Some("7"));
        assert_eq!(json(ValueType::Json, b"[1,null]").as_deref(), Some("[1,null]"));
        assert_eq!(json(ValueType::Int64, b"7"), None);
        let digits = Form(JsonForm { value_type: ValueType::Int64, int64_as: Int64As::String });
        assert_eq!(digits.to_json(&7_i64.to_be_bytes()), Some("7".into()));
        assert_eq!(digits.number_to_json(Number::Int(-7)), Value::from("-7"));
        assert_eq!(form(ValueType::Json).int(7), Value::from(7));
    }
}
