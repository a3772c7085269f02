//! Batches of changes of one set: an item comes or goes with its row and its place in an entry, in one batch of one
//! partition, which the databases carry out as one mutation.

use std::sync::Arc;

use scylla::errors::ExecutionError;
use scylla::policies::load_balancing::LoadBalancingPolicy;
use scylla::response::query_result::QueryResult;
use scylla::serialize::SerializationError;
use scylla::serialize::row::{RowSerializationContext, SerializeRow};
use scylla::serialize::writers::RowWriter;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;

use super::entry::Held;
use crate::domain::{ItemKey, ListKey};
use crate::items::StoreError;
use crate::items::cql::call::Call;
use crate::items::cql::core::Core;
use crate::items::cql::statements::Statement;

/// One change of a set. Each carries the write timestamp of the item that it is about, so that a deletion hides nothing
/// else; a deletion of several items has a timestamp by which all writes are settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// An ordered row comes.
    PutRow { member: String, held: Held, ttl_secs: i32 },
    /// A writer's place in an entry is filled.
    PutEntry { member: String, held: Held, ttl_secs: i32 },
    /// An ordered row goes.
    DropRow { key: ItemKey, written: i64 },
    /// A writer's place in an entry is emptied.
    DropEntry { member: String, writer: i32, written: i64 },
    /// Whole entries go that were written no later: `ENTRIES_MAX` at most.
    DropEntries { members: Vec<String>, written: i64 },
    /// The ordered rows between two bounds go that were written no later.
    DropRows { lower: String, upper: String, written: i64 },
}

/// An item comes.
pub fn put(member: &str, held: &Held, ttl_secs: i32) -> [Change; 2] {
    [
        Change::PutRow { member: member.to_owned(), held: held.clone(), ttl_secs },
        Change::PutEntry { member: member.to_owned(), held: held.clone(), ttl_secs },
    ]
}

/// An item goes.
pub fn drop(member: &str, held: &Held) -> [Change; 2] {
    let Held { writer, key, written, .. } = *held;
    [Change::DropRow { key, written }, Change::DropEntry { member: member.to_owned(), writer, written }]
}

/// Carries all of the changes out, or none of them.
pub async fn write(call: &mut Call, statement: Statement, changes: Vec<Change>) -> Result<(), StoreError> {
    if changes.is_empty() {
        return Ok(());
    }
    let (core, all) = (Arc::clone(&call.core), Arc::new((call.list.clone(), changes)));
    call.send_write(statement, |route| send(Arc::clone(&core), Arc::clone(&all), route)).await?;
    core.to_sweep.deleted(&call.list, all.1.iter().filter_map(Change::dropped_row));
    Ok(())
}

async fn send(
    core: Arc<Core>,
    all: Arc<(ListKey, Vec<Change>)>,
    route: Arc<dyn LoadBalancingPolicy>,
) -> Result<QueryResult, ExecutionError> {
    let (list, changes) = &*all;
    let statements = changes.iter().map(|change| change.statement(&core).clone().into()).collect();
    let bound: Vec<_> = changes.iter().map(|change| Bound { list, change }).collect();
    let mut batch = Batch::new_with_statements(BatchType::Unlogged, statements);
    batch.set_consistency(core.write_consistency.of_driver());
    batch.set_is_idempotent(true);
    batch.set_load_balancing_policy(Some(route));
    core.driver.batch(&batch, &bound).await
}

impl Change {
    /// The member whose row comes.
    pub fn put_row(&self) -> Option<&str> {
        match self {
            Self::PutRow { member, .. } => Some(member),
            _ => None,
        }
    }

    /// The key of the row that goes.
    fn dropped_row(&self) -> Option<ItemKey> {
        match self {
            Self::DropRow { key, .. } => Some(*key),
            _ => None,
        }
    }

    fn statement<'a>(&self, core: &'a Core) -> &'a PreparedStatement {
        match self {
            Self::PutRow { .. } => &core.for_sets.add_row,
            Self::PutEntry { .. } => &core.for_sets.add_entry,
            Self::DropRow { .. } => &core.for_sets.delete_row,
            Self::DropEntry { .. } => &core.for_sets.delete_entry,
            Self::DropEntries { .. } => &core.for_sets.delete_entries,
            Self::DropRows { .. } => &core.for_sets.delete_gap,
        }
    }
}

/// A change with the values of its statement.
struct Bound<'a> {
    list: &'a ListKey,
    change: &'a Change,
}

impl SerializeRow for Bound<'_> {
    fn serialize(
        &self,
        context: &RowSerializationContext<'_>,
        row_writer: &mut RowWriter,
    ) -> Result<(), SerializationError> {
        let (feature_key, entity_id) = (self.list.feature_key.as_str(), self.list.entity_id.as_str());
        match self.change {
            Change::PutRow { member, held, ttl_secs } => {
                let row = (feature_key, entity_id, held.key.to_string(), member, ttl_secs, held.written);
                row.serialize(context, row_writer)
            }
            Change::PutEntry { member, held, ttl_secs } => {
                let value = self.list.identity().value(&held.stored);
                let item = (held.key.to_string(), held.written, held.expires_at.cast_signed(), value);
                let row = (ttl_secs, held.written, held.writer, item, feature_key, entity_id, member);
                row.serialize(context, row_writer)
            }
            Change::DropRow { key, written } => {
                (written, feature_key, entity_id, key.to_string()).serialize(context, row_writer)
            }
            Change::DropEntry { member, writer, written } => {
                (writer, written, feature_key, entity_id, member).serialize(context, row_writer)
            }
            Change::DropEntries { members, written } => {
                (written, feature_key, entity_id, members).serialize(context, row_writer)
            }
            Change::DropRows { lower, upper, written } => {
                (written, feature_key, entity_id, lower, upper).serialize(context, row_writer)
            }
        }
    }

    fn is_empty(&self) -> bool {
        false
    }
}
