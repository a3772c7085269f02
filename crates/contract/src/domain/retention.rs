//! The visible part of a list: the unexpired items, and of these the newest.

use std::fmt;

use super::{Invalid, Ttl};

/// How many items of a list are shown, at most: 1–100,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MaxItems(u32);

impl MaxItems {
    pub const MIN: Self = Self(1);
    pub const MAX: Self = Self(100_000);

    pub fn new(items: u64) -> Result<Self, Invalid> {
        match u32::try_from(items) {
            Ok(items) if (Self::MIN.0..=Self::MAX.0).contains(&items) => Ok(Self(items)),
            _ => Err(Invalid::argument(format!("max_items must be {} to {}", Self::MIN, Self::MAX))),
        }
    }

    #[inline]
    pub fn get(self) -> usize {
        self.0 as usize
    }

    #[inline]
    pub fn as_u64(self) -> u64 {
        u64::from(self.0)
    }
}

impl fmt::Display for MaxItems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The visible part of the lists of a feature version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Retention {
    pub ttl: Ttl,
    /// `None` shows all unexpired items.
    pub max_items: Option<MaxItems>,
}

impl From<Ttl> for Retention {
    #[inline]
    fn from(ttl: Ttl) -> Self {
        Self { ttl, max_items: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_shows_one_item_to_a_hundred_thousand() {
        assert_eq!(
            [0, 1, 100_000, 100_001, u64::MAX].map(|items| MaxItems::new(items).is_ok()),
            [false, true, true, false, false]
        );
    }
}
