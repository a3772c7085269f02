//! Counts the items of a list in buckets. Their order does not matter, so several buckets are counted at once.

use super::directory::{Names, partition};
use super::several::{SEVERAL_MAX, Several};
use crate::items::StoreError;
use crate::items::cql::call::Call;
use crate::items::cql::layouts::partition::PartitionWalk;
use crate::items::cql::layouts::walk::{Keys, Slice, What, collect};

/// Counts the items of a slice, up to a number.
pub async fn count(call: &mut Call, slice: &Slice, enough: u64) -> Result<u64, StoreError> {
    let (list, Slice { order, lower, upper }) = (call.list.clone(), slice);
    let (mut names, mut count) = (Names::between(&list, *order, (lower.as_str(), upper.as_str())), 0);
    while count < enough {
        let some = names.take(call, SEVERAL_MAX).await?;
        if some.is_empty() {
            break;
        }
        let several = Several { list: &list, names: &some, lower, upper, with_values: false };
        if let Some(counted) = several.count(call, enough - count).await? {
            count += counted;
            continue;
        }
        for name in &some {
            let left = enough.saturating_sub(count);
            if left == 0 {
                break;
            }
            call.turn_to(partition(&list, name));
            let limit = usize::try_from(left).unwrap_or(usize::MAX);
            let walk = PartitionWalk::new(call, slice.clone(), What::Keys, limit);
            count += collect(call, walk, Keys::new(left, 0)).await?.count;
        }
        call.turn_to(list.clone());
    }
    Ok(count)
}
