//! Rows and index rows, byte by byte.
//!
//! | | key | value |
//! | --- | --- | --- |
//! | row | list, timestamp, digest | expiry, the item's value |
//! | index row | list, digest, timestamp | expiry |
//!
//! *List* is the partition token (8 bytes, so that lists spread evenly), then the length (2 bytes)
//! and the bytes of the feature key, then those of the entity ID: exact, so that lists whose tokens
//! collide stay apart, and no list's bytes are the beginning of another's. *Timestamp* and *expiry*
//! are nanoseconds in 8 bytes, big-endian. *Digest* is the Base64 text of the value's MD5 (24
//! bytes): the order of keys is that of item keys.

use crate::domain::{ItemKey, ListKey, Timestamp, ValueDigest};

const NANOS_LEN: usize = 8;
const DIGEST_LEN: usize = ValueDigest::TEXT_LEN;
/// Greater than every byte of a digest's text.
const AFTER_DIGESTS: u8 = 0xff;

pub type Key = Vec<u8>;

/// What all keys of a list begin with.
pub struct Prefix(Vec<u8>);

impl Prefix {
    pub fn of(list: &ListKey) -> Self {
        let (feature_key, entity_id) = (list.feature_key.as_str(), list.entity_id.as_str());
        let mut bytes = Vec::with_capacity(8 + 2 + feature_key.len() + 2 + entity_id.len() + NANOS_LEN + DIGEST_LEN);
        bytes.extend_from_slice(&list.token().as_i64().to_be_bytes());
        for part in [feature_key, entity_id] {
            // Feature keys have fewer than 400 bytes, entity IDs at most 512.
            bytes.extend_from_slice(&u16::try_from(part.len()).unwrap_or(u16::MAX).to_be_bytes());
            bytes.extend_from_slice(part.as_bytes());
        }
        Self(bytes)
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn with(&self, parts: [&[u8]; 2]) -> Key {
        [&self.0, parts[0], parts[1]].concat()
    }

    pub fn row(&self, key: &ItemKey) -> Key {
        self.with([&nanos(key.timestamp), &key.digest.text()])
    }

    pub fn index_row(&self, key: &ItemKey) -> Key {
        self.with([&key.digest.text(), &nanos(key.timestamp)])
    }

    /// At or below every row from this timestamp on.
    pub fn rows_from(&self, timestamp: Timestamp) -> Key {
        self.with([&nanos(timestamp), &[]])
    }

    /// Above every row up to this timestamp, and below all later ones.
    pub fn rows_to(&self, timestamp: Timestamp) -> Key {
        self.with([&nanos(timestamp), &[AFTER_DIGESTS]])
    }

    /// What all index rows of a value begin with.
    pub fn index_rows_of(&self, digest: &ValueDigest) -> Key {
        self.with([&digest.text(), &[]])
    }

    /// The row that an index row of this list stands for, and the other way round: they differ in
    /// the order of their last two parts.
    pub fn row_of(&self, index_row: &[u8]) -> Option<Key> {
        let (digest, nanos) = index_row.strip_prefix(self.as_bytes())?.split_at_checked(DIGEST_LEN)?;
        (nanos.len() == NANOS_LEN).then(|| self.with([nanos, digest]))
    }

    pub fn index_row_of(&self, row: &[u8]) -> Option<Key> {
        let (nanos, digest) = row.strip_prefix(self.as_bytes())?.split_at_checked(NANOS_LEN)?;
        (digest.len() == DIGEST_LEN).then(|| self.with([digest, nanos]))
    }
}

fn nanos(timestamp: Timestamp) -> [u8; NANOS_LEN] {
    timestamp.as_nanos().to_be_bytes()
}

/// The timestamp in a row's key.
pub fn timestamp_of_row(key: &[u8]) -> Option<Timestamp> {
    let (rest, _digest) = key.split_last_chunk::<DIGEST_LEN>()?;
    let (_list, nanos) = rest.split_last_chunk::<NANOS_LEN>()?;
    Timestamp::from_nanos(u64::from_be_bytes(*nanos)).ok()
}

pub fn row_value(expires_at: u64, value: &[u8]) -> Vec<u8> {
    [&expires_at.to_be_bytes(), value].concat()
}

/// The expiry that the value of a row or of an index row begins with, and the rest.
pub fn split_expiry(stored: &[u8]) -> Option<(u64, &[u8])> {
    let (expires_at, value) = stored.split_first_chunk::<NANOS_LEN>()?;
    Some((u64::from_be_bytes(*expires_at), value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::{EntityId, EntityType, FeatureId, FeatureKey, FeatureName, Generation, VersionLabel};

    fn list(name: &str, entity_id: &str) -> ListKey {
        let id = FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new(name).unwrap() };
        let key = FeatureKey::new(&id, &VersionLabel::default_version(), Generation::FIRST);
        ListKey::new(key, EntityId::new(entity_id).unwrap())
    }

    fn key(nanos: u64, digest: [u8; 16]) -> ItemKey {
        ItemKey::new(Timestamp::from_nanos(nanos).unwrap(), ValueDigest::from_bytes(digest))
    }

    fn any_key() -> impl Strategy<Value = ItemKey> {
        (0..=Timestamp::MAX.as_nanos(), any::<[u8; 16]>()).prop_map(|(nanos, digest)| key(nanos, digest))
    }

    #[test]
    fn a_key_is_laid_out_as_documented() {
        let list = list("f", "u-1");
        let row = Prefix::of(&list).row(&ItemKey::new(Timestamp::from_nanos(258).unwrap(), ValueDigest::of(b"")));
        let expected = [
            list.token().as_i64().to_be_bytes().as_slice(),
            b"\0\x07user#f|",
            b"\0\x03u-1",
            b"\0\0\0\0\0\0\x01\x02",
            b"1B2M2Y8AsgTpgAmY7PhCfg==",
        ]
        .concat();
        assert_eq!(row, expected);
    }

    #[test]
    fn damaged_keys_and_values_are_no_items() {
        let prefix = Prefix::of(&list("f", "u"));
        let row = prefix.row(&key(1, [0; 16]));
        for end in 0..row.len() {
            assert_eq!(prefix.index_row_of(&row[..end]), None);
        }
        assert_eq!(timestamp_of_row(b"short"), None);
        assert_eq!(timestamp_of_row(&[0xff; 64]), None, "later than any timestamp");
        assert_eq!(split_expiry(&[0; 7]), None);
        assert_eq!(split_expiry(&row_value(7, b"v")), Some((7, b"v".as_slice())));
    }

    proptest! {
        #[test]
        fn rows_order_as_item_keys_do(a in any_key(), b in any_key(), tie: bool) {
            let b = if tie { ItemKey { timestamp: a.timestamp, ..b } } else { b };
            let prefix = Prefix::of(&list("f", "u"));
            prop_assert_eq!(prefix.row(&a).cmp(&prefix.row(&b)), a.cmp(&b));
            let within = (prefix.rows_from(b.timestamp)..=prefix.rows_to(b.timestamp)).contains(&prefix.row(&a));
            prop_assert_eq!(within, a.timestamp == b.timestamp);
        }

        #[test]
        fn rows_and_index_rows_lead_to_each_other(key in any_key()) {
            let prefix = Prefix::of(&list("f", "u"));
            let (row, index_row) = (prefix.row(&key), prefix.index_row(&key));
            prop_assert_eq!(prefix.index_row_of(&row), Some(index_row.clone()));
            prop_assert_eq!(prefix.row_of(&index_row), Some(row.clone()));
            prop_assert_eq!(timestamp_of_row(&row), Some(key.timestamp));
            prop_assert!(index_row.starts_with(&prefix.index_rows_of(&key.digest)));
        }

        #[test]
        fn no_list_begins_with_another(a in "[ab]{1,4}", b in "[ab]{1,4}", c in "[ab]{1,4}", d in "[ab]{1,4}") {
            let (one, other) = (Prefix::of(&list(&a, &b)), Prefix::of(&list(&c, &d)));
            // Even where their tokens are the same.
            prop_assert_eq!(one.as_bytes()[8..].starts_with(&other.as_bytes()[8..]), (a, b) == (c, d));
        }
    }
}
