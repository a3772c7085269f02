//! Reverse entries: where in a set each of its members stands.
//!
//! Beside each set there is a hidden list, its *reverse list*, with one entry a member, ordered by a hash of
//! the member: so a member is found by two looks at a place, however long the set is. Both change in one
//! write. An entry is a hint, and the item is what counts: of an entry that points to no item nobody sees
//! anything. But an item without an entry would be overlooked, and its member could be added twice: so an
//! entry goes with its item, or after it, and never before.
//!
//! Rows keep an entry as they keep items: its *place*, 40 bits of the member's MD5, is the timestamp; its
//! value says where the item stands; and its life is the item's own, so that all entries of a set mostly have
//! the same. Hence when an entry has expired is told here, and not by the row's expiry.

use std::cmp::Reverse;
use std::time::Duration;

use bytes::Bytes;
use liststore_contract::domain::ValueDigest;

use super::seek::Start;
use super::{Entry, RowBuilder};
use crate::list_id::ListId;
use crate::options::ListHash;

/// What the bytes of a reverse list have behind those of its set. No set's bytes end like that: there is no
/// entity without a name, nor a name with this in it.
const SUFFIX: u8 = 0;
/// Bytes of the digest of an item's stored bytes that its entry has: enough to find it among others of its
/// timestamp. They stand for whole characters of Base64, by which digests are ordered.
const DIGEST_LEN: usize = 6;
/// What follows them in the greatest digest that begins with them: the Base64 of this is `zzzzzzzzzzzzw`.
const GREATEST_REST: [u8; 16 - DIGEST_LEN] = [0xcf, 0x3c, 0xf3, 0xcf, 0x3c, 0xf3, 0xcf, 0x3c, 0xf3, 0xcf];
/// Bytes of an entry's value.
const ENTRY_LEN: usize = 8 + DIGEST_LEN;
/// How long an entry is kept when its item has expired: a clock that is set back by no more than this finds
/// the entry of each item that it finds.
const KEPT_FOR: Duration = Duration::from_secs(2 * 3_600);

/// The reverse list of a set.
pub fn list_of(set: &ListId, hash: ListHash) -> ListId {
    ListId::from_bytes(&[set.bytes(), &[SUFFIX]].concat(), hash)
}

/// Whether a list's bytes are those of a reverse list.
pub fn is_reverse(list: &[u8]) -> bool {
    list.last() == Some(&SUFFIX)
}

/// The bytes of the set whose reverse list this is.
pub fn set_of(list: &[u8]) -> Option<&[u8]> {
    list.strip_suffix(&[SUFFIX])
}

/// Where in a reverse list the entry of a member stands.
pub fn place_of(member: &[u8]) -> u64 {
    place_of_digest(&ValueDigest::of(member))
}

/// The same, of the member's digest.
pub fn place_of_digest(digest: &ValueDigest) -> u64 {
    // Not those that an entry has of an item's digest: where the identity is the value, the two are one.
    digest.as_bytes()[DIGEST_LEN..DIGEST_LEN + 5].iter().fold(0, |place, byte| place << 8 | u64::from(*byte))
}

/// Where an item stands, as an entry says it: there is hardly ever more than one such item.
/// Ordered as they are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pointer {
    /// Nanoseconds since the Unix epoch.
    pub timestamp: u64,
    digest: [u8; DIGEST_LEN],
}

impl Pointer {
    pub fn to(timestamp: u64, digest: &ValueDigest) -> Self {
        let mut begin = [0; DIGEST_LEN];
        begin.copy_from_slice(&digest.as_bytes()[..DIGEST_LEN]);
        Self { timestamp, digest: begin }
    }

    pub fn encode(&self) -> [u8; ENTRY_LEN] {
        let mut bytes = [0; ENTRY_LEN];
        bytes[..8].copy_from_slice(&self.timestamp.to_be_bytes());
        bytes[8..].copy_from_slice(&self.digest);
        bytes
    }

    /// `None` for the value of an entry that is no member's.
    pub fn decode(value: &[u8]) -> Option<Self> {
        let (timestamp, digest) = value.split_first_chunk()?;
        Some(Self { timestamp: u64::from_be_bytes(*timestamp), digest: digest.try_into().ok()? })
    }

    /// The place right before the items that it may mean. (The one item that this may leave out would have a
    /// digest that nobody can find a value for.)
    pub fn start(&self) -> Start {
        let mut greatest = [0; 16];
        greatest[..DIGEST_LEN].copy_from_slice(&self.digest);
        greatest[DIGEST_LEN..].copy_from_slice(&GREATEST_REST);
        Start { ceiling: self.timestamp, below: Some(ValueDigest::from_bytes(greatest)) }
    }

    /// Whether it may mean an item.
    pub fn means(&self, timestamp: u64, digest: &ValueDigest) -> bool {
        self.timestamp == timestamp && digest.as_bytes().starts_with(&self.digest)
    }
}

/// An entry, as it is to be written.
#[derive(Debug, Clone, Copy)]
pub struct ReverseEntry {
    place: u64,
    pointer: Pointer,
    /// Of its item. `None` if it is to go.
    expires_at: Option<u64>,
}

impl ReverseEntry {
    pub fn new(place: u64, pointer: Pointer, expires_at: u64) -> Self {
        Self { place, pointer, expires_at: Some(expires_at) }
    }

    pub fn deleted(place: u64, pointer: Pointer) -> Self {
        Self { place, pointer, expires_at: None }
    }
}

