//! Cutting a list in buckets that is longer than it shows.

use std::sync::Arc;

use super::count::first_keys;
use super::directory::{Names, forget, partition};
use super::several::{SEVERAL_MAX, Slice};
use crate::domain::{Bucket, ListKey, MaxItems};
use crate::items::cql::core::Core;
use crate::items::cql::layouts::deletes::{clear, delete_slice};
use crate::items::cql::layouts::keys::{Keys, slice};
use crate::items::cql::notes::overlong::slack;
use crate::items::cql::pressure::permits::Permit;
use crate::items::{Bounds, Operation, StoreError};

/// Deletes what a list does not show, if that is more than a little, for as long as the bound is still the one that it
/// was begun with. Returns whether something was deleted.
pub async fn trim(
    core: &Arc<Core>,
    op: &Operation,
    list: &ListKey,
    max_items: MaxItems,
    permit: Permit,
    is_bound: impl Fn() -> bool,
) -> Result<bool, StoreError> {
    let write_timestamp = core.write_clock.before_all_that_follows();
    let (shown, most) = (max_items.as_u64(), (max_items.get() + slack(max_items)) as u64);
    let keys = first_keys(core, op, list, (most + 1, shown), permit).await?;
    let Keys { count, last: Some(last), mut permit } = keys else { return Ok(false) };
    if count <= most || !is_bound() {
        return Ok(false);
    }
    let name = list.bucket().unwrap_or(Bucket::Day).name_of(last.timestamp);
    let (lower, upper) = slice(&Bounds::ALL);
    let end = last.to_string();
    permit = delete_slice(core, op, &partition(list, &name), (&lower, &end), write_timestamp, permit).await?;
    let mut names = Names::all(core, op, list, Some(&name));
    loop {
        let (some, found);
        (some, permit) = names.take(SEVERAL_MAX, permit).await?;
        if some.is_empty() {
            break;
        }
        let several = Slice { list, names: &some, lower: &lower, upper: &upper, with_values: false };
        // One row says that there is something to delete.
        (found, permit) = several.rows(core, op, 1, permit).await?;
        for (name, _) in some.iter().zip(found).filter(|(_, rows)| rows.is_none()) {
            permit = clear(core, op, &core.prepared.clear, &partition(list, name), write_timestamp, permit).await?;
        }
    }
    forget(core, op, list, Some(&name), write_timestamp, permit).await?;
    Ok(true)
}
