//! Unreachable lists, whose feature or version was deleted: compactions drop them.

use std::collections::HashMap;

use liststore_storage::IsUnreachable;

/// The feature key in a list's bytes.
pub fn key_of(list: &[u8]) -> Option<&str> {
    str::from_utf8(list.split(|byte| *byte == 0).next()?).ok()
}

/// Queries each feature once.
pub struct Asked {
    ask: Option<IsUnreachable>,
    answers: HashMap<Box<str>, bool>,
}

impl Asked {
    pub fn new(ask: Option<IsUnreachable>) -> Self {
        Self { ask, answers: HashMap::new() }
    }

    /// Whether a list must be dropped.
    pub fn is_unreachable(&mut self, list: &[u8]) -> bool {
        let (Some(ask), Some(key)) = (&self.ask, key_of(list)) else { return false };
        match self.answers.get(key) {
            Some(answer) => *answer,
            None => *self.answers.entry(key.into()).or_insert_with(|| ask(key)),
        }
    }
}
