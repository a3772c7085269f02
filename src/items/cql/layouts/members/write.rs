//! Batches of changes of one set: an item comes or goes with its row and its place in an entry, in one batch of one
//! partition, which the databases carry out as one mutation.

use std::sync::Arc;

use scylla::statement::batch::BatchType;

use super::entry::Held;
use crate::domain::{ItemKey, ListKey};
use crate::items::StoreError;
use crate::items::cql::call::Call;
use crate::items::cql::statements::sets::SetStatement;
use crate::items::cql::statements::{EntryItem, Query, Statement, Value, Writes};

/// One change of a set. Each carries the write timestamp of the item that it is about, so that a deletion hides nothing
/// else; a deletion of several items has a timestamp by which all writes are settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberChange {
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
pub fn put(member: &str, held: &Held, ttl_secs: i32) -> [MemberChange; 2] {
    [
        MemberChange::PutRow { member: member.to_owned(), held: held.clone(), ttl_secs },
        MemberChange::PutEntry { member: member.to_owned(), held: held.clone(), ttl_secs },
    ]
}

/// An item goes.
pub fn drop(member: &str, held: &Held) -> [MemberChange; 2] {
    let Held { writer, key, written, .. } = *held;
    [MemberChange::DropRow { key, written }, MemberChange::DropEntry { member: member.to_owned(), writer, written }]
}

/// Carries all of the changes out, or none of them.
pub async fn write(call: &mut Call, statement: Statement, changes: Vec<MemberChange>) -> Result<(), StoreError> {
    if changes.is_empty() {
        return Ok(());
    }
    let changes = Arc::new(Changes::of(&call.list, changes));
    call.batch(statement, BatchType::Unlogged, Arc::clone(&changes)).await?;
    call.core.to_sweep.deleted(&call.list, changes.all.iter().filter_map(|(change, _)| change.dropped_row()));
    Ok(())
}

/// Changes of one set, each with the item that its statement binds.
struct Changes {
    list: ListKey,
    all: Vec<(MemberChange, EntryItem)>,
}

impl Changes {
    fn of(list: &ListKey, changes: Vec<MemberChange>) -> Self {
        let item = |change: &MemberChange| match change {
            MemberChange::PutRow { held, .. } | MemberChange::PutEntry { held, .. } => {
                let Held { key, written, expires_at, stored, .. } = held;
                let value = stored.slice_ref(list.identity().value(stored));
                EntryItem { key: key.to_string(), written: *written, expires_at: *expires_at, value }
            }
            MemberChange::DropRow { key, written } => EntryItem::of_key(key.to_string(), *written),
            _ => EntryItem::of_key(String::new(), 0),
        };
        let with_item = |change: MemberChange| {
            let item = item(&change);
            (change, item)
        };
        Self { list: list.clone(), all: changes.into_iter().map(with_item).collect() }
    }
}

impl Writes for Changes {
    fn queries(&self) -> Vec<Query<'_>> {
        let partition = [self.list.feature_key.as_str(), self.list.entity_id.as_str()];
        self.all.iter().map(|(change, item)| query_of(change, item, partition)).collect()
    }
}

impl MemberChange {
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
}

/// The statement of a change, with the item that comes, or the key of the row that goes.
fn query_of<'a>(change: &'a MemberChange, item: &'a EntryItem, [feature_key, entity_id]: [&'a str; 2]) -> Query<'a> {
    let key = item.key.as_str();
    let query = match change {
        MemberChange::PutRow { member, ttl_secs, .. } => {
            let values = [key.into(), member.as_str().into(), (*ttl_secs).into(), item.written.into()];
            Query::of_partition(SetStatement::AddRow, values)
        }
        MemberChange::PutEntry { member, held, ttl_secs } => {
            let (ttl_secs, written, writer) = ((*ttl_secs).into(), held.written.into(), held.writer.into());
            let (feature_key, entity_id) = (feature_key.into(), entity_id.into());
            let member = member.as_str().into();
            let values = [ttl_secs, written, writer, Value::Item(item), feature_key, entity_id, member];
            Query::plain(SetStatement::AddEntry, values)
        }
        MemberChange::DropRow { written, .. } => Query::deletion(SetStatement::DeleteRow, *written, [key.into()]),
        MemberChange::DropEntry { member, writer, written } => {
            let values =
                [(*writer).into(), (*written).into(), feature_key.into(), entity_id.into(), member.as_str().into()];
            Query::plain(SetStatement::DeleteEntry, values)
        }
        MemberChange::DropEntries { members, written } => {
            Query::deletion(SetStatement::DeleteEntries, *written, [members.as_slice().into()])
        }
        MemberChange::DropRows { lower, upper, written } => {
            let values = [lower.as_str().into(), upper.as_str().into()];
            Query::deletion(SetStatement::DeleteGap, *written, values)
        }
    };
    query.with_partition(Some([feature_key, entity_id]))
}
