//! The data set: its lists, and their items after loading.
//!
//! Everything here is a pure function of a list's number and an item's number. So a data set of any size needs no
//! memory, loading it twice changes nothing, and an answer can be checked against the expected items. Values that are
//! added later differ only in their first character: a loaded value and an added one are never equal.

use serde::Serialize;

/// Entity IDs have this many digits after their prefix, so that every request has one length.
pub const LIST_DIGITS: usize = 8;
pub const LISTS_MAX: u64 = 99_999_999;
/// Shorter values could not distinguish the items of a list.
pub const VALUE_BYTES_MIN: usize = 8;
pub const VALUE_BYTES_MAX: usize = 64_000;
pub const ENTITY_PREFIX: &str = "list-";

const LOADED: u8 = b'L';
const ADDED: u8 = b'A';
/// Base64's characters for URLs (RFC 4648, section 5): none needs escaping in JSON.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// `lists` × `length` items; item 0 is the oldest of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DataSet {
    pub lists: u64,
    pub length: u64,
    pub value_bytes: usize,
    /// Item `i` is between `oldest_nanos + i × spacing_nanos` and the next item's slot.
    pub oldest_nanos: u64,
    pub spacing_nanos: u64,
}

impl DataSet {
    pub fn items(&self) -> u64 {
        self.lists.saturating_mul(self.length)
    }

    /// When item `index` of a list happened, in nanoseconds since the Unix epoch: somewhere in its
    /// slot, as real events are not on the minute.
    pub fn timestamp(&self, list: u64, index: u64) -> u64 {
        let jitter = scramble(list ^ index.rotate_left(32)) % self.spacing_nanos;
        self.oldest_nanos + index * self.spacing_nanos + jitter
    }

    pub fn write_value(&self, list: u64, index: u64, out: &mut Vec<u8>) {
        write_value(LOADED, scramble(list.rotate_left(32) ^ index), self.value_bytes, out);
    }
}

/// Writes the value of a later addition, picked by a number that the caller never uses again.
pub fn write_added_value(number: u64, bytes: usize, out: &mut Vec<u8>) {
    write_value(ADDED, scramble(number), bytes, out);
}

pub fn is_loaded_value(value: &[u8]) -> bool {
    value.first() == Some(&LOADED)
}

/// Writes a list's number as its entity ID has it.
pub fn write_list_digits(list: u64, out: &mut Vec<u8>) {
    let mut digits = [b'0'; LIST_DIGITS];
    let mut rest = list;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.extend_from_slice(&digits);
}

fn write_value(kind: u8, number: u64, bytes: usize, out: &mut Vec<u8>) {
    let end = out.len() + bytes;
    out.push(kind);
    let mut word = number;
    while out.len() < end {
        let mut bits = word;
        // Ten characters use up 60 of the 64 bits.
        for _ in 0..(end - out.len()).min(10) {
            out.push(ALPHABET[(bits & 63) as usize]);
            bits >>= 6;
        }
        word = scramble(word);
    }
}

/// SplitMix64's step and output function (Steele, Lea and Flood, "Fast splittable pseudorandom
/// number generators", 2014): a bijection, so different inputs have different outputs.
pub fn scramble(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const SET: DataSet = DataSet {
        lists: 100,
        length: 1_000,
        value_bytes: 12,
        oldest_nanos: 1_700_000_000_000_000_000,
        spacing_nanos: 60_000_000_000,
    };

    fn value(list: u64, index: u64) -> Vec<u8> {
        let mut out = Vec::new();
        SET.write_value(list, index, &mut out);
        out
    }

    #[test]
    fn the_values_of_a_list_differ_and_have_the_asked_length() {
        let values: HashSet<_> = (0..SET.length).map(|i| value(7, i)).collect();
        assert_eq!(values.len(), 1_000);
        assert!(values.iter().all(|v| v.len() == 12 && v[0] == b'L' && v[1..].iter().all(|b| ALPHABET.contains(b))));
        assert_ne!(value(7, 1), value(8, 1));
        for bytes in [VALUE_BYTES_MIN, 11, 12, 100, 1_001] {
            let mut out = vec![b'x'];
            write_added_value(3, bytes, &mut out);
            assert_eq!(out.len(), 1 + bytes);
            assert_eq!(out[1], b'A');
        }
    }

    #[test]
    fn every_item_has_its_slot_in_time() {
        for index in 0..SET.length {
            let slot = SET.oldest_nanos + index * SET.spacing_nanos;
            assert!((slot..slot + SET.spacing_nanos).contains(&SET.timestamp(42, index)));
        }
        assert_ne!(SET.timestamp(42, 3) % SET.spacing_nanos, SET.timestamp(42, 4) % SET.spacing_nanos);
    }

    #[test]
    fn lists_are_numbered_with_a_fixed_width() {
        let text = |list| {
            let mut out = Vec::new();
            write_list_digits(list, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(0), "00000000");
        assert_eq!(text(1_234), "00001234");
        assert_eq!(text(LISTS_MAX), "99999999");
    }
}
