//! Identity: the property that distinguishes the items of a list, and so the number of times that something can be in
//! it.
//!
//! In a list of items, a timestamp and a value are an item. In a *set*, an added item is a *member*, which occurs
//! once: a value, or a key whose value is its payload.
//!
//! A keyed item's *stored bytes* are its key's length (two bytes, big-endian), its key and its value. Stores and item
//! keys use them as its value: their rules for values apply to these bytes.

use std::fmt;

use bytes::Bytes;

use super::{Invalid, ItemKey};

/// The property that distinguishes an item from others, as definitions name it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum IdentityKind {
    /// Its timestamp and value.
    #[default]
    Item,
    /// Its value, which is unique.
    Value,
    /// Its key, which is unique; the value is its payload.
    Key,
}

impl IdentityKind {
    pub const ALL: [Self; 3] = [Self::Item, Self::Value, Self::Key];

    #[inline]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Item => "item",
            Self::Value => "value",
            Self::Key => "key",
        }
    }

    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let known = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        known.ok_or_else(|| Invalid::argument("identity must be item, value or key"))
    }
}

impl fmt::Display for IdentityKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which of a member's items stays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Keep {
    /// The item with the greatest item key: the newest, and among equal timestamps the first on pages, newest first.
    #[default]
    Newest,
    /// The item with the least item key: the oldest, and among equal timestamps the first on pages, oldest first.
    Oldest,
}

impl Keep {
    pub const ALL: [Self; 2] = [Self::Newest, Self::Oldest];

    #[inline]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Newest => "newest",
            Self::Oldest => "oldest",
        }
    }

    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let known = Self::ALL.into_iter().find(|keep| keep.as_str() == text);
        known.ok_or_else(|| Invalid::argument("keep must be newest or oldest"))
    }

    /// Whether an item replaces the existing one of the same member. An equal item does, because its later expiry
    /// applies.
    ///
    /// The answer depends on these two items only. So the same item remains among any number of items, in any order of
    /// arrival.
    #[inline]
    pub fn replaces(self, new: &ItemKey, present: &ItemKey) -> bool {
        match self {
            Self::Newest => new >= present,
            Self::Oldest => new <= present,
        }
    }
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The identity of a version's items, fixed at its creation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Identity {
    #[default]
    Item,
    Value(Keep),
    Key(Keep),
}

impl Identity {
    /// The identity of a request. Without a `kind` it is the inherited one; without a `keep` the inherited one, if it
    /// exists.
    pub fn of(kind: Option<IdentityKind>, keep: Option<Keep>, inherited: Self) -> Result<Self, Invalid> {
        let kept = || keep.or(inherited.keep()).unwrap_or_default();
        match kind.unwrap_or(inherited.kind()) {
            IdentityKind::Item if keep.is_some() => Err(Invalid::argument(
                "keep applies only to the identities value and key: leave it out, or set one of these identities",
            )),
            IdentityKind::Item => Ok(Self::Item),
            IdentityKind::Value => Ok(Self::Value(kept())),
            IdentityKind::Key => Ok(Self::Key(kept())),
        }
    }

    #[inline]
    pub fn kind(self) -> IdentityKind {
        match self {
            Self::Item => IdentityKind::Item,
            Self::Value(_) => IdentityKind::Value,
            Self::Key(_) => IdentityKind::Key,
        }
    }

    /// Which item of a member stays; none where there are no members.
    #[inline]
    pub fn keep(self) -> Option<Keep> {
        match self {
            Self::Item => None,
            Self::Value(keep) | Self::Key(keep) => Some(keep),
        }
    }

    /// Whether its lists are sets.
    #[inline]
    pub fn is_set(self) -> bool {
        self.keep().is_some()
    }

    /// Splits the stored bytes of an item into its key, if it has one, and its value.
    #[inline]
    pub fn split(self, stored: &[u8]) -> (Option<&[u8]>, &[u8]) {
        if self.kind() != IdentityKind::Key {
            return (None, stored);
        }
        let split = stored.split_first_chunk().and_then(|(len, rest)| rest.split_at_checked(key_len(*len)));
        // Only the output of `MemberKey::store` is ever stored.
        split.map_or((None, stored), |(key, value)| (Some(key), value))
    }

    /// The member that an item is: the bytes of its key, or of its value.
    #[inline]
    pub fn member(self, stored: &[u8]) -> &[u8] {
        match self.split(stored) {
            (Some(key), _) => key,
            (None, value) => value,
        }
    }

