//! Which store something belongs to.

use std::fmt;

/// A random ID, drawn for a new data directory and stored in each of its parts. It reveals a missing part, or a part of
/// another directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreId(u128);

impl StoreId {
    /// `None` for zero, which stands for no store in formats with a fixed field.
    pub fn new(number: u128) -> Option<Self> {
        (number != 0).then_some(Self(number))
    }

    /// The text that [`fmt::Display`] gives.
    pub fn parse(text: &str) -> Option<Self> {
        let number = u128::from_str_radix(text, 16).ok().and_then(Self::new)?;
        (number.to_string() == text).then_some(number)
    }

    pub fn number(self) -> u128 {
        self.0
    }
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// How to open a part of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Belonging {
    /// A part of any store. A new part belongs to none.
    Any,
    /// As the existing part of this store.
    Present(StoreId),
    /// As a part of this store from now on: a missing part is created, and a part without a store is adopted.
    Joining(StoreId),
}

impl Belonging {
    /// Whether a part that belongs to this store, or to none, may be opened.
    pub fn allows(self, found: Option<StoreId>) -> bool {
        match self {
            Self::Any => true,
            Self::Present(id) => found == Some(id),
            Self::Joining(id) => found.is_none_or(|found| found == id),
        }
    }

    /// The store of the part after it is opened.
    pub fn once_open(self, found: Option<StoreId>) -> Option<StoreId> {
        match self {
            Self::Any => found,
            Self::Present(id) | Self::Joining(id) => Some(id),
        }
    }

    pub fn may_begin(self) -> bool {
        !matches!(self, Self::Present(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_written_text_reads_back() {
        let id = StoreId::new(0x00ab_cdef).unwrap();
        assert_eq!(id.to_string(), "00000000000000000000000000abcdef");
        assert_eq!(StoreId::parse(&id.to_string()), Some(id));
        for other in ["", "abcdef", "00000000000000000000000000ABCDEF", &"0".repeat(32), &"f".repeat(33)] {
            assert_eq!(StoreId::parse(other), None, "{other}");
        }
    }

    #[test]
    fn parts_of_other_stores_are_never_opened_and_unowned_parts_only_once() {
        let (ours, theirs) = (StoreId::new(1).unwrap(), StoreId::new(2).unwrap());
        let allows = |belonging: Belonging| [None, Some(ours), Some(theirs)].map(|found| belonging.allows(found));
        assert_eq!(allows(Belonging::Any), [true, true, true]);
        assert_eq!(allows(Belonging::Present(ours)), [false, true, false]);
        assert_eq!(allows(Belonging::Joining(ours)), [true, true, false]);
    }
}
