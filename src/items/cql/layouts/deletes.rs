//! Deletions: of rows, of slices and of partitions, each with a given write timestamp, and the wait before they are
//! acknowledged. The callers decide what to delete.

use crate::items::StoreError;
use crate::items::cql::call::Call;
use crate::items::cql::core::Core;
use crate::items::cql::statements::Query;
use crate::items::cql::statements::lists::ListStatement;

/// DELETEs of one removal in progress at once, in a partition.
const DELETES_MAX: usize = 8;

/// One DELETE: its timestamp, and the keys of its rows, [`KEYS_MAX`] at most.
pub type Delete = (i64, Vec<String>);

/// Deletes rows by their keys, a few at a time, limited by permits.
pub async fn delete(call: &mut Call, deletes: Vec<Delete>) -> Result<(), StoreError> {
    let each = |mut call: Call, (timestamp, keys): Delete| async move {
        call.write(&Query::deletion(ListStatement::Delete, timestamp, [keys.as_slice().into()])).await?;
        call.core.to_sweep.deleted(&call.list, &keys);
        Ok(((), call))
    };
    call.in_lanes(deletes, DELETES_MAX, each).await.map(drop)
}

/// Deletes what lies between two keys, the upper one exclusive, and was written no later than a timestamp.
pub async fn delete_slice(call: &mut Call, (lower, upper): (&str, &str), timestamp: i64) -> Result<(), StoreError> {
    call.write(&Query::deletion(ListStatement::DeleteBetween, timestamp, [lower.into(), upper.into()])).await
}

/// Deletes all rows of a partition that were written no later than a timestamp, by one tombstone.
pub async fn clear(call: &mut Call, timestamp: i64) -> Result<(), StoreError> {
    call.write(&Query::deletion(ListStatement::Clear, timestamp, [])).await
}

/// Waits until all later writes of any server outrank a deletion. So a removal hides no add that begins after its
/// acknowledgement.
pub async fn wait_out(core: &Core, timestamp: i64) {
    let time = core.write_clock.to_wait_out(timestamp);
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}
