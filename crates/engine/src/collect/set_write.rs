//! The effect of an add or a removal on a set: one write with two rows. One row has the new items, and deleted entries
//! of the removed items. The other row does the same for the reverse entries. So readers find a member once, at any
//! moment and after a crash.

use bytes::Bytes;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use liststore_contract::domain::{Identity, ItemKey, NewItem, ValueDigest};
use liststore_storage::OpContext;

use super::members::{FoundMember, Present};
use crate::list_id::ListId;
use crate::log::change::{Change, Changes};
use crate::row::item_changes::ItemChanges;
use crate::row::reverse::{self, Pointer, ReverseEntry};

/// The changes of a write to the items of a set, and to their entries.
#[derive(Default)]
pub struct SetWrite {
    items: ItemChanges,
    entries: Vec<ReverseEntry>,
}

/// The outcome for a member.
struct MemberOutcome {
    found: FoundMember,
    digests: Digests,
    /// The resulting item, and its key.
    current: Option<(ItemKey, NewItem)>,
}

/// The digests of a member that its write needs, each computed once.
struct Digests {
    member: ValueDigest,
    /// The key of the existing item.
    present: Option<ItemKey>,
}

impl Digests {
    fn of(FoundMember { member, present, .. }: &FoundMember, member_digest: ValueDigest) -> Self {
        let key = |present: &Present| {
            let digest = digest_of_stored(present.value(), member, member_digest);
            Some(ItemKey::new(present.timestamp()?, digest))
        };
        Self { member: member_digest, present: present.as_ref().and_then(key) }
    }
}

/// In the order of the members.
fn member_digests(found: &[FoundMember]) -> Vec<ValueDigest> {
    ValueDigest::of_each(found.iter().map(|found| &*found.member))
}

/// The outcomes for members, each added once, in the order of the requests.
struct Outcomes {
    outcomes: Vec<MemberOutcome>,
    places: HashTable<usize>,
}

impl Outcomes {
    fn for_members(members: usize) -> Self {
        Self { outcomes: Vec::with_capacity(members), places: HashTable::with_capacity(members) }
    }

    fn of(&mut self, found: FoundMember, digest: ValueDigest) -> &mut MemberOutcome {
        let Self { outcomes, places } = self;
        let slot = places.entry(
            hash_of(&digest),
            |place| outcomes[*place].found.member == found.member,
            |place| hash_of(&outcomes[*place].digests.member),
        );
        let place = match slot {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                let place = outcomes.len();
                new.insert(place);
                let digests = Digests::of(&found, digest);
                outcomes.push(MemberOutcome { found, digests, current: None });
                place
            }
        };
        &mut outcomes[place]
    }
}

fn hash_of(digest: &ValueDigest) -> u64 {
    digest.as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The digest of a member's stored bytes. They are the member if the identity is the value.
fn digest_of_stored(stored: &[u8], member: &[u8], member_digest: ValueDigest) -> ValueDigest {
    if stored.len() == member.len() { member_digest } else { ValueDigest::of(stored) }
}

/// Whether an operation sees the item that an earlier operation adds.
fn sees_added(op: &OpContext, item: &NewItem) -> bool {
    op.sees(item.timestamp.as_nanos(), item.expires_at)
}

impl SetWrite {
    /// Adds the new items of one operation after the other. `found` has the state of the members of all these items
    /// before, in their order.
    pub fn add(identity: Identity, adds: Vec<(OpContext, Vec<NewItem>)>, found: Vec<FoundMember>) -> Self {
        let keep = identity.keep().unwrap_or_default();
        let (mut outcomes, digests) = (Outcomes::for_members(found.len()), member_digests(&found));
        let items = adds.into_iter().flat_map(|(op, items)| items.into_iter().map(move |item| (op, item)));
        for ((op, item), (found, digest)) in items.zip(found.into_iter().zip(digests)) {
            let MemberOutcome { found, digests, current } = outcomes.of(found, digest);
            let key = ItemKey::new(item.timestamp, digest_of_stored(&item.value, &found.member, digests.member));
            let rival = match (&*current, &found.present) {
                (Some((key, rival)), _) => sees_added(&op, rival).then_some(*key),
                (None, Some(present)) if present.is_seen_by(&op) => digests.present,
                (None, _) => None,
            };
            if rival.is_none_or(|rival| keep.replaces(&key, &rival)) {
                *current = Some((key, item));
            }
        }
        let mut write = Self::default();
        for MemberOutcome { found, digests, current } in outcomes.outcomes {
            if let Some((key, item)) = current {
                if digests.present != Some(key) {
                    write.delete_known(&found, &digests);
                }
                write.put(reverse::place_of_digest(&digests.member), key, item);
            }
        }
        write
    }

    fn put(&mut self, place: u64, key: ItemKey, NewItem { value, expires_at, .. }: NewItem) {
        self.items.put(key, expires_at, value);
        self.entries.push(ReverseEntry::new(place, pointer_to(&key), expires_at));
    }

    /// Removes all stored items and entries of members.
    pub fn delete(&mut self, found: &[FoundMember]) {
        let with_digests = found.iter().zip(member_digests(found));
        with_digests.for_each(|(found, digest)| self.delete_known(found, &Digests::of(found, digest)));
    }

    fn delete_known(&mut self, found: &FoundMember, digests: &Digests) {
        let place = reverse::place_of_digest(&digests.member);
        if let (Some(present), Some(key)) = (&found.present, digests.present) {
            self.items.delete(key, present.value().clone());
            self.entries.push(ReverseEntry::deleted(place, pointer_to(&key)));
        }
        self.entries.extend(found.stale.iter().map(|stale| ReverseEntry::deleted(place, *stale)));
    }

    /// The changes to the set and to its reverse list. `None` without changes.
    pub fn into_changes(self, set: ListId, reverse: ListId) -> Option<Changes> {
        changes_of(set, self.items.into_row(), reverse, self.entries)
    }
}

/// Changes to a set, as a row with its oldest timestamp, and to its reverse list. `None` without changes.
pub fn changes_of(
    set: ListId,
    items: Option<(Bytes, u64)>,
    reverse: ListId,
    entries: Vec<ReverseEntry>,
) -> Option<Changes> {
    let change = |list| move |(row, oldest)| (list, Change::Row(row), oldest);
    Changes::of_each(items.map(change(set)).into_iter().chain(reverse::row_of(entries).map(change(reverse))))
}

fn pointer_to(key: &ItemKey) -> Pointer {
    Pointer::to(key.timestamp.as_nanos(), &key.digest)
}
