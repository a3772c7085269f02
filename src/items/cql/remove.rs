//! Remove List Items with Value, and Remove All List Items.
//!
//! A deletion hides what has an equal or smaller write timestamp, also what comes later. So each item
//! that is found is deleted with the larger of the operation's own timestamp and its own: a writer with
//! a fast clock cannot make its removal a no-op, and does not hide what is added to the others later.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::join_all;
use scylla::errors::{BadQuery, ExecutionError};
use scylla::response::PagingState;
use scylla::response::query_result::QueryResult;
use scylla::serialize::SerializationError;
use scylla::statement::bound::BoundStatement;
use scylla::statement::prepared::PreparedStatement;

use super::error::{after_unknown, damaged_row};
use super::get::read;
use super::permits::Permit;
use super::session::Core;
use super::statements::Statement;
use crate::domain::{ItemKey, ListKey, ValueDigest};
use crate::items::{Operation, StoreError};

/// Keys of one DELETE.
const KEYS_MAX: usize = 10;
/// DELETEs of one removal under way at once.
const DELETES_MAX: usize = 8;
/// Keys that are found before they are deleted: a removal's memory does not grow with its list.
const FIND_ROWS: i32 = 1_000;

/// Removes the items with a value, and returns how many visible ones there were.
pub async fn value(core: &Arc<Core>, op: &Operation, list: &ListKey, value: &[u8]) -> Result<u64, StoreError> {
    let find = core.find(op.deadline).await?;
    let mut permit = core.permit(op.deadline).await?;
    let own = core.write_clock.next();
    let digest = ValueDigest::of(value);
    let visible_from = op.ttl.visible_from(op.now);
    let (feature_key, entity_id) = (list.feature_key.as_str(), list.entity_id.as_str());
    let (mut state, mut removed, mut begun, mut largest) = (PagingState::start(), 0, false, None);
    loop {
        let ((result, next), kept) = core
            .attempts
            .run(core.request(Statement::Find, op), permit, |route| {
                let mut find = find.clone();
                find.set_page_size(FIND_ROWS);
                find.set_load_balancing_policy(Some(route));
                let bound = match core.prepared.within(op.deadline) {
                    None => find.bind(&(feature_key, entity_id, value)),
                    Some(timeout) => find.bind(&(feature_key, entity_id, value, timeout)),
                };
                read(Arc::clone(core), bound, state.clone())
            })
            .await
            .map_err(|error| after_unknown(error, begun))?;
        let result = result.into_rows_result().map_err(|_| damaged_row())?;
        let mut found = Found { own, keys: BTreeMap::new() };
        for row in result.rows::<(&str, i64)>().map_err(|_| damaged_row())? {
            let (text, writetime) = row.map_err(|_| damaged_row())?;
            // The index may lag behind its rows; the key says for certain which value it has.
            let Some(key) = ItemKey::parse(text).ok().filter(|key| key.digest == digest) else {
                continue;
            };
            core.write_clock.observe(writetime);
            removed += u64::from(key.timestamp >= visible_from);
            found.push(text, writetime);
        }
        largest = largest.max(found.largest());
        let deletes = found.into_deletes();
        // Other deletes of this removal may have been carried out.
        let several = begun || deletes.len() > 1;
        begun |= !deletes.is_empty();
        permit = delete(core, op, list, deletes, kept).await.map_err(|error| after_unknown(error, several))?;
        match next.into_paging_control_flow() {
            ControlFlow::Continue(next) => state = next,
            ControlFlow::Break(()) => break,
        }
    }
    drop(permit);
    if let Some(largest) = largest {
        wait_out(core, largest).await;
    }
    Ok(removed)
}

