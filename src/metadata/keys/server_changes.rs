//! Changes of servers: the pool of list actors, the log, commands to jobs and backups, in the audit trail.
//!
//! Like a key's entry, each takes a revision of the store, so that the trail has one order.

use liststore_contract::operations;
use liststore_contract::row::Row;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::record::{Broken, author};
use crate::domain::{Author, Revision, Timestamp};

/// What makes a change: an operation, or the restore of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerAction(&'static str);

impl ServerAction {
    /// A server's first start on a restored store. It is no operation, since the command works without a server.
    pub const RESTORE_BACKUP: Self = Self("restore_backup");

    pub fn of(operation: &'static Row) -> Self {
        Self(operation.name)
    }

    /// The action of a stored name, if there is one.
    pub fn named(name: &str) -> Option<Self> {
        operations::NAMES.iter().copied().chain([Self::RESTORE_BACKUP.0]).find(|known| *known == name).map(Self)
    }

    pub fn as_str(self) -> &'static str {
        self.0
    }
}

/// A change to note.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerChange {
    pub action: ServerAction,
    /// The changed part: `pool`, `log`, `backup`, or a job as `job:` and its ID.
    pub target: String,
    pub before: Option<Json>,
    pub after: Option<Json>,
}

/// One entry of the audit trail of servers.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerChangeEntry {
    pub revision: Revision,
    pub at: Timestamp,
    pub by: Author,
    pub change: ServerChange,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerChangeRecord {
    format: u32,
    at_nanos: u64,
    by: String,
    on_behalf_of: Option<String>,
    action: String,
    target: String,
    before: Option<Json>,
    after: Option<Json>,
}

const FORMAT: u32 = 1;

/// The stored form of an entry, which never changes: another form gets another number.
pub fn write(entry: &ServerChangeEntry) -> Result<String, serde_json::Error> {
    let ServerChangeEntry { at, by, change: ServerChange { action, target, before, after }, .. } = entry;
    serde_json::to_string(&ServerChangeRecord {
        format: FORMAT,
        at_nanos: at.as_nanos(),
        by: by.as_str().to_owned(),
        on_behalf_of: by.behalf().map(str::to_owned),
        action: action.as_str().to_owned(),
        target: target.clone(),
        before: before.clone(),
        after: after.clone(),
    })
}

pub fn read(revision: Revision, text: &[u8]) -> Result<ServerChangeEntry, Broken> {
    let record: ServerChangeRecord = serde_json::from_slice(text).map_err(|_| Broken("record"))?;
    if record.format != FORMAT {
        return Err(Broken("format"));
    }
    let ServerChangeRecord { at_nanos, by, on_behalf_of, action, target, before, after, .. } = record;
    let action = ServerAction::named(&action).ok_or(Broken("action"))?;
    Ok(ServerChangeEntry {
        revision,
        at: Timestamp::from_nanos(at_nanos).map_err(|_| Broken("at"))?,
        by: author(by, on_behalf_of)?,
        change: ServerChange { action, target, before, after },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files contain this text, so it must never change.
    const RECORD: &str = r#"{"format":1,"at_nanos":5,"by":"key:ops","on_behalf_of":"alice","action":"change_log","target":"log","before":{"access":"all"},"after":{"access":"off"}}"#;

    #[test]
    fn an_entry_reads_back_and_a_broken_one_is_refused() {
        let entry = read(Revision(7), RECORD.as_bytes()).unwrap();
        assert_eq!((write(&entry).unwrap().as_str(), entry.revision), (RECORD, Revision(7)));
        for (part, good, bad) in [
            ("format", "\"format\":1", "\"format\":2"),
            ("at", "\"at_nanos\":5", "\"at_nanos\":10000000000000000000"),
            ("by", "key:ops", ""),
            ("action", "change_log", "change_everything"),
            ("record", "\"target\"", "\"place\""),
        ] {
            let broken = RECORD.replacen(good, bad, 1);
            assert_eq!(read(Revision(7), broken.as_bytes()), Err(Broken(part)), "{bad}");
        }
    }
}
