//! The reverse entry of a member: its items, the current item, and its place.

use std::str;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use ring::digest::{SHA256, digest};

use crate::domain::{Identity, IdentityKind, Invalid, Item, ItemKey, Keep, MemberKey};
use crate::items::OpContext;

/// A member that is no longer than this is the place of its entry, if it is text.
const TEXT_BYTES_MAX: usize = 512;
/// Begins a place that is not the member itself. No Base64 holds it.
const MARK: &str = "#";

/// An item of a member as one writer left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub writer: i32,
    pub key: ItemKey,
    /// The write timestamp of its place in the entry, and of its ordered row.
    pub written: i64,
    /// Nanoseconds since the Unix epoch.
    pub expires_at: u64,
    pub stored: Bytes,
}

impl Held {
    pub fn is_visible(&self, op: &OpContext) -> bool {
        op.sees(self.key.timestamp.as_nanos(), self.expires_at)
    }

    pub fn item(&self) -> Item {
        Item { timestamp: self.key.timestamp, value: self.stored.clone() }
    }
}

/// The reverse entry of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReverseEntry {
    pub member: String,
    pub held: Vec<Held>,
}

impl ReverseEntry {
    /// The current item: of the visible ones the one that stays by the rule.
    pub fn current(&self, op: &OpContext, keep: Keep) -> Option<&Held> {
        let visible = self.held.iter().filter(|held| self.is_last(held) && held.is_visible(op));
        visible.reduce(|present, other| if keep.replaces(&other.key, &present.key) { other } else { present })
    }

    /// Whether several items of it are visible, of which at most one is current.
    pub fn is_torn(&self, op: &OpContext) -> bool {
        self.held.iter().filter(|held| held.is_visible(op)).nth(1).is_some()
    }

    /// Of one item that several have written, the last expiry holds.
    fn is_last(&self, held: &Held) -> bool {
        !self.held.iter().any(|other| other.key == held.key && other.written > held.written)
    }
}

/// Where the entry of a member is: at the member itself if that is a short text, so that who looks at the table
/// can read it; else at its hash.
pub fn place_of(member: &[u8]) -> String {
    match str::from_utf8(member) {
        Ok(text) if (1..=TEXT_BYTES_MAX).contains(&text.len()) => {
            if text.starts_with(MARK) {
                format!("{MARK}{text}")
            } else {
                text.to_owned()
            }
        }
        _ => format!("{MARK}{}", STANDARD.encode(digest(&SHA256, member))),
    }
}

/// The stored bytes of an item from where the entry of its member is, and its value.
pub fn stored_of(identity: Identity, place: &str, value: Bytes) -> Result<Bytes, Invalid> {
    if identity.kind() != IdentityKind::Key {
        return Ok(value);
    }
    // A key is always short enough to be read back.
    let key = place.strip_prefix(MARK).unwrap_or(place);
    MemberKey::new(key).map(|key| key.store(&value))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use tokio::time::Instant;

    use super::*;
    use crate::domain::{Timestamp, Ttl, ValueDigest};

    const SECOND: u64 = 1_000_000_000;

    fn held(writer: i32, secs: u64, written: i64) -> Held {
        let key = ItemKey::new(Timestamp::from_nanos(secs * SECOND).unwrap(), ValueDigest::of(b"v"));
        Held { writer, key, written, expires_at: (secs + 60) * SECOND, stored: Bytes::from_static(b"v") }
    }

    fn op(now: u64, ttl: u64) -> OpContext {
        let now = Timestamp::from_nanos(now * SECOND).unwrap();
        OpContext::new(now, Ttl::from_secs(ttl).unwrap(), Instant::now() + Duration::from_secs(1))
    }

    fn entry(held: &[Held]) -> ReverseEntry {
        ReverseEntry { member: "m".to_owned(), held: held.to_vec() }
    }

    #[test]
    fn the_rule_decides_regardless_of_the_last_writer() {
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let all = [held(1, 5, 30), held(2, 7, 10), held(3, 6, 20)];
            let entry = entry(&order.map(|n: usize| all[n].clone()));
            let op = op(10, 60);
            assert_eq!(entry.current(&op, Keep::Newest), Some(&all[1]));
            assert_eq!(entry.current(&op, Keep::Oldest), Some(&all[0]));
            assert!(entry.is_torn(&op));
        }
    }

    #[test]
    fn invisible_items_do_not_count() {
        let both = entry(&[held(1, 5, 1), held(2, 50, 2)]);
        assert_eq!(both.current(&op(55, 10), Keep::Oldest), Some(&both.held[1]), "hidden by the TTL");
        assert_eq!(both.current(&op(65, 3_600), Keep::Oldest), Some(&both.held[1]), "past its own expiry");
        assert!(!both.is_torn(&op(65, 3_600)));
        assert_eq!(both.current(&op(200, 3_600), Keep::Oldest), None);
        assert_eq!(entry(&[]).current(&op(1, 1), Keep::Newest), None);
    }

    #[test]
    fn the_last_expiry_of_an_item_applies() {
        let shortened = Held { expires_at: 8 * SECOND, ..held(2, 5, 9) };
        let both = entry(&[held(1, 5, 3), shortened]);
        assert!(both.current(&op(7, 60), Keep::Newest).is_some_and(|held| held.writer == 2));
        assert_eq!(both.current(&op(8, 60), Keep::Newest), None);
    }

    #[test]
    fn short_texts_are_stored_unchanged() {
        assert_eq!(place_of(b"u-17"), "u-17");
        assert_eq!(place_of(b"#1"), "##1");
        assert_eq!(place_of(b""), "#47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
        assert_eq!(place_of(b"\xff").len(), 45);
        assert_eq!(place_of(&[b'a'; 513]).len(), 45);
    }

    proptest! {
        #[test]
        fn members_have_distinct_places(a: Vec<u8>, b: Vec<u8>, text in "#{0,3}[a-z]{0,3}", other in "#{0,3}[a-z]{0,3}") {
            prop_assert_eq!(place_of(&a) == place_of(&b), a == b);
            prop_assert_eq!(place_of(text.as_bytes()) == place_of(other.as_bytes()), text == other);
        }

        #[test]
        fn keyed_items_are_restored(key in "#{0,3}[^\0]{1,100}", value: Vec<u8>) {
            let stored = MemberKey::new(&key).unwrap().store(&value);
            let identity = Identity::Key(Keep::Newest);
            let place = place_of(identity.member(&stored));
            prop_assert_eq!(stored_of(identity, &place, value.into()).unwrap(), stored);
        }
    }
}
