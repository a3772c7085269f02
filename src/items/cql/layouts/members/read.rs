//! The requests that read: ordered rows, and reverse entries.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use scylla::response::query_result::QueryRowsResult;
use scylla::response::{PagingState, PagingStateResponse};
use scylla::serialize::SerializationError;
use scylla::statement::bound::BoundStatement;
use scylla::statement::prepared::PreparedStatement;

use super::entry::{Entry, Held, stored_of};
use crate::domain::{Identity, ItemKey, ListKey, Order};
use crate::items::cql::core::Core;
use crate::items::cql::error::damaged_row;
use crate::items::cql::layouts::keys;
use crate::items::cql::layouts::lanes::in_lanes;
use crate::items::cql::pressure::permits::Permit;
use crate::items::cql::statements::lists::Statement;
use crate::items::cql::statements::sets::ENTRIES_MAX;
use crate::items::{Operation, StoreError};

/// Reads of entries of one operation under way at once.
const READS_MAX: usize = 8;
/// Pages have as many rows as fit in this, by those seen.
const PAGE_BYTES: usize = 1 << 20;
const PAGE_ROWS_MAX: usize = 5_000;
const FIRST_ROWS: usize = 256;

/// An ordered row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub key: ItemKey,
    /// Where the entry of its member is.
    pub member: String,
}

/// A part of the ordered rows of a slice.
pub struct Rows {
    pub rows: Vec<Row>,
    /// Where the next part begins; none at the end of the slice.
    pub next: Option<PagingState>,
    pub permit: Permit,
}

/// Which ordered rows: `lower <= sort < upper`.
#[derive(Debug, Clone)]
pub struct Slice {
    pub order: Order,
    pub lower: String,
    pub upper: String,
}

/// Reads ordered rows, `rows_max` at most. There may be fewer, or none, and more of them behind.
pub async fn rows(
    core: &Arc<Core>,
    op: &Operation,
    list: &ListKey,
    slice: &Slice,
    (from, rows_max): (PagingState, usize),
    permit: Permit,
) -> Result<Rows, StoreError> {
    let prepared = match slice.order {
        Order::Newest => &core.for_sets.rows,
        Order::Oldest => &core.for_sets.rows_oldest,
    };
    let (feature_key, entity_id) = (list.feature_key.as_str(), list.entity_id.as_str());
    let (lower, upper) = (slice.lower.as_str(), slice.upper.as_str());
    let bind = |statement: PreparedStatement| match core.prepared.within(op.deadline) {
        None => statement.bind(&(feature_key, entity_id, lower, upper)),
        Some(timeout) => statement.bind(&(feature_key, entity_id, lower, upper, timeout)),
    };
    let (result, next, permit) = page(core, op, Statement::Get, prepared, (from, rows_max), permit, bind).await?;
    let found = result.rows::<(&str, &str)>().map_err(|_| damaged_row())?;
    let rows = found.map(|row| {
        let (key, member) = row.map_err(|_| damaged_row())?;
        let key = ItemKey::parse(key).map_err(|_| damaged_row())?;
        Ok(Row { key, member: member.to_owned() })
    });
    Ok(Rows { rows: rows.collect::<Result<_, StoreError>>()?, next, permit })
}

/// Those of these rows that are there, with their write timestamps.
pub async fn find_rows(
    core: &Arc<Core>,
    op: &Operation,
    list: &ListKey,
    keys: &[ItemKey],
    permit: Permit,
) -> Result<(HashMap<ItemKey, i64>, Permit), StoreError> {
    let keys: Vec<_> = keys.iter().map(ToString::to_string).collect();
    let (feature_key, entity_id) = (list.feature_key.as_str(), list.entity_id.as_str());
    let bind = |statement: PreparedStatement| match core.prepared.within(op.deadline) {
        None => statement.bind(&(feature_key, entity_id, &keys)),
        Some(timeout) => statement.bind(&(feature_key, entity_id, &keys, timeout)),
    };
    let (mut found, mut from, mut permit) = (HashMap::new(), Some(PagingState::start()), permit);
    while let Some(state) = from {
        let result;
        let at = (state, page_of_all(keys.len()));
        (result, from, permit) = page(core, op, Statement::Keys, &core.for_sets.find_rows, at, permit, bind).await?;
        for row in result.rows::<(&str, &str, i64)>().map_err(|_| damaged_row())? {
            let (key, _, written) = row.map_err(|_| damaged_row())?;
            found.insert(ItemKey::parse(key).map_err(|_| damaged_row())?, written);
        }
    }
    Ok((found, permit))
}

/// Rows of a page that is to have all that are asked for: one that is full is followed by another, which is empty.
fn page_of_all(rows: usize) -> usize {
    rows + 1
}

/// The reverse entries of some members, by where they are: a few requests at a time, as far as there are permits.
pub async fn entries(
    core: &Arc<Core>,
    op: &Operation,
    list: &ListKey,
    members: Vec<String>,
    permit: Permit,
) -> Result<(HashMap<String, Entry>, Permit), StoreError> {
    if members.is_empty() {
        return Ok((HashMap::new(), permit));
    }
    let parts: Vec<_> = members.chunks(ENTRIES_MAX).map(<[String]>::to_vec).collect();
    let each = |members: Vec<String>, permit| async move { some_entries(core, op, list, &members, permit).await };
    let (found, permit) = in_lanes(core, permit, parts, READS_MAX, each).await?;
    let found = found.into_iter().flatten().map(|entry| (entry.member.clone(), entry)).collect();
    Ok((found, permit))
}

