//! The operations on a list, each handed to the layout of the list: items in one partition, buckets, or a set.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::layout::Layout;
pub use super::layout::count;
use super::{add, bags, buckets, contains, members, remove};
use crate::domain::{Item, ItemKey, NewItem, Timestamp, ValueDigest};
use crate::items::cql::call::Call;
use crate::items::{Bounds, Removal, StoreError};

/// The newest item of each of these values.
pub async fn contains(
    call: &mut Call,
    within: &Bounds,
    values: &[Bytes],
) -> Result<Vec<Option<Timestamp>>, StoreError> {
    match Layout::of(&call.list) {
        Layout::Set => members::contains(call, within, values).await,
        Layout::Items | Layout::Buckets => contains::contains(call, within, values).await,
    }
}

/// The item of each of these members of a set.
pub async fn lookup(call: &mut Call, members: &[Bytes]) -> Result<Vec<Option<Item>>, StoreError> {
    members::lookup(call, members).await
}

/// Adds items, all of them or none.
pub async fn add(call: &mut Call, items: &[NewItem]) -> Result<(), StoreError> {
    match Layout::of(&call.list) {
        Layout::Items => add::add(call, items).await,
        Layout::Buckets => buckets::add(call, items).await,
        Layout::Set => members::add(call, items).await,
    }
}

/// Carries a removal out, and returns the number of visible items that it removed.
pub async fn remove(call: &mut Call, removal: &Removal) -> Result<u64, StoreError> {
    if let Layout::Set = Layout::of(&call.list) {
        return members::remove(call, removal).await;
    }
    match removal {
        Removal::Value(value) => remove::value(call, value).await,
        Removal::Items(items) => {
            let key = |(timestamp, value): &(Timestamp, Bytes)| ItemKey::new(*timestamp, ValueDigest::of(value));
            let keys: BTreeSet<_> = items.iter().map(key).collect();
            remove::items(call, &keys.into_iter().collect::<Vec<_>>()).await
        }
        Removal::Between(within) => remove::between(call, within).await,
        Removal::Members(_) => Err(StoreError::no_members()),
    }
}

/// Removes all items of a list, or a bag.
pub async fn remove_all(call: &mut Call) -> Result<(), StoreError> {
    if call.list.feature_key.holds_bags() {
        return bags::clear(call).await;
    }
    remove::all(call).await
}
