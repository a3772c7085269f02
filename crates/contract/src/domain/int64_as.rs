//! The form of 64-bit integers in replies.
//!
//! Many readers of JSON hold each number in a double, and change the integers beyond 2^53 silently. A string of digits
//! reaches them whole.

use std::fmt;

use super::Invalid;

/// How replies write the values of an `int64` feature.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Int64As {
    /// As a JSON number.
    #[default]
    Number,
    /// As a string of decimal digits.
    String,
}

impl Int64As {
    pub const ALL: [Self; 2] = [Self::Number, Self::String];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::String => "string",
        }
    }

    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let known = Self::ALL.into_iter().find(|form| form.as_str() == text);
        known.ok_or_else(|| Invalid::argument("int64_as must be number or string"))
    }

    pub fn is_number(&self) -> bool {
        *self == Self::Number
    }
}

impl fmt::Display for Int64As {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
