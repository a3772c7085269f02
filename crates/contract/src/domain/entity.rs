//! Entities: the things that lists belong to, such as the user `u-123`.

use std::fmt;
use std::sync::Arc;

use super::Invalid;

const NAME_CHARS_MAX: usize = 128;

/// The common rule for entity types and feature names.
pub(super) fn parse_name(what: &str, text: &str) -> Result<Arc<str>, Invalid> {
    let well_formed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if text.is_empty() || text.len() > NAME_CHARS_MAX || !text.chars().all(well_formed) {
        return Err(Invalid::argument(format!("{what} must be 1 to {NAME_CHARS_MAX} characters of A-Z a-z 0-9 _ . -")));
    }
    if text == "." || text == ".." {
        return Err(Invalid::argument(format!("{what} must not be \".\" or \"..\"")));
    }
    Ok(text.into())
}

/// The kind of an entity, such as `user`: 1–128 characters of `[A-Za-z0-9_.-]`, not `.` or `..`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityType(Arc<str>);

impl EntityType {
    #[inline]
    pub fn new(text: &str) -> Result<Self, Invalid> {
        parse_name("entity_type", text).map(Self)
    }

    #[inline]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EntityType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The identity of one entity: 1–512 bytes of UTF-8 without NUL, not `.` or `..`.
///
/// `.` and `..` are refused because URL libraries rewrite such a path segment, even when it is
/// percent-encoded (WHATWG URL Standard, section 4.4), so that two entities would become one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityId(Arc<str>);

impl EntityId {
    pub const BYTES_MAX: usize = 512;

    pub fn new(text: &str) -> Result<Self, Invalid> {
        if text.is_empty() || text.len() > Self::BYTES_MAX {
            return Err(Invalid::argument(format!(
                "entity_id must have 1 to {} bytes of UTF-8; this one has {}",
                Self::BYTES_MAX,
                text.len()
            )));
        }
        if text.contains('\0') {
            return Err(Invalid::argument("entity_id must not contain NUL (U+0000)"));
        }
        if text == "." || text == ".." {
            return Err(Invalid::argument("entity_id must not be \".\" or \"..\": URL libraries rewrite them"));
        }
        Ok(Self(text.into()))
    }

    #[inline]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