/// Waits until whatever is written from now on, by any server, outranks a deletion: so that an add that
/// begins after a removal was acknowledged is not hidden by it.
async fn wait_out(core: &Core, timestamp: i64) {
    let time = core.write_clock.to_wait_out(timestamp);
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

/// The items that are to be deleted, by the timestamps that it takes.
struct Found {
    /// The timestamp of the removal.
    own: i64,
    keys: BTreeMap<i64, Vec<String>>,
}

/// One DELETE: its timestamp, and the keys of its rows.
type Delete = (i64, Vec<String>);

impl Found {
    /// An equal timestamp is enough, since deletions win ties.
    fn push(&mut self, key: &str, writetime: i64) {
        self.keys.entry(self.own.max(writetime)).or_default().push(key.to_owned());
    }

    fn largest(&self) -> Option<i64> {
        self.keys.last_key_value().map(|(timestamp, _)| *timestamp)
    }

    fn into_deletes(self) -> Vec<Delete> {
        let chunks = |(timestamp, keys): (i64, Vec<String>)| -> Vec<Delete> {
            keys.chunks(KEYS_MAX).map(|keys| (timestamp, keys.to_vec())).collect()
        };
        self.keys.into_iter().flat_map(chunks).collect()
    }
}

/// Deletes rows by their keys, a few at a time, as far as there are permits for it. Returns a permit.
async fn delete(
    core: &Arc<Core>,
    op: &Operation,
    list: &ListKey,
    deletes: Vec<Delete>,
    permit: Permit,
) -> Result<Permit, StoreError> {
    let more = deletes.len().saturating_sub(1).min(DELETES_MAX - 1);
    let permits = std::iter::once(permit).chain(std::iter::from_fn(|| core.permits.try_take()).take(more));
    let permits: Vec<_> = permits.collect();
    let left = Mutex::new(deletes.into_iter());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let lane = async |mut permit: Permit| {
        while let Some((timestamp, keys)) = next() {
            let bind = |statement: PreparedStatement| {
                let (feature_key, entity_id) = (list.feature_key.as_str(), list.entity_id.as_str());
                match core.prepared.within(op.deadline) {
                    None => statement.bind(&(timestamp, feature_key, entity_id, &keys)),
                    Some(timeout) => statement.bind(&(timestamp, timeout, feature_key, entity_id, &keys)),
                }
            };
            permit = write(core, op, Statement::Delete, &core.prepared.delete, permit, bind).await?;
        }
        Ok(permit)
    };
    let mut ended = join_all(permits.into_iter().map(lane)).await.into_iter();
    // There is at least the lane of the permit that was given.
    ended.try_fold(None, |_, permit| permit.map(Some)).and_then(|permit| permit.ok_or_else(damaged_row))
}

/// Removes the partition. What was written with a larger write timestamp, by a server whose clock is
/// further ahead than allowed, survives.
pub async fn all(core: &Arc<Core>, op: &Operation, list: &ListKey) -> Result<(), StoreError> {
    let permit = core.permit(op.deadline).await?;
    let timestamp = core.write_clock.next_for_all();
    let bind = |statement: PreparedStatement| {
        let (feature_key, entity_id) = (list.feature_key.as_str(), list.entity_id.as_str());
        match core.prepared.within(op.deadline) {
            None => statement.bind(&(timestamp, feature_key, entity_id)),
            Some(timeout) => statement.bind(&(timestamp, timeout, feature_key, entity_id)),
        }
    };
    let permit = write(core, op, Statement::Clear, &core.prepared.clear, permit, bind).await?;
    drop(permit);
    wait_out(core, timestamp).await;
    Ok(())
}

async fn write(
    core: &Arc<Core>,
    op: &Operation,
    statement: Statement,
    prepared: &PreparedStatement,
    permit: Permit,
    bind: impl Fn(PreparedStatement) -> Result<BoundStatement, SerializationError>,
) -> Result<Permit, StoreError> {
    let (result, permit) = core
        .attempts
        .run(core.request(statement, op), permit, |route| {
            let mut prepared = prepared.clone();
            prepared.set_load_balancing_policy(Some(route));
            send(Arc::clone(core), bind(prepared))
        })
        .await?;
    result.result_not_rows().map_err(|_| damaged_row())?;
    Ok(permit)
}

async fn send(
    core: Arc<Core>,
    bound: Result<BoundStatement, SerializationError>,
) -> Result<QueryResult, ExecutionError> {
    core.driver.execute_bound_unpaged(&bound.map_err(BadQuery::from)?).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_deleted_with_the_larger_of_the_two_timestamps() {
        let mut found = Found { own: 100, keys: BTreeMap::new() };
        for n in 0..12 {
            found.push(&format!("old-{n}"), n);
        }
        found.push("fast-1", 900);
        found.push("equal", 100);
        found.push("fast-2", 900);
        found.push("faster", 901);
        assert_eq!(found.largest(), Some(901));
        let deletes = found.into_deletes();
        let sizes: Vec<_> = deletes.iter().map(|(timestamp, keys)| (*timestamp, keys.len())).collect();
        assert_eq!(sizes, [(100, 10), (100, 3), (900, 2), (901, 1)]);
        assert_eq!(deletes[1].1, ["old-10", "old-11", "equal"]);
        assert_eq!(deletes[2].1, ["fast-1", "fast-2"]);
    }
}
