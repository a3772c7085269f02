//! The entries of a bag in indexes, and their changes with the bag.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::domain::index::{ENTRIES_MAX, IndexEntry, ShallowDocument, TooManyEntries};
use crate::domain::{EntityId, Index, Item, ListKey, NewItem, Timestamp};
use crate::items::EntryChange;
use crate::metadata::catalog::CatalogVersion;

/// The changes of entries when a bag replaces another or is deleted. Remaining entries are written again, because they
/// expire with the bag.
pub fn entry_changes<'v>(
    versions: impl Iterator<Item = &'v CatalogVersion>,
    entity_id: &EntityId,
    before: Option<&Item>,
    after: Option<&NewItem>,
) -> Result<Vec<EntryChange>, TooManyEntries> {
    let mut versions = versions.filter_map(|version| version.index.as_ref().map(|index| (version, index))).peekable();
    if versions.peek().is_none() {
        return Ok(Vec::new());
    }
    let before = before.and_then(|bag| ShallowDocument::parse(&bag.value).map(|document| (document, bag.timestamp)));
    let after = after.and_then(|bag| ShallowDocument::parse(&bag.value).map(|document| (document, bag)));
    let value = Bytes::copy_from_slice(entity_id.as_str().as_bytes());
    let (mut changes, mut count, mut removable) = (Vec::new(), 0, ENTRIES_MAX);
    for (version, index) in versions {
        // A bag that is older than the index may have too many entries, and has none then.
        let gone = before.as_ref().and_then(|(document, stamp)| entries_of(index, document, *stamp).ok());
        let added = after.as_ref().map(|(document, bag)| entries_of(index, document, bag.timestamp)).transpose()?;
        count += added.as_ref().map_or(0, Vec::len);
        let mut lists: BTreeMap<EntityId, (Vec<Timestamp>, Vec<Timestamp>)> = BTreeMap::new();
        // Nor had it more in all indexes together than it may have.
        let gone: Vec<_> = gone.into_iter().flatten().take(removable).collect();
        removable -= gone.len();
        for IndexEntry { values, place } in gone {
            lists.entry(values).or_default().0.push(place);
        }
        for IndexEntry { values, place } in added.into_iter().flatten() {
            let (removed, added) = lists.entry(values).or_default();
            removed.retain(|gone| *gone != place);
            added.push(place);
        }
        for (values, (removed, added)) in lists {
            let entry = |timestamp| {
                let expires_at = after.as_ref().map_or(0, |(_, bag)| bag.expires_at);
                NewItem { timestamp, value: value.clone(), expires_at }
            };
            changes.push(EntryChange {
                list: ListKey::new(version.feature_key.clone(), values),
                removed: removed.into_iter().map(|place| (place, value.clone())).collect(),
                added: added.into_iter().map(entry).collect(),
            });
        }
    }
    if count > ENTRIES_MAX { Err(TooManyEntries) } else { Ok(changes) }
}

/// Whether a bag has an entry in an index: at this place of the list of these values.
pub fn has_entry(index: &Index, bag: &Item, values: &EntityId, place: Timestamp) -> bool {
    let entries = ShallowDocument::parse(&bag.value).map(|document| entries_of(index, &document, bag.timestamp));
    // Of too many it has none.
    let has = |entries: Vec<IndexEntry>| entries.iter().any(|entry| entry.values == *values && entry.place == place);
    entries.and_then(Result::ok).is_some_and(has)
}

fn entries_of(
    index: &Index,
    document: &ShallowDocument<'_>,
    stamp: Timestamp,
) -> Result<Vec<IndexEntry>, TooManyEntries> {
    index.spec.entries(document, stamp)
}
