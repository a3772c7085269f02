//! Numbers and texts in few bytes, for values that only this process reads.

use crate::definition::VersionProperties;
use crate::domain::{Timestamp, Ttl};

#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    pub fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    pub fn finish(self) -> Box<[u8]> {
        self.0.into_boxed_slice()
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// In 1 to 10 bytes, seven bits in each, the lowest first.
    pub fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    /// A number that is usually equal or close to another.
    pub fn near(&mut self, other: u64, number: u64) {
        let difference = number.wrapping_sub(other).cast_signed();
        self.number((difference << 1 ^ difference >> 63).cast_unsigned());
    }

    pub fn optional(&mut self, number: Option<u64>) {
        self.number(number.map_or(0, |number| number.saturating_add(1)));
    }

    pub fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }
}

#[derive(Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let (first, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(first & 0x7f) << shift;
            if *first < 0x80 {
                return Some(number);
            }
        }
        None
    }

    pub fn near(&mut self, other: u64) -> Option<u64> {
        let zigzag = self.number()?;
        Some(other.wrapping_add(zigzag >> 1 ^ (zigzag & 1).wrapping_neg()))
    }

    pub fn optional(&mut self) -> Option<Option<u64>> {
        Some(self.number()?.checked_sub(1))
    }

    pub fn text(&mut self) -> Option<&'a str> {
        let len = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }

    pub fn ttl(&mut self, other: Ttl) -> Option<Ttl> {
        Ttl::from_secs(self.near(other.as_secs())?).ok()
    }

    pub fn properties(&mut self) -> Option<VersionProperties> {
        let mut numbers = [None; VersionProperties::COUNT];
        for number in &mut numbers {
            *number = self.optional()?;
        }
        VersionProperties::unpack(numbers)
    }

    pub fn timestamp(&mut self, other: Timestamp) -> Option<Timestamp> {
        Timestamp::from_nanos(self.near(other.as_nanos())?).ok()
    }
}
