//! Reads of a list, however it is kept: as items in one partition, in buckets, or as a set.

use super::{buckets, get, keys, members};
use crate::domain::{ItemKey, ListKey};
use crate::items::cql::call::Call;
use crate::items::cql::pressure::coalesce::FetchedPage;
use crate::items::{Range, StoreError};

/// How a list is kept.
pub enum Layout {
    Items,
    Buckets,
    Set,
}

impl Layout {
    pub fn of(list: &ListKey) -> Self {
        if list.identity().is_set() {
            Self::Set
        } else if list.bucket().is_some() {
            Self::Buckets
        } else {
            Self::Items
        }
    }
}

/// The last item that a list shows, if it has more. Gives the permit back: callers that wait for one come between this
/// and what follows.
pub async fn last_shown(call: &mut Call) -> Result<Option<ItemKey>, StoreError> {
    match Layout::of(&call.list) {
        Layout::Items => keys::last_shown(call).await,
        Layout::Buckets => buckets::last_shown(call).await,
        Layout::Set => members::last_shown(call).await,
    }
}

/// A page of a list.
pub async fn page(call: &mut Call, range: &Range, last_shown: Option<ItemKey>) -> Result<FetchedPage, StoreError> {
    match Layout::of(&call.list) {
        Layout::Items => get::get(call, range, last_shown).await,
        Layout::Buckets => buckets::get(call, range, last_shown).await,
        Layout::Set => members::get(call, range, last_shown).await,
    }
}