    /// The value of an item's stored bytes.
    #[inline]
    pub fn value(self, stored: &[u8]) -> &[u8] {
        self.split(stored).1
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.keep() {
            None => write!(f, "{}", self.kind()),
            Some(keep) => write!(f, "{}, {keep}", self.kind()),
        }
    }
}

fn key_len(bytes: [u8; 2]) -> usize {
    usize::from(u16::from_be_bytes(bytes))
}

/// The property that distinguishes a keyed item: 1 to 512 bytes of UTF-8 without NUL.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberKey<'a>(&'a str);

impl<'a> MemberKey<'a> {
    pub const BYTES_MAX: usize = 512;

    pub fn new(text: &'a str) -> Result<Self, Invalid> {
        if text.is_empty() || text.len() > Self::BYTES_MAX || text.contains('\0') {
            return Err(Invalid::argument(format!("key must be 1 to {} bytes of UTF-8 without NUL", Self::BYTES_MAX)));
        }
        Ok(Self(text))
    }

    #[inline]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0.as_bytes()
    }

    /// The stored bytes of an item with this key.
    #[inline]
    pub fn store(&self, value: &[u8]) -> Bytes {
        // A key is short enough for two bytes.
        let len = u16::try_from(self.0.len()).unwrap_or(u16::MAX).to_be_bytes();
        [&len[..], self.as_bytes(), value].concat().into()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::{Timestamp, ValueDigest};

    #[test]
    fn a_version_inherits_omitted_properties() {
        use IdentityKind::{Item, Key, Value};
        let of = |kind, keep, inherited| Identity::of(kind, keep, inherited).ok();
        for (kind, keep, inherited, expected) in [
            (None, None, Identity::Item, Some(Identity::Item)),
            (Some(Value), None, Identity::Item, Some(Identity::Value(Keep::Newest))),
            (Some(Key), Some(Keep::Oldest), Identity::Item, Some(Identity::Key(Keep::Oldest))),
            (None, None, Identity::Key(Keep::Oldest), Some(Identity::Key(Keep::Oldest))),
            (Some(Value), None, Identity::Key(Keep::Oldest), Some(Identity::Value(Keep::Oldest))),
            (None, Some(Keep::Newest), Identity::Key(Keep::Oldest), Some(Identity::Key(Keep::Newest))),
            (Some(Item), None, Identity::Key(Keep::Oldest), Some(Identity::Item)),
            (None, Some(Keep::Newest), Identity::Item, None),
            (Some(Item), Some(Keep::Newest), Identity::Value(Keep::Newest), None),
        ] {
            assert_eq!(of(kind, keep, inherited), expected, "{kind:?} {keep:?} {inherited:?}");
        }
    }

    #[test]
    fn keys_are_bounded_in_bytes() {
        for bad in ["", "a\0b", &"k".repeat(513), &"é".repeat(257)] {
            assert!(MemberKey::new(bad).is_err(), "{bad:?}");
        }
        assert!(MemberKey::new(&"é".repeat(256)).is_ok());
    }

    proptest! {
        #[test]
        fn stored_bytes_parse_into_their_parts(key in "[^\0]{1,128}", value: Vec<u8>) {
            let stored = MemberKey::new(&key).unwrap().store(&value);
            let identity = Identity::Key(Keep::Newest);
            prop_assert_eq!(identity.split(&stored), (Some(key.as_bytes()), &value[..]));
            prop_assert_eq!(identity.member(&stored), key.as_bytes());
            prop_assert_eq!(Identity::Value(Keep::Newest).member(&stored), &stored[..]);
        }

        #[test]
        fn any_bytes_parse_without_a_panic(bytes: Vec<u8>) {
            let (key, value) = Identity::Key(Keep::Newest).split(&bytes);
            prop_assert!(value.len() + key.map_or(0, <[u8]>::len) <= bytes.len());
        }

        #[test]
        fn the_order_of_arrival_does_not_matter(items in prop::collection::vec((0_u64..4, 0_u8..4), 1..8)) {
            let keys: Vec<_> = items
                .iter()
                .map(|(at, value)| ItemKey::new(Timestamp::from_nanos(*at).unwrap(), ValueDigest::of(&[*value])))
                .collect();
            for (keep, expected) in [(Keep::Newest, keys.iter().max()), (Keep::Oldest, keys.iter().min())] {
                let kept = keys.iter().reduce(|present, new| if keep.replaces(new, present) { new } else { present });
                prop_assert_eq!(kept, expected);
            }
        }
    }
}