/// A row of entries, with the lowest place in it. What is put and deleted is put. `None` without entries.
pub fn row_of(mut entries: Vec<ReverseEntry>) -> Option<(Bytes, u64)> {
    let lowest = entries.iter().map(|entry| entry.place).min()?;
    // Of equals, those to go come last.
    let of_place = |entry: &ReverseEntry| (entry.pointer, entry.expires_at);
    entries.sort_unstable_by(|a, b| b.place.cmp(&a.place).then_with(|| of_place(b).cmp(&of_place(a))));
    entries.dedup_by_key(|entry| (entry.place, entry.pointer));
    order_by_digest(&mut entries);
    let mut row = RowBuilder::default();
    for ReverseEntry { place, pointer, expires_at } in &entries {
        // The life of its item.
        let expires_at = expires_at.map(|at| place.wrapping_add(at.wrapping_sub(pointer.timestamp)));
        row.push(*place, expires_at.unwrap_or(0), expires_at.is_none(), &pointer.encode());
    }
    Some((row.finish(), lowest))
}

/// Puts the entries of each place into the order of a list. There are two where a member moves, else hardly ever.
fn order_by_digest(entries: &mut [ReverseEntry]) {
    let of_one_place = |a: &ReverseEntry, b: &ReverseEntry| a.place == b.place;
    let tied = entries.chunk_by(of_one_place).filter(|same| same.len() > 1).flatten();
    let values: Vec<_> = tied.map(|entry| entry.pointer.encode()).collect();
    let digests = ValueDigest::of_each(values.iter().map(|value| &value[..]));
    let mut from = 0;
    for same in entries.chunk_by_mut(of_one_place).filter(|same| same.len() > 1) {
        let digests = &digests[from..from + same.len()];
        from += same.len();
        if let ([first, second], [one, other]) = (&mut *same, digests) {
            if one < other {
                std::mem::swap(first, second);
            }
            continue;
        }
        let mut ordered: Vec<_> = digests.iter().zip(same.iter().copied()).collect();
        ordered.sort_unstable_by_key(|(digest, _)| Reverse(**digest));
        same.iter_mut().zip(ordered).for_each(|(place, (_, entry))| *place = entry);
    }
}

/// Until when an entry is to be kept. Nanoseconds since the Unix epoch.
pub fn kept_until(entry: &Entry, value: &[u8]) -> u64 {
    let Some(pointer) = Pointer::decode(value) else { return u64::MAX };
    let life = entry.expires_at.wrapping_sub(entry.timestamp);
    let kept_for = u64::try_from(KEPT_FOR.as_nanos()).unwrap_or(u64::MAX);
    pointer.timestamp.wrapping_add(life).saturating_add(kept_for)
}

#[cfg(test)]
mod tests {
    use super::super::RowCursor;
    use super::*;

    fn entry(member: &[u8], timestamp: u64, expires_at: u64) -> ReverseEntry {
        ReverseEntry::new(place_of(member), Pointer::to(timestamp, &ValueDigest::of(member)), expires_at)
    }

    #[test]
    fn an_entry_is_kept_two_hours_longer_than_its_item() {
        const HOURS: u64 = 3_600_000_000_000;
        for (timestamp, expires_at, expected) in
            [(7, 9, 9 + 2 * HOURS), (1 << 60, (1 << 60) + HOURS, (1 << 60) + 3 * HOURS), (7, u64::MAX, u64::MAX)]
        {
            let (row, _) = row_of(vec![entry(b"member", timestamp, expires_at)]).unwrap();
            let cursor = RowCursor::new(row).unwrap();
            assert_eq!(kept_until(cursor.entry().unwrap(), cursor.value()), expected);
        }
    }

    #[test]
    fn entries_of_one_life_share_it_and_those_that_are_put_and_go_stay() {
        let names: Vec<_> = (0..1_000_u64).map(|n| format!("member-{n}")).collect();
        let entries = |life: u64| {
            let entry = |(n, name): (u64, &String)| entry(name.as_bytes(), 1_000 * n, 1_000 * n + life);
            (0..).zip(&names).map(entry).collect::<Vec<_>>()
        };
        let gone = entries(7).into_iter().map(|entry| ReverseEntry::deleted(entry.place, entry.pointer));
        let (row, lowest) = row_of(gone.chain(entries(7)).collect()).unwrap();
        assert!(row.len() < 22 * names.len(), "{}", row.len());
        let mut cursor = RowCursor::new(row).unwrap();
        let (mut count, mut last) = (0, u64::MAX);
        while let Some(entry) = cursor.entry() {
            assert!(!entry.deleted && entry.timestamp <= last);
            (count, last) = (count + 1, entry.timestamp);
            cursor.advance().unwrap();
        }
        assert_eq!((count, last), (names.len(), lowest));
    }

    /// In the order of pages, which is that of Base64.
    #[test]
    fn a_pointer_begins_before_all_items_that_it_may_mean_and_behind_all_others() {
        for n in 0..2_000_u64 {
            let digest = ValueDigest::of(&n.to_be_bytes());
            let Start { ceiling, below } = Pointer::to(5, &digest).start();
            assert_eq!(ceiling, 5);
            assert!(digest < below.unwrap());
            // The next greater beginning.
            let mut text = digest.text();
            let alphabet = b"+/0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
            let last = alphabet.iter().position(|character| *character == text[7]).unwrap();
            if let Some(next) = alphabet.get(last + 1) {
                text[7] = *next;
                text[8..22].fill(b'+');
                assert!(below.unwrap().text() < text);
            }
            let other = ValueDigest::of(&(n + 10_000).to_be_bytes());
            assert!(Pointer::to(5, &digest).means(5, &digest) && !Pointer::to(5, &digest).means(5, &other));
            assert!(!Pointer::to(5, &digest).means(6, &digest));
        }
    }
}
