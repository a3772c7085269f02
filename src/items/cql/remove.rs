//! Remove List Items with Value, and Remove All List Items.

use std::ops::ControlFlow;

use futures_util::{StreamExt, TryStreamExt, stream};
use scylla::response::PagingState;
use scylla::serialize::row::SerializeRow;
use scylla::statement::prepared::PreparedStatement;

use super::error::{after_unknown, damaged_row};
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
///
/// The deletes' timestamp is the operation's own, or the largest write timestamp found if that is
/// larger: so a writer with a fast clock cannot make the removal a no-op. Equal timestamps are
/// enough, since deletions win ties.
pub async fn value(core: &Core, op: &Operation, list: &ListKey, value: &[u8]) -> Result<u64, StoreError> {
    let _turn = core.removals.at(list, op.deadline).await?;
    let mut write_timestamp = core.write_clock.next();
    let digest = ValueDigest::of(value);
    let visible_from = op.ttl.visible_from(op.now);
    let mut find = core
        .prepared
        .find
        .clone()
        .bind(&(list.feature_key.as_str(), list.entity_id.as_str(), value))
        .map_err(|_| damaged_row())?;
    find.set_page_size(FIND_ROWS);
    let (mut state, mut removed, mut begun) = (PagingState::start(), 0, false);
    loop {
        let (result, next) = core
            .attempts
            .run(core.request(Statement::Find, op), |route| {
                let (mut find, state) = (find.clone(), state.clone());
                find.set_load_balancing_policy(Some(route));
                async move { core.driver.execute_bound_single_page(&find, state).await }
            })
            .await
            .map_err(|error| after_unknown(error, begun))?;
        let result = result.into_rows_result().map_err(|_| damaged_row())?;
        let mut keys = Vec::with_capacity(result.rows_num());
        for row in result.rows::<(&str, i64)>().map_err(|_| damaged_row())? {
            let (text, writetime) = row.map_err(|_| damaged_row())?;
            // The index may lag behind its rows; the key says for certain which value it has.
            let Some(key) = ItemKey::parse(text).ok().filter(|key| key.digest == digest) else {
                continue;
            };
            core.write_clock.observe(writetime);
            write_timestamp = write_timestamp.max(writetime);
            removed += u64::from(key.timestamp >= visible_from);
            keys.push(text.to_owned());
        }
        delete(core, op, list, &keys, write_timestamp).await.map_err(|error| {
            // Other deletes of this removal may have been carried out.
            after_unknown(error, begun || keys.len() > KEYS_MAX)
        })?;
        begun |= !keys.is_empty();
        match next.into_paging_control_flow() {
            ControlFlow::Continue(next) => state = next,
            ControlFlow::Break(()) => return Ok(removed),
        }
    }
}

/// Deletes rows by their keys, a few at a time.
async fn delete(
    core: &Core,
    op: &Operation,
    list: &ListKey,
    keys: &[String],
    write_timestamp: i64,
) -> Result<(), StoreError> {
    let delete = |keys| {
        let values = (write_timestamp, list.feature_key.as_str(), list.entity_id.as_str(), keys);
        write(core, op, Statement::Delete, &core.prepared.delete, values)
    };
    let deletes: Vec<_> = keys.chunks(KEYS_MAX).map(delete).collect();
    stream::iter(deletes).buffer_unordered(DELETES_MAX).try_collect().await
}

/// Removes the partition. What was written with a larger write timestamp, by a server with a faster
/// clock, survives.
pub async fn all(core: &Core, op: &Operation, list: &ListKey) -> Result<(), StoreError> {
    let values = (core.write_clock.next(), list.feature_key.as_str(), list.entity_id.as_str());
    write(core, op, Statement::Clear, &core.prepared.clear, values).await
}

async fn write(
    core: &Core,
    op: &Operation,
    statement: Statement,
    prepared: &PreparedStatement,
    values: impl SerializeRow,
) -> Result<(), StoreError> {
    let bound = prepared.clone().bind(&values).map_err(|_| damaged_row())?;
    let result = core
        .attempts
        .run(core.request(statement, op), |route| {
            let mut bound = bound.clone();
            bound.set_load_balancing_policy(Some(route));
            async move { core.driver.execute_bound_unpaged(&bound).await }
        })
        .await?;
    result.result_not_rows().map_err(|_| damaged_row())
}
