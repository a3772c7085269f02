//! The visible part of a list: the unexpired items, and of these the newest.

use std::fmt;
use std::num::NonZeroU32;

use super::{Invalid, Ttl};

/// How many items of a list are shown, at most: 1–100,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MaxItems(NonZeroU32);

impl MaxItems {
    pub const MIN: Self = Self(NonZeroU32::MIN);
    pub const MAX: Self = Self(NonZeroU32::MIN.saturating_add(99_999));

    pub fn new(items: u64) -> Result<Self, Invalid> {
        let items = u32::try_from(items).ok().and_then(NonZeroU32::new).map(Self);
        let items = items.filter(|items| *items <= Self::MAX);
        items.ok_or_else(|| Invalid::argument(format!("max_items must be {} to {}", Self::MIN, Self::MAX)))
    }

    #[inline]
    pub fn get(self) -> usize {
        self.0.get() as usize
    }

    #[inline]
    pub fn as_u64(self) -> u64 {
        u64::from(self.0.get())
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
    fn a_list_shows_between_one_and_100_000_items() {
        assert_eq!(
            [0, 1, 100_000, 100_001, u64::MAX].map(|items| MaxItems::new(items).is_ok()),
            [false, true, true, false, false]
        );
    }
}
