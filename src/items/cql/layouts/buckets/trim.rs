//! Cutting a list in buckets that is longer than it shows.

use super::directory::{Names, forget, partition};
use super::several::{SEVERAL_MAX, Several};
use super::walk::BucketsWalk;
use crate::domain::{Bucket, MaxItems, Order};
use crate::items::cql::call::Call;
use crate::items::cql::layouts::deletes::{clear, delete_slice};
use crate::items::cql::layouts::keys::{bounds, slice};
use crate::items::cql::layouts::walk::{Keys, What, collect};
use crate::items::cql::notes::overlong::slack;
use crate::items::{Bounds, StoreError};

/// Deletes the items that a list does not show, if they exceed the slack, and only while the bound is the one that it
/// was begun with. Returns whether something was deleted.
pub async fn trim(call: &mut Call, max_items: MaxItems, is_bound: impl Fn() -> bool) -> Result<bool, StoreError> {
    let list = call.list.clone();
    let write_timestamp = call.core.write_clock.before_all_that_follows();
    let (shown, most) = (max_items.as_u64(), (max_items.get() + slack(max_items)) as u64);
    let Some(visible) = bounds(&call.op, &Bounds::ALL, (Order::Newest, None), None) else { return Ok(false) };
    let walk = BucketsWalk::new(call, visible, What::Keys, max_items.get() + slack(max_items) + 1);
    let Keys { count, at: Some(last), .. } = collect(call, walk, Keys::new(most + 1, shown)).await? else {
        return Ok(false);
    };
    if count <= most || !is_bound() {
        return Ok(false);
    }
    let name = list.bucket().unwrap_or(Bucket::Day).name_of(last.timestamp);
    let (lower, upper) = slice(&Bounds::ALL);
    call.turn_to(partition(&list, &name));
    delete_slice(call, (&lower, &last.to_string()), write_timestamp).await?;
    call.turn_to(list.clone());
    let mut names = Names::all(Some(&name));
    loop {
        let some = names.take(call, SEVERAL_MAX).await?;
        if some.is_empty() {
            break;
        }
        let several = Several { list: &list, names: &some, lower: &lower, upper: &upper, with_values: false };
        // One row shows that there is something to delete.
        let found = several.rows(call, 1).await?;
        for (name, _) in some.iter().zip(found).filter(|(_, rows)| rows.is_none()) {
            call.turn_to(partition(&list, name));
            clear(call, write_timestamp).await?;
        }
        call.turn_to(list.clone());
    }
    forget(call, Some(&name), write_timestamp).await?;
    Ok(true)
}