/// [`ENTRIES_MAX`] at most.
async fn some_entries(
    core: &Arc<Core>,
    op: &Operation,
    list: &ListKey,
    members: &[String],
    permit: Permit,
) -> Result<(Vec<Entry>, Permit), StoreError> {
    let (feature_key, entity_id) = (list.feature_key.as_str(), list.entity_id.as_str());
    let bind = |statement: PreparedStatement| match core.prepared.within(op.deadline) {
        None => statement.bind(&(feature_key, entity_id, members)),
        Some(timeout) => statement.bind(&(feature_key, entity_id, members, timeout)),
    };
    let (mut found, mut from, mut permit) = (Vec::new(), Some(PagingState::start()), permit);
    while let Some(state) = from {
        let result;
        let at = (state, page_of_all(members.len()));
        (result, from, permit) = page(core, op, Statement::Find, &core.for_sets.entries, at, permit, bind).await?;
        read_entries(core, list.identity(), &result, &mut found)?;
    }
    Ok((found, permit))
}

/// A walk over all reverse entries of a set, in no order that means anything.
pub struct AllEntries {
    from: Option<PagingState>,
    rows_max: usize,
}

impl AllEntries {
    pub fn new() -> Self {
        Self { from: Some(PagingState::start()), rows_max: FIRST_ROWS }
    }

    /// The next part, which may be empty; none at the end.
    pub async fn next(
        &mut self,
        core: &Arc<Core>,
        op: &Operation,
        list: &ListKey,
        permit: Permit,
    ) -> Result<(Option<Vec<Entry>>, Permit), StoreError> {
        let Some(state) = self.from.take() else { return Ok((None, permit)) };
        let (feature_key, entity_id) = (list.feature_key.as_str(), list.entity_id.as_str());
        let bind = |statement: PreparedStatement| match core.prepared.within(op.deadline) {
            None => statement.bind(&(feature_key, entity_id)),
            Some(timeout) => statement.bind(&(feature_key, entity_id, timeout)),
        };
        let at = (state, self.rows_max);
        let (result, next, permit) =
            page(core, op, Statement::Find, &core.for_sets.all_entries, at, permit, bind).await?;
        if result.rows_num() > 0 {
            let row_bytes = (result.rows_bytes_size() / result.rows_num()).max(1);
            self.rows_max = (PAGE_BYTES / row_bytes).clamp(1, PAGE_ROWS_MAX);
        }
        self.from = next;
        let mut found = Vec::with_capacity(result.rows_num());
        read_entries(core, list.identity(), &result, &mut found)?;
        Ok((Some(found), permit))
    }
}

/// By who wrote it: item key, write timestamp, expiry, value.
type Items<'a> = HashMap<i32, (&'a str, i64, i64, Bytes)>;

fn read_entries(
    core: &Core,
    identity: Identity,
    result: &QueryRowsResult,
    into: &mut Vec<Entry>,
) -> Result<(), StoreError> {
    for row in result.rows::<(&str, Option<Items<'_>>)>().map_err(|_| damaged_row())? {
        let (member, items) = row.map_err(|_| damaged_row())?;
        let held = items.into_iter().flatten().map(|(writer, (key, written, expires_at, value))| {
            core.write_clock.observe(written);
            let key = ItemKey::parse(key).map_err(|_| damaged_row())?;
            let stored = stored_of(identity, member, value).map_err(|_| damaged_row())?;
            Ok(Held { writer, key, written, expires_at: expires_at.cast_unsigned(), stored })
        });
        into.push(Entry { member: member.to_owned(), held: held.collect::<Result<_, StoreError>>()? });
    }
    Ok(())
}

/// One page of a query.
async fn page(
    core: &Arc<Core>,
    op: &Operation,
    statement: Statement,
    prepared: &PreparedStatement,
    (from, rows_max): (PagingState, usize),
    permit: Permit,
    bind: impl Fn(PreparedStatement) -> Result<BoundStatement, SerializationError>,
) -> Result<(QueryRowsResult, Option<PagingState>, Permit), StoreError> {
    let ((result, next), permit) = core
        .attempts
        .run(core.request(statement, op), permit, |route| {
            let mut prepared = prepared.clone();
            prepared.set_page_size(i32::try_from(rows_max).unwrap_or(i32::MAX).max(1));
            prepared.set_load_balancing_policy(Some(route));
            keys::read(Arc::clone(core), bind(prepared), from.clone())
        })
        .await?;
    let result = result.into_rows_result().map_err(|_| damaged_row())?;
    Ok((result, following(next), permit))
}

fn following(next: PagingStateResponse) -> Option<PagingState> {
    match next.into_paging_control_flow() {
        ControlFlow::Continue(next) => Some(next),
        ControlFlow::Break(()) => None,
    }
}
