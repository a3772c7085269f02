//! Reads of a list, however it is kept: as items in one partition, in buckets, or as a set.

use super::{buckets, get, keys, members};
use crate::domain::ItemKey;
use crate::items::cql::call::Call;
use crate::items::cql::pressure::coalesce::FetchedPage;
use crate::items::{Range, StoreError};

/// The last item that a list shows, if it has more.
pub async fn last_shown(call: &mut Call) -> Result<Option<ItemKey>, StoreError> {
    if call.list.identity().is_set() {
        return members::last_shown(call).await;
    }
    if call.list.bucket().is_some() {
        return buckets::last_shown(call).await;
    }
    keys::last_shown(call).await
}

/// A page of a list, however it is kept.
pub async fn page(call: &mut Call, range: &Range, last_shown: Option<ItemKey>) -> Result<FetchedPage, StoreError> {
    if call.list.identity().is_set() {
        return members::get(call, range, last_shown).await;
    }
    if call.list.bucket().is_some() {
        return buckets::get(call, range, last_shown).await;
    }
    get::get(call, range, last_shown).await
}
