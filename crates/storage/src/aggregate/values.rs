//! Values that are compared and returned: each distinct one once, in one piece of memory.

use std::cmp::Ordering;
use std::hash::{BuildHasher, RandomState};

use liststore_contract::domain::{Int64As, JsonForm, ValueType, json};
use serde_json::Value;

use super::memory::Memory;
use super::number::Number;
use super::words::{Needle, words};

/// The form of the bytes of values.
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
    #[inline]
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
#[derive(Debug)]
pub struct Values {
    hasher: Hasher,
    /// The places of a hash table with linear probing, of which at most half are in use: the hash of a value above its
    /// number plus one; 0 if the place is free. Their number is a power of two.
    slots: Vec<u64>,
    bytes: Vec<u8>,
    /// Where each value ends.
    ends: Vec<usize>,
}

impl Values {
    pub fn new(hasher: Hasher) -> Self {
        Self { hasher, slots: Vec::new(), bytes: Vec::new(), ends: Vec::new() }
    }

    /// The number of a value, which may be a new one: the highest so far plus one.
    #[inline]
    pub fn number_of(&mut self, value: &[u8], memory: &mut Memory) -> u32 {
        let needle = Needle::new(value);
        let hash = self.hasher.hash(needle);
        let mut place = hash as usize;
        // No slots, if there are no values yet.
        let mask = self.slots.len().wrapping_sub(1);
        while let Some(slot) = self.slots.get(place & mask).copied().filter(|slot| *slot != 0) {
            let number = (slot as u32).wrapping_sub(1);
            if (slot >> 32) as u32 == hash && needle.is(self.get(number)) {
                return number;
            }
            place += 1;
        }
        self.add(hash, value, memory)
    }

    #[inline(never)]
    fn add(&mut self, hash: u32, value: &[u8], memory: &mut Memory) -> u32 {
        let Self { slots, bytes, ends, .. } = self;
        let number = u32::try_from(ends.len()).unwrap_or(u32::MAX - 1);
        let (bytes_before, ends_before) = (bytes.capacity(), ends.capacity());
        bytes.extend_from_slice(value);
        ends.push(bytes.len());
        memory.grow_vec(bytes_before, bytes);
        memory.grow_vec(ends_before, ends);
        if 2 * ends.len() > slots.len() {
            self.grow(memory);
        }
        put(&mut self.slots, u64::from(hash) << 32 | u64::from(number + 1));
        number
    }

    /// Makes room for more values. Small tables grow faster: most of the work is to move values.
    #[cold]
    fn grow(&mut self, memory: &mut Memory) {
        const LEN_MIN: usize = 64;
        const GROWS_FAST_BELOW: usize = 1_024;
        let before = std::mem::take(&mut self.slots);
        let factor = if before.len() < GROWS_FAST_BELOW { 4 } else { 2 };
        self.slots = vec![0; (before.len() * factor).max(LEN_MIN)];
        before.iter().filter(|slot| **slot != 0).for_each(|slot| put(&mut self.slots, *slot));
        memory.grow(size_of_val(&*before), size_of_val(&*self.slots));
    }

    /// How many values there are.
    #[inline]
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    #[inline]
    pub fn get(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let begin = number.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.ends.get(number).and_then(|end| self.bytes.get(begin..*end)).unwrap_or_default()
    }
}

/// Takes the first free slot for a value that has none.
#[inline]
fn put(slots: &mut [u64], slot: u64) {
    let mask = slots.len().wrapping_sub(1);
    let mut place = (slot >> 32) as usize;
    while slots.get(place & mask).is_some_and(|other| *other != 0) {
        place += 1;
    }
    if let Some(free) = slots.get_mut(place & mask) {
        *free = slot;
    }
}

/// Hashes values by multiplication with random numbers. Each aggregation has others, so that nobody can choose values
/// that share a place.
#[derive(Debug, Clone, Copy)]
pub struct Hasher {
    first: u64,
    last: u64,
}

impl Hasher {
    pub fn random() -> Self {
        let random = RandomState::new();
        Self { first: random.hash_one(0), last: random.hash_one(1) }
    }

    #[inline]
    fn hash(&self, value: Needle<&[u8]>) -> u32 {
        let hash = match value.words() {
            Some(words) => self.mix(words, value.bytes().len()),
            None => self.hash_long(value.bytes()),
        };
        (hash >> 32) as u32
    }

    fn hash_long(&self, value: &[u8]) -> u64 {
        let mix = |state: u64, part: &[u8]| {
            let [first, last] = words(part).unwrap_or_default();
            self.mix([first ^ state, last], value.len())
        };
        value.chunks(16).fold(0, mix)
    }

    /// Multiplies twice, so that each bit of the result depends on all of them.
    #[inline]
    fn mix(&self, [first, last]: [u64; 2], len: usize) -> u64 {
        let folded = fold(first ^ self.first, last ^ self.last);
        fold(folded ^ len as u64, self.first | 1)
    }
}

/// Multiplies. Both halves of the product depend on all bits.
#[inline]
pub fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(value_type: ValueType) -> Form {
        Form(JsonForm { value_type, int64_as: Int64As::Number })
    }

    #[test]
    fn each_value_has_one_number() {
        let (mut values, mut memory) = (Values::new(Hasher::random()), Memory::new(100_000));
        // The same numbers in texts of all lengths.
        let texts: Vec<_> = (0..1_000).map(|n| format!("{}value {n}", "-".repeat(n % 40))).collect();
        for _ in 0..2 {
            for (number, text) in (0..).zip(&texts) {
                assert_eq!(values.number_of(text.as_bytes(), &mut memory), number);
            }
        }
        assert_eq!(values.number_of(b"", &mut memory), 1_000);
        assert_eq!((values.get(1), values.get(1_000)), (&b"-value 1"[..], &b""[..]));
        assert!(!memory.is_exceeded());
        assert_eq!(values.number_of(&[0; 100_000], &mut memory), 1_001);
        assert!(memory.is_exceeded());
    }

    /// What is in a row looks alike. Values that share their hash are looked at one by one.
    #[test]
    fn values_that_differ_little_have_different_places() {
        let ints = |step: i64| (0..10_000).map(|n| (n * step).to_be_bytes().to_vec()).collect::<Vec<_>>();
        let texts = (0..10_000).map(|n| format!("\"{n}\"").into_bytes()).collect();
        let long = (0..10_000).map(|n| format!("{:050}{n}{:050}", 0, 0).into_bytes()).collect();
        for all in [ints(1), ints(256), ints(1 << 40), texts, long] {
            let mut values = Values::new(Hasher::random());
            let mut memory = Memory::new(0);
            for value in &all {
                values.number_of(value, &mut memory);
            }
            let mask = values.slots.len() - 1;
            let far = |(place, slot): &(usize, &u64)| place.wrapping_sub((**slot >> 32) as usize) & mask;
            let taken = values.slots.iter().enumerate().filter(|(_, slot)| **slot != 0);
            let steps: usize = taken.map(|slot| far(&slot)).sum();
            assert!(steps < 10_000, "{steps}");
        }
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
