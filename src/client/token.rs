//! An API key to show to a server.

use std::fmt;

use reqwest::header::HeaderValue;

use crate::access::token::is_well_formed;

/// An API key. `Debug` does not tell it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A text that has the form of a key, its checksum included.
    pub fn parse(text: &str) -> Option<Self> {
        is_well_formed(text).then(|| Self(text.to_owned()))
    }

    /// What to send as `Authorization`.
    pub fn authorization(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// The same, marked so that no library logs it. Its characters are ASCII.
    pub fn header(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&self.authorization()).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
