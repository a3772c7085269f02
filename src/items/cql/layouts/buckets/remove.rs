//! Remove All List Items of a list in buckets.

use std::sync::Arc;

use super::directory::{Names, forget, partition};
use crate::domain::ListKey;
use crate::items::cql::core::Core;
use crate::items::cql::error::after_unknown;
use crate::items::cql::layouts::deletes::clear;
use crate::items::cql::layouts::lanes::in_lanes;
use crate::items::cql::pressure::permits::Permit;
use crate::items::{Operation, StoreError};

/// Buckets that are deleted at once.
const CLEARED_AT_ONCE: usize = 8;

/// Deletes all buckets of a list with this write timestamp, and then what its directory says of them: so that a removal
/// that broke off can be repeated, and goes on where there are buckets left.
pub async fn all(
    core: &Arc<Core>,
    op: &Operation,
    list: &ListKey,
    write_timestamp: i64,
    permit: Permit,
) -> Result<Permit, StoreError> {
    let (names, permit) = Names::all(core, op, list, None).take(usize::MAX, permit).await?;
    if names.is_empty() {
        return Ok(permit);
    }
    let several = names.len() > 1;
    let each = |name: String, permit| async move {
        let permit = clear(core, op, &core.prepared.clear, &partition(list, &name), write_timestamp, permit).await?;
        Ok(((), permit))
    };
    let cleared = in_lanes(core, permit, names, CLEARED_AT_ONCE, each).await;
    let (_, permit) = cleared.map_err(|error| after_unknown(error, several))?;
    forget(core, op, list, None, write_timestamp, permit).await.map_err(|error| after_unknown(error, true))
}
