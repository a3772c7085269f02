//! Reverse entries: the place of each member in its set.
//!
//! Each set has a hidden *reverse list* with one entry for each member, ordered by a hash of the member. So two
//! lookups find a member, regardless of the set's length. Both lists change in one write. An entry is a hint, and the
//! item counts: an entry without an item is invisible. But a member whose item has no entry would be overlooked, and
//! could be added twice. So an entry is dropped with its item, or after it, never before.
//!
//! Rows store an entry like an item. Its *place*, 40 bits of the member's MD5, is the timestamp. Its value is the place
//! of the item. Its life equals the item's, so that most entries of a set have the same life. Hence this module
//! determines the expiry of an entry, and not the row's expiry.

use std::cmp::Reverse;
use std::time::Duration;

use bytes::Bytes;
use liststore_contract::domain::ValueDigest;

use super::seek::Start;
use super::{Entry, RowBuilder};
use crate::list_id::ListId;
use crate::options::ListHash;

/// The suffix of a reverse list's bytes, after its set's bytes. No set's bytes end with it, because every entity has a
/// name, and no name contains it.
const SUFFIX: u8 = 0;
/// The length of an entry's prefix of the digest of its item's stored bytes. It is enough to distinguish items of one
/// timestamp, and equals whole characters of Base64, which order digests.
const DIGEST_LEN: usize = 6;
/// The rest of the greatest digest with a given prefix: its Base64 is `zzzzzzzzzzzzw`.
const GREATEST_REST: [u8; 16 - DIGEST_LEN] = [0xcf, 0x3c, 0xf3, 0xcf, 0x3c, 0xf3, 0xcf, 0x3c, 0xf3, 0xcf];
/// Bytes of an entry's value.
const ENTRY_LEN: usize = 8 + DIGEST_LEN;
/// How long an entry outlives its item. If a clock is set back by at most this time, every item that becomes visible
/// again still has its entry.
const KEPT_FOR: Duration = Duration::from_secs(2 * 3_600);

/// The reverse list of a set.
pub fn list_of(set: &ListId, hash: ListHash) -> ListId {
    ListId::from_bytes(&[set.bytes(), &[SUFFIX]].concat(), hash)
}

/// Whether a list's bytes belong to a reverse list.
pub fn is_reverse(list: &[u8]) -> bool {
    list.last() == Some(&SUFFIX)
}

/// The bytes of the set whose reverse list this is.
pub fn set_of(list: &[u8]) -> Option<&[u8]> {
    list.strip_suffix(&[SUFFIX])
}

/// The place of a member's entry in a reverse list.
pub fn place_of(member: &[u8]) -> u64 {
    place_of_digest(&ValueDigest::of(member))
}

/// The same place, from the member's digest.
pub fn place_of_digest(digest: &ValueDigest) -> u64 {
    // Bytes other than the entry's prefix of an item's digest. If the identity is the value, the two digests are equal.
    digest.as_bytes()[DIGEST_LEN..DIGEST_LEN + 5].iter().fold(0, |place, byte| place << 8 | u64::from(*byte))
}

/// The place of an item, as in an entry. It rarely matches more than one item. Ordered by their encoding.
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

    /// `None` for the value of another kind of entry.
    pub fn decode(value: &[u8]) -> Option<Self> {
        let (timestamp, digest) = value.split_first_chunk()?;
        Some(Self { timestamp: u64::from_be_bytes(*timestamp), digest: digest.try_into().ok()? })
    }

    /// The place directly before the items that it may mean. (It may leave out one item, whose digest has no known
    /// value.)
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

/// An entry to write.
#[derive(Debug, Clone, Copy)]
pub struct ReverseEntry {
    place: u64,
    pointer: Pointer,
    /// The expiry of its item. `None` to delete the entry.
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

/// A row of entries, with the lowest place in it. An entry that is both written and deleted is written. `None` without
/// entries.
pub fn row_of(mut entries: Vec<ReverseEntry>) -> Option<(Bytes, u64)> {
    let lowest = entries.iter().map(|entry| entry.place).min()?;
    // Among equals, deletions come last.
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

/// Sorts the entries of each place in the order of a list. A moved member has two. More are rare.
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

/// When an entry may be dropped. Nanoseconds since the Unix epoch.
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
    fn an_entry_outlives_its_item_by_two_hours() {
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
    fn entries_of_one_expiry_share_it_across_puts_and_deletions() {
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

    /// In the order of pages, which is the order of Base64.
    #[test]
    fn a_pointer_lies_directly_before_the_items_it_may_mean() {
        for n in 0..2_000_u64 {
            let digest = ValueDigest::of(&n.to_be_bytes());
            let Start { ceiling, below } = Pointer::to(5, &digest).start();
            assert_eq!(ceiling, 5);
            assert!(digest < below.unwrap());
            // The next greater prefix.
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
