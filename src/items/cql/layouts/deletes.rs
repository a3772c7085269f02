//! Deletions: of rows, of slices and of partitions, each with the write timestamp that it is given, and how they are
//! waited out. What is to be deleted is decided elsewhere.

use crate::items::StoreError;
use crate::items::cql::call::Call;
use crate::items::cql::core::Core;
use crate::items::cql::statements::Query;
use crate::items::cql::statements::lists::ListStatement;

/// DELETEs of one removal under way at once, in a partition.
const DELETES_MAX: usize = 8;

/// One DELETE: its timestamp, and the keys of its rows, [`KEYS_MAX`] at most.
pub type Delete = (i64, Vec<String>);

/// Deletes rows by their keys, a few at a time, as far as there are permits for it.
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

/// Deletes what a partition has that was written no later than a timestamp, by one tombstone.
pub async fn clear(call: &mut Call, timestamp: i64) -> Result<(), StoreError> {
    call.write(&Query::deletion(ListStatement::Clear, timestamp, [])).await
}

/// Waits until whatever is written from now on, by any server, outranks a deletion: so that an add that
/// begins after a removal was acknowledged is not hidden by it.
pub async fn wait_out(core: &Core, timestamp: i64) {
    let time = core.write_clock.to_wait_out(timestamp);
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}
