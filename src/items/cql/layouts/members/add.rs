//! Add List Items to a set: reads the entries of the added members, and writes the current items and the deletions
//! of replaced items as one batch.

use std::collections::{HashMap, HashSet};

use super::entry::{Held, ReverseEntry, place_of};
use super::read;
use super::walk::{keep_of, repair};
use super::write::{self, MemberChange};
use crate::domain::{ItemKey, ListKey, NewItem, ValueDigest};
use crate::items::cql::call::Call;
use crate::items::cql::layouts::add::check_size;
use crate::items::cql::statements::Statement;
use crate::items::cql::ttl::row_ttl_secs;
use crate::items::{OpContext, StoreError};

pub async fn add(call: &mut Call, items: &[NewItem]) -> Result<(), StoreError> {
    let list = call.list.clone();
    let place_bytes = |item: &NewItem| list.identity().member(&item.value).len();
    // The row and the entry both have the item key, the member and the list's key.
    check_size(items, |item| 2 * (key_bytes(&list) + place_bytes(item)) + item.value.len())
        .map_err(StoreError::Refused)?;
    let new = of_each_member(&list, items);
    let entries = read::entries(call, new.keys().cloned().collect()).await?;
    // It must outrank the items that were read.
    let (op, written, writer) = (call.op, call.core.write_clock.next(), call.core.writer);
    let mut changes = Vec::new();
    for (member, (key, item)) in new {
        // An item that has expired has no row: CQL would take its TTL of 0 for "never expire".
        let Some(ttl_secs) = row_ttl_secs(item.expires_at, op.now) else { continue };
        let (expires_at, stored) = (item.expires_at, item.value.clone());
        let held = Held { writer, key, written, expires_at, stored };
        changes.extend(replace(&op, &list, entries.get(&member), (&member, held), ttl_secs));
    }
    let changed: HashSet<_> = changes.iter().filter_map(MemberChange::put_row).map(str::to_owned).collect();
    write::write(call, Statement::Add, changes).await?;
    // The deletion of an item that a faster clock wrote may hide the row of an item that is added again, but not its
    // entry.
    if call.core.write_clock.is_outranked(written) {
        changed.iter().for_each(|member| call.core.repairs.note(repair(&op, &list, member, None)));
    }
    Ok(())
}

fn key_bytes(list: &ListKey) -> usize {
    list.feature_key.as_str().len() + list.entity_id.as_str().len() + ItemKey::TEXT_LEN
}

/// The item of each member that stays of the new items, by the place of the member's entry.
fn of_each_member<'a>(list: &ListKey, items: &'a [NewItem]) -> HashMap<String, (ItemKey, &'a NewItem)> {
    let (identity, keep) = (list.identity(), keep_of(list));
    let mut new: HashMap<String, (ItemKey, &NewItem)> = HashMap::new();
    for item in items {
        let key = ItemKey::new(item.timestamp, ValueDigest::of(&item.value));
        let place = place_of(identity.member(&item.value));
        if new.get(&place).is_none_or(|(present, _)| keep.replaces(&key, present)) {
            new.insert(place, (key, item));
        }
    }
    new
}

/// The changes for a new item, given its member's entry: none if another item stays.
fn replace(
    op: &OpContext,
    list: &ListKey,
    entry: Option<&ReverseEntry>,
    (member, new): (&str, Held),
    ttl_secs: i32,
) -> Vec<MemberChange> {
    let keep = keep_of(list);
    let current = entry.and_then(|entry| entry.current(op, keep));
    if current.is_some_and(|present| !keep.replaces(&new.key, &present.key)) {
        return Vec::new();
    }
    let mut changes = Vec::new();
    for held in entry.into_iter().flat_map(|entry| &entry.held) {
        let [row, place] = write::drop(member, held);
        // The same item keeps its row, and this writer's place is written over.
        changes.extend((held.key != new.key).then_some(row));
        changes.extend((held.writer != new.writer).then_some(place));
    }
    changes.extend(write::put(member, &new, ttl_secs));
    changes
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use tokio::time::Instant;

    use super::*;
    use crate::domain::{
        EntityId, EntityType, FeatureId, FeatureKey, FeatureName, Generation, Identity, Keep, Timestamp, Ttl,
        VersionLabel,
    };

    fn list(keep: Keep) -> ListKey {
        let id = FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new("seen").unwrap() };
        let key = FeatureKey::new(&id, &VersionLabel::new("").unwrap(), Generation::FIRST);
        ListKey::new(key.with_identity(Identity::Value(keep)), EntityId::new("u-1").unwrap())
    }

    fn op() -> OpContext {
        let now = Timestamp::from_nanos(100).unwrap();
        OpContext::new(now, Ttl::from_secs(60).unwrap(), Instant::now() + Duration::from_secs(1))
    }

    fn held(writer: i32, at: u64, written: i64) -> Held {
        let stored = Bytes::from_static(b"v");
        let key = ItemKey::new(Timestamp::from_nanos(at).unwrap(), ValueDigest::of(&stored));
        Held { writer, key, written, expires_at: 1_000_000_000, stored }
    }

    fn replaced(keep: Keep, present: &[Held], new: &Held) -> Vec<MemberChange> {
        let entry = ReverseEntry { member: "v".to_owned(), held: present.to_vec() };
        replace(&op(), &list(keep), Some(&entry), ("v", new.clone()), 7)
    }

    #[test]
    fn superseded_items_are_not_written() {
        assert_eq!(replaced(Keep::Newest, &[held(1, 5, 3)], &held(2, 4, 9)), []);
        assert_eq!(replaced(Keep::Oldest, &[held(1, 5, 3)], &held(2, 6, 9)), []);
    }

    #[test]
    fn superseded_items_are_deleted_at_their_write_timestamp() {
        let (mine, theirs, new) = (held(2, 5, 3), held(1, 6, 4), held(2, 7, 9));
        let expected = [
            &[MemberChange::DropRow { key: mine.key, written: 3 }][..],
            &write::drop("v", &theirs),
            &write::put("v", &new, 7),
        ];
        assert_eq!(replaced(Keep::Newest, &[mine, theirs], &new), expected.concat());
    }

    #[test]
    fn the_same_item_again_keeps_its_row() {
        let (theirs, new) = (held(1, 7, 4), held(2, 7, 9));
        let [_, place] = write::drop("v", &theirs);
        assert_eq!(replaced(Keep::Newest, &[theirs], &new), [&[place][..], &write::put("v", &new, 7)].concat());
        assert_eq!(
            replaced(Keep::Oldest, std::slice::from_ref(&new), &held(2, 7, 12)),
            write::put("v", &held(2, 7, 12), 7)
        );
    }

    #[test]
    fn each_member_of_an_add_is_stored_once() {
        let item = |at: u64| NewItem {
            timestamp: Timestamp::from_nanos(at).unwrap(),
            value: Bytes::from_static(b"v"),
            expires_at: 1,
        };
        let items = [item(5), item(9), item(3)];
        for (keep, at) in [(Keep::Newest, 9), (Keep::Oldest, 3)] {
            let new = of_each_member(&list(keep), &items);
            assert_eq!(new.values().map(|(key, _)| key.timestamp.as_nanos()).collect::<Vec<_>>(), [at]);
        }
    }
}
