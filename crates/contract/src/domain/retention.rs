//! What of a list is shown: what has not expired yet, and of that the newest items.

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

/// What is said of the most items of a list where a definition is made or changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MaxItemsInput {
    /// Nothing.
    #[default]
    Absent,
    /// That there is no such bound.
    Unbounded,
    AtMost(MaxItems),
}

impl MaxItemsInput {
    /// The bound where `present` is that which holds if nothing is said.
    #[inline]
    pub fn over(self, present: Option<MaxItems>) -> Option<MaxItems> {
        match self {
            Self::Absent => present,
            Self::Unbounded => None,
            Self::AtMost(items) => Some(items),
        }
    }

    #[inline]
    pub fn is_absent(&self) -> bool {
        *self == Self::Absent
    }
}

impl From<Option<MaxItems>> for MaxItemsInput {
    #[inline]
    fn from(max_items: Option<MaxItems>) -> Self {
        max_items.map_or(Self::Unbounded, Self::AtMost)
    }
}

/// What of the lists of a feature version is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Retention {
    pub ttl: Ttl,
    /// Without a bound, all that has not expired.
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

    #[test]
    fn what_is_said_goes_over_what_was() {
        let [five, six] = [5, 6].map(|items| MaxItems::new(items).unwrap());
        for (said, of_none, of_five) in [
            (MaxItemsInput::Absent, None, Some(five)),
            (MaxItemsInput::Unbounded, None, None),
            (MaxItemsInput::AtMost(six), Some(six), Some(six)),
        ] {
            assert_eq!((said.over(None), said.over(Some(five))), (of_none, of_five), "{said:?}");
        }
    }
}
