//! The format of the file: the number says what a server must know to work with it, and rises only when
//! something is stored that older ones do not know. So an older release can be gone back to for as long as
//! nothing new was used.

use redb::{ReadableTable, StorageError, Table};

use crate::domain::Feature;

/// Where it stands in the table `meta`.
pub(super) const NAME: &str = "format";
pub(super) const FIRST: u64 = 1;
/// There are API keys: a server that knew none would let everybody in.
pub(super) const WITH_KEYS: u64 = 2;
/// A feature bounds the items of its lists: a server that did not know it would show all, and forget the
/// bound with the feature's next change.
pub(super) const WITH_MAX_ITEMS: u64 = 3;
/// The lists of a feature are sets: a server that did not know them would add to them as to lists of items.
pub(super) const WITH_SETS: u64 = 4;
/// There are entity types with bags: a server that did not know them would find features without a name.
pub(super) const WITH_BAGS: u64 = 5;
/// The lists of a feature may be kept in buckets: a server that did not know it would forget it with the feature's
/// next change.
pub(super) const WITH_BUCKETS: u64 = 6;
/// A feature says how far timestamps may be ahead: a server that did not know it would forget it with the feature's
/// next change.
pub(super) const WITH_AHEAD_MAX: u64 = 7;
pub(super) const NEWEST: u64 = WITH_AHEAD_MAX;

/// What a server must know for the sake of a feature.
pub(super) fn of_feature(feature: &Feature) -> u64 {
    if feature.id.is_of_bags() {
        return WITH_BAGS;
    }
    let mut ahead_max = feature.versions.iter().map(|version| version.timestamp_ahead_max);
    if feature.timestamp_ahead_max.is_some() || ahead_max.any(|ahead_max| ahead_max.is_some()) {
        return WITH_AHEAD_MAX;
    }
    if feature.versions.iter().any(|version| version.bucket.is_some()) {
        return WITH_BUCKETS;
    }
    if feature.versions.iter().any(|version| version.identity.is_set()) {
        return WITH_SETS;
    }
    let is_bounded = feature.max_items.is_some() || feature.versions.iter().any(|version| version.max_items.is_some());
    if is_bounded { WITH_MAX_ITEMS } else { FIRST }
}

/// Raises it, never lowers it.
pub(super) fn raise(meta: &mut Table<'_, &'static str, u64>, format: u64) -> Result<(), StorageError> {
    let present = meta.get(NAME)?.map_or(FIRST, |present| present.value());
    if present < format {
        meta.insert(NAME, format)?;
    }
    Ok(())
}
