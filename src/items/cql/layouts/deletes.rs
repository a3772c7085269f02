//! Deletions: of rows, of slices and of partitions, each with the write timestamp that it is given, and how they are
//! waited out. What is to be deleted is decided elsewhere.

use std::sync::Arc;

use scylla::statement::prepared::PreparedStatement;

use super::lanes::in_lanes;
use super::write::write;
use crate::domain::ListKey;
use crate::items::cql::core::Core;
use crate::items::cql::pressure::permits::Permit;
use crate::items::cql::statements::lists::Statement;
use crate::items::{Operation, StoreError};

/// DELETEs of one removal under way at once, in a partition.
const DELETES_MAX: usize = 8;

/// One DELETE: its timestamp, and the keys of its rows, [`KEYS_MAX`] at most.
pub type Delete = (i64, Vec<String>);

/// Deletes rows by their keys, a few at a time, as far as there are permits for it. Returns a permit.
pub async fn delete(
    core: &Arc<Core>,
    op: &Operation,
    list: &ListKey,
    deletes: Vec<Delete>,
    permit: Permit,
) -> Result<Permit, StoreError> {
    let each = |(timestamp, keys): Delete, permit| async move {
        let bind = |statement: PreparedStatement| {
            let (feature_key, entity_id) = (list.feature_key.as_str(), list.entity_id.as_str());
            match core.prepared.within(op.deadline) {
                None => statement.bind(&(timestamp, feature_key, entity_id, &keys)),
                Some(timeout) => statement.bind(&(timestamp, timeout, feature_key, entity_id, &keys)),
            }
        };
        let permit = write(core, op, Statement::Delete, &core.prepared.delete, permit, bind).await?;
        core.to_sweep.deleted(list, &keys);
        Ok(((), permit))
    };
    in_lanes(core, permit, deletes, DELETES_MAX, each).await.map(|(_, permit)| permit)
}

/// Deletes what lies between two keys, the upper one exclusive, and was written no later than a timestamp.
pub async fn delete_slice(
    core: &Arc<Core>,
    op: &Operation,
    list: &ListKey,
    (lower, upper): (&str, &str),
    timestamp: i64,
    permit: Permit,
) -> Result<Permit, StoreError> {
    let (feature_key, entity_id) = (list.feature_key.as_str(), list.entity_id.as_str());
    let bind = |statement: PreparedStatement| match core.prepared.within(op.deadline) {
        None => statement.bind(&(timestamp, feature_key, entity_id, lower, upper)),
        Some(timeout) => statement.bind(&(timestamp, timeout, feature_key, entity_id, lower, upper)),
    };
    write(core, op, Statement::Delete, &core.prepared.delete_between, permit, bind).await
}

/// Deletes what a partition has that was written no later than a timestamp, by one tombstone.
pub async fn clear(
    core: &Arc<Core>,
    op: &Operation,
    statement: &PreparedStatement,
    list: &ListKey,
    timestamp: i64,
    permit: Permit,
) -> Result<Permit, StoreError> {
    let (feature_key, entity_id) = (list.feature_key.as_str(), list.entity_id.as_str());
    let bind = |statement: PreparedStatement| match core.prepared.within(op.deadline) {
        None => statement.bind(&(timestamp, feature_key, entity_id)),
        Some(timeout) => statement.bind(&(timestamp, timeout, feature_key, entity_id)),
    };
    write(core, op, Statement::Clear, statement, permit, bind).await
}

/// Waits until whatever is written from now on, by any server, outranks a deletion: so that an add that
/// begins after a removal was acknowledged is not hidden by it.
pub async fn wait_out(core: &Core, timestamp: i64) {
    let time = core.write_clock.to_wait_out(timestamp);
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}
