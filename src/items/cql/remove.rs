//! Remove List Items, and Remove All List Items.
//!
//! A deletion hides what has an equal or smaller write timestamp, also what comes later. So each item
//! that is found is deleted with the larger of the operation's own timestamp and its own: a writer with
//! a fast clock cannot make its removal a no-op, and does not hide what is added to the others later.
//!
//! What lies between two moments is deleted by one range tombstone, of the operation's own timestamp: one
//! for each row would have to be read past for as long as they are kept, and Cassandra refuses a read of
//! too many. Only rows with a larger timestamp are deleted one by one besides.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use scylla::errors::{BadQuery, ExecutionError};
use scylla::response::query_result::{QueryResult, QueryRowsResult};
use scylla::response::{PagingState, PagingStateResponse};
use scylla::serialize::SerializationError;
use scylla::statement::bound::BoundStatement;
use scylla::statement::prepared::PreparedStatement;

use super::core::Core;
use super::error::{after_unknown, damaged_row};
use super::keys::{last_shown, read, slice};
use super::lanes::in_lanes;
use super::permits::Permit;
use super::statements::{KEYS_MAX, Statement};
use crate::domain::{ItemKey, ListKey, Timestamp, ValueDigest};
use crate::items::{Bounds, Operation, StoreError};

/// DELETEs of one removal under way at once.
const DELETES_MAX: usize = 8;
/// Keys that are found before they are deleted: a removal's memory does not grow with its list.
const FIND_ROWS: i32 = 1_000;

/// Removes the items with a value, and returns how many visible ones there were.
pub async fn value(core: &Arc<Core>, op: &Operation, list: &ListKey, value: &[u8]) -> Result<u64, StoreError> {
    let find = core.find(op.deadline).await?;
    let mut removing = Removing::begin(core, op, list).await?;
    let digest = ValueDigest::of(value);
    let (feature_key, entity_id) = (list.feature_key.as_str(), list.entity_id.as_str());
    let bind = |find: PreparedStatement| match core.prepared.within(op.deadline) {
        None => find.bind(&(feature_key, entity_id, value)),
        Some(timeout) => find.bind(&(feature_key, entity_id, value, timeout)),
    };
    // The index may lag behind its rows; the key says for certain which value it has.
    removing.all_of(&find, bind, |key| key.digest == digest, |_| true).await?;
    Ok(removing.end().await)
}

/// Removes some items, and returns how many visible ones there were.
pub async fn items(core: &Arc<Core>, op: &Operation, list: &ListKey, keys: &[ItemKey]) -> Result<u64, StoreError> {
    let mut removing = Removing::begin(core, op, list).await?;
    let (feature_key, entity_id) = (list.feature_key.as_str(), list.entity_id.as_str());
    for keys in keys.chunks(KEYS_MAX) {
        let keys: Vec<_> = keys.iter().map(ToString::to_string).collect();
        let bind = |find: PreparedStatement| match core.prepared.within(op.deadline) {
            None => find.bind(&(feature_key, entity_id, &keys)),
            Some(timeout) => find.bind(&(feature_key, entity_id, &keys, timeout)),
        };
        removing.all_of(&core.prepared.find_keys, bind, |_| true, |_| true).await?;
    }
    Ok(removing.end().await)
}

/// Removes what lies between two moments, and returns how many visible items there were.
pub async fn between(core: &Arc<Core>, op: &Operation, list: &ListKey, within: &Bounds) -> Result<u64, StoreError> {
    let mut removing = Removing::begin(core, op, list).await?;
    let (feature_key, entity_id) = (list.feature_key.as_str(), list.entity_id.as_str());
    let (lower, upper) = slice(within);
    let bind = |find: PreparedStatement| match core.prepared.within(op.deadline) {
        None => find.bind(&(feature_key, entity_id, &lower, &upper)),
        Some(timeout) => find.bind(&(feature_key, entity_id, &lower, &upper, timeout)),
    };
    let own = removing.own;
    let found = removing.all_of(&core.prepared.find_between, bind, |_| true, |writetime| writetime > own).await?;
    if found > 0 {
        removing.delete_between(&lower, &upper).await?;
    }
    Ok(removing.end().await)
}

/// A removal that is under way.
struct Removing<'a> {
    core: &'a Arc<Core>,
    op: &'a Operation,
    list: &'a ListKey,
    /// Its own write timestamp.
    own: i64,
    visible_from: Timestamp,
    /// The last item that the list shows, if it has more.
    last_shown: Option<ItemKey>,
    permit: Option<Permit>,
    removed: u64,
    /// Whether something may have been deleted.
    begun: bool,
    /// The largest timestamp that something was deleted with.
    largest: Option<i64>,
}

impl<'a> Removing<'a> {
    async fn begin(core: &'a Arc<Core>, op: &'a Operation, list: &'a ListKey) -> Result<Self, StoreError> {
        let last_shown = last_shown(core, op, list).await?;
        let permit = Some(core.permit(op.deadline).await?);
        let (own, visible_from) = (core.write_clock.next(), op.ttl.visible_from(op.now));
        let (removed, begun, largest) = (0, false, None);
        Ok(Self { core, op, list, own, visible_from, last_shown, permit, removed, begun, largest })
    }

