//! Remove All List Items of a list in buckets.

use super::directory::{Names, forget, partition};
use crate::items::StoreError;
use crate::items::cql::call::Call;
use crate::items::cql::error::after_unknown;
use crate::items::cql::layouts::deletes::clear;

/// Buckets that are deleted at once.
const CLEARED_AT_ONCE: usize = 8;

/// Deletes all buckets of a list with this write timestamp, and then the rows of its directory. So a removal that broke
/// off can be repeated, and continues with the remaining buckets.
pub async fn all(call: &mut Call, write_timestamp: i64) -> Result<(), StoreError> {
    let names = Names::all(None).take(call, usize::MAX).await?;
    if names.is_empty() {
        return Ok(());
    }
    let (several, list) = (names.len() > 1, call.list.clone());
    let each = |mut call: Call, name: String| {
        call.turn_to(partition(&list, &name));
        async move {
            clear(&mut call, write_timestamp).await?;
            Ok(((), call))
        }
    };
    let cleared = call.in_lanes(names, CLEARED_AT_ONCE, each).await;
    cleared.map_err(|error| after_unknown(error, several))?;
    forget(call, None, write_timestamp).await.map_err(|error| after_unknown(error, true))
}
