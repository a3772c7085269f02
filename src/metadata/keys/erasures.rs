//! Erasures on request: entries of the audit trail that concern items instead of definitions.
//!
//! Like a key's entry, each takes a revision of the store, so that the trail has one order.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::record::{Broken, author};
use crate::domain::{Author, Revision, Timestamp};

/// The kind of an erasure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErasureAction {
    EraseEntity,
    Purge,
}

impl ErasureAction {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::EraseEntity => "erase_entity",
            Self::Purge => "purge",
        }
    }
}

/// An entry to note.
#[derive(Debug, Clone, PartialEq)]
pub struct Erasure {
    pub action: ErasureAction,
    /// The erased part, such as `entity:user/u-123`.
    pub target: String,
    /// The extent, for people.
    pub details: Json,
}

/// One entry of the audit trail of erasures.
#[derive(Debug, Clone, PartialEq)]
pub struct ErasureEntry {
    pub revision: Revision,
    pub at: Timestamp,
    pub by: Author,
    pub erasure: Erasure,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ErasureRecord {
    format: u32,
    at_nanos: u64,
    by: String,
    on_behalf_of: Option<String>,
    action: ErasureAction,
    target: String,
    details: Json,
}

const FORMAT: u32 = 1;

/// The stored form of an entry, which never changes: another form gets another number.
pub fn write(entry: &ErasureEntry) -> Result<String, serde_json::Error> {
    let ErasureEntry { at, by, erasure: Erasure { action, target, details }, .. } = entry;
    serde_json::to_string(&ErasureRecord {
        format: FORMAT,
        at_nanos: at.as_nanos(),
        by: by.as_str().to_owned(),
        on_behalf_of: by.behalf().map(str::to_owned),
        action: *action,
        target: target.clone(),
        details: details.clone(),
    })
}

pub fn read(revision: Revision, text: &[u8]) -> Result<ErasureEntry, Broken> {
    let record: ErasureRecord = serde_json::from_slice(text).map_err(|_| Broken("record"))?;
    if record.format != FORMAT {
        return Err(Broken("format"));
    }
    let ErasureRecord { at_nanos, by, on_behalf_of, action, target, details, .. } = record;
    Ok(ErasureEntry {
        revision,
        at: Timestamp::from_nanos(at_nanos).map_err(|_| Broken("at"))?,
        by: author(by, on_behalf_of)?,
        erasure: Erasure { action, target, details },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files contain this text, so it must never change.
    const RECORD: &str = r#"{"format":1,"at_nanos":5,"by":"key:feed","on_behalf_of":"alice","action":"erase_entity","target":"entity:user/u-1","details":{"cleared":2}}"#;

    #[test]
    fn an_entry_reads_back_and_other_records_are_refused() {
        let entry = read(Revision(7), RECORD.as_bytes()).unwrap();
        assert_eq!((write(&entry).unwrap().as_str(), entry.revision), (RECORD, Revision(7)));
        for (part, good, bad) in [
            ("format", "\"format\":1", "\"format\":2"),
            ("at", "\"at_nanos\":5", "\"at_nanos\":10000000000000000000"),
            ("by", "key:feed", ""),
            ("record", "erase_entity", "erase_everything"),
        ] {
            let broken = RECORD.replacen(good, bad, 1);
            assert_eq!(read(Revision(7), broken.as_bytes()), Err(Broken(part)), "{bad}");
        }
    }
}