    async fn permit(&mut self) -> Result<Permit, StoreError> {
        match self.permit.take() {
            Some(permit) => Ok(permit),
            None => self.core.permit(self.op.deadline).await,
        }
    }

    /// Finds rows, page by page, and deletes each of them whose timestamp `is_due`. Counts those that are
    /// `wanted`; returns how many these were, hidden ones too.
    async fn all_of(
        &mut self,
        find: &PreparedStatement,
        bind: impl Fn(PreparedStatement) -> Result<BoundStatement, SerializationError>,
        wanted: impl Fn(&ItemKey) -> bool,
        is_due: impl Fn(i64) -> bool,
    ) -> Result<u64, StoreError> {
        let (mut state, mut count) = (PagingState::start(), 0);
        loop {
            let (rows, next) = self.find(find, &bind, &state).await?;
            let mut found = Found { own: self.own, keys: BTreeMap::new() };
            for row in rows.rows::<(&str, i64)>().map_err(|_| damaged_row())? {
                let (text, writetime) = row.map_err(|_| damaged_row())?;
                let Some(key) = ItemKey::parse(text).ok().filter(|key| wanted(key)) else { continue };
                self.core.write_clock.observe(writetime);
                count += 1;
                let is_shown = self.last_shown.is_none_or(|last| key >= last);
                self.removed += u64::from(is_shown && key.timestamp >= self.visible_from);
                if is_due(writetime) {
                    found.push(text, writetime);
                }
            }
            self.delete(found).await?;
            match next.into_paging_control_flow() {
                ControlFlow::Continue(next) => state = next,
                ControlFlow::Break(()) => return Ok(count),
            }
        }
    }

    async fn find(
        &mut self,
        find: &PreparedStatement,
        bind: impl Fn(PreparedStatement) -> Result<BoundStatement, SerializationError>,
        state: &PagingState,
    ) -> Result<(QueryRowsResult, PagingStateResponse), StoreError> {
        let (core, permit) = (self.core, self.permit().await?);
        let ((result, next), kept) = core
            .attempts
            .run(core.request(Statement::Find, self.op), permit, |route| {
                let mut find = find.clone();
                find.set_page_size(FIND_ROWS);
                find.set_load_balancing_policy(Some(route));
                read(Arc::clone(core), bind(find), state.clone())
            })
            .await
            .map_err(|error| after_unknown(error, self.begun))?;
        self.permit = Some(kept);
        Ok((result.into_rows_result().map_err(|_| damaged_row())?, next))
    }

    async fn delete(&mut self, found: Found) -> Result<(), StoreError> {
        self.largest = self.largest.max(found.largest());
        let deletes = found.into_deletes();
        // Other deletes of this removal may have been carried out.
        let several = self.begun || deletes.len() > 1;
        self.begun |= !deletes.is_empty();
        let permit = self.permit().await?;
        let deleted = delete(self.core, self.op, self.list, deletes, permit).await;
        self.permit = Some(deleted.map_err(|error| after_unknown(error, several))?);
        Ok(())
    }

    /// Deletes a slice of the partition by one tombstone.
    async fn delete_between(&mut self, lower: &str, upper: &str) -> Result<(), StoreError> {
        let permit = self.permit().await?;
        let written = delete_slice(self.core, self.op, self.list, (lower, upper), self.own, permit).await;
        self.permit = Some(written.map_err(|error| after_unknown(error, self.begun))?);
        self.largest = self.largest.max(Some(self.own));
        Ok(())
    }

    /// Waits until it may be acknowledged. Returns how many visible items were removed.
    async fn end(self) -> u64 {
        drop(self.permit);
        if let Some(largest) = self.largest {
            wait_out(self.core, largest).await;
        }
        self.removed
    }
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

/// Waits until whatever is written from now on, by any server, outranks a deletion: so that an add that
/// begins after a removal was acknowledged is not hidden by it.
pub async fn wait_out(core: &Core, timestamp: i64) {
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

/// One DELETE: its timestamp, and the keys of its rows, [`KEYS_MAX`] at most.
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
        Ok(((), write(core, op, Statement::Delete, &core.prepared.delete, permit, bind).await?))
    };
    in_lanes(core, permit, deletes, DELETES_MAX, each).await.map(|(_, permit)| permit)
}

/// Removes the partition. What was written with a larger write timestamp, by a server whose clock is
/// further ahead than allowed, survives. Of a set that of the list of items goes, too: of what was deleted nobody may
/// know which of both it was.
pub async fn all(core: &Arc<Core>, op: &Operation, list: &ListKey) -> Result<(), StoreError> {
    let mut permit = core.permit(op.deadline).await?;
    let timestamp = core.write_clock.next_for_all();
    let of_set = list.identity().is_set().then_some(&core.for_sets.clear);
    let mut begun = false;
    let bind = |statement: PreparedStatement| {
        let (feature_key, entity_id) = (list.feature_key.as_str(), list.entity_id.as_str());
        match core.prepared.within(op.deadline) {
            None => statement.bind(&(timestamp, feature_key, entity_id)),
            Some(timeout) => statement.bind(&(timestamp, timeout, feature_key, entity_id)),
        }
    };
    for clear in of_set.into_iter().chain([&core.prepared.clear]) {
        let cleared = write(core, op, Statement::Clear, clear, permit, bind).await;
        permit = cleared.map_err(|error| after_unknown(error, begun))?;
        begun = true;
    }
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
