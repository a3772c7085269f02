//! The bytes of an answer, as they come in.

use super::protocol::Protocol;
use super::response::{Malformed, Parsed, Response};

/// Room that every read has at least.
const READ_BYTES_MIN: usize = 16 << 10;

/// Collects bytes until they are one whole answer.
#[derive(Debug)]
pub struct Input {
    bytes: Vec<u8>,
    /// Fewer bytes than these cannot be a whole answer.
    wanted: usize,
}

impl Input {
    pub fn new() -> Self {
        Self { bytes: Vec::with_capacity(READ_BYTES_MIN), wanted: 1 }
    }

    /// Forgets the answer before.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.wanted = 1;
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The buffer for the next read: there is room behind its content.
    pub fn room(&mut self) -> &mut Vec<u8> {
        self.bytes.reserve(READ_BYTES_MIN.max(self.wanted.saturating_sub(self.bytes.len())));
        &mut self.bytes
    }

    /// The answer, once it is complete.
    pub fn answer(&mut self, protocol: &Protocol) -> Result<Option<Response>, Malformed> {
        if self.bytes.len() < self.wanted {
            return Ok(None);
        }
        match protocol.parse(&self.bytes)? {
            Parsed::Complete(answer) if answer.bytes == self.bytes.len() => Ok(Some(answer)),
            Parsed::Complete(_) => Err(Malformed("more bytes than one response".into())),
            Parsed::Partial { bytes } => {
                self.wanted = bytes.unwrap_or(self.bytes.len() + 1);
                Ok(None)
            }
        }
    }

    /// The body of the last answer.
    pub fn body(&self, answer: &Response) -> &[u8] {
        &self.bytes[answer.body.clone()]
    }
}
