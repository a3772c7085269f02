//! Reads of a list, however it is kept: as items in one partition, in buckets, or as a set.

use std::sync::Arc;

use super::{buckets, get, keys, members};
use crate::domain::{ItemKey, ListKey};
use crate::items::cql::core::Core;
use crate::items::cql::pressure::coalesce::FetchedPage;
use crate::items::cql::pressure::permits::Permit;
use crate::items::{Operation, Range, StoreError};

/// The last item that a list shows, if it has more.
pub async fn last_shown(core: &Arc<Core>, op: &Operation, list: &ListKey) -> Result<Option<ItemKey>, StoreError> {
    if list.identity().is_set() {
        return members::last_shown(core, op, list).await;
    }
    if list.bucket().is_some() {
        return buckets::last_shown(core, op, list).await;
    }
    keys::last_shown(core, op, list).await
}

/// A page of a list, however it is kept.
pub async fn page(
    core: &Arc<Core>,
    op: &Operation,
    list: &ListKey,
    range: &Range,
    last_shown: Option<ItemKey>,
    permit: Permit,
) -> Result<FetchedPage, StoreError> {
    if list.identity().is_set() {
        return members::get(core, op, list, range, last_shown, permit).await;
    }
    if list.bucket().is_some() {
        return buckets::get(core, op, list, range, last_shown, permit).await;
    }
    get::get(core, op, list, range, last_shown, permit).await
}
