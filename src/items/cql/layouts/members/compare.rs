//! Finds members whose entry is shown by lookups and counts while no page shows their row.
//!
//! A page finds a member by its row alone. So where a tombstone hides a row and not its entry, no page meets the
//! member, and readers of entries do not read rows. Once a second a session compares some entries with their
//! rows, and notes what does not agree.

use std::sync::Arc;

use super::entry::Entry;
use super::read;
use super::walk::{keep_of, mend};
use crate::domain::ListKey;
use crate::items::cql::core::Core;
use crate::items::cql::pressure::permits::Permit;
use crate::items::cql::statements::sets::ENTRIES_MAX;
use crate::items::{Operation, StoreError};

/// Compares some of the entries with their rows, if that is due.
pub async fn compare<'e>(
    core: &Arc<Core>,
    op: &Operation,
    list: &ListKey,
    entries: impl Iterator<Item = &'e Entry>,
    permit: Permit,
) -> Result<Permit, StoreError> {
    let standing = |entry: &'e Entry| entry.standing(op, keep_of(list)).map(|held| (&entry.member, held.key));
    let all: Vec<_> = entries.filter_map(standing).collect();
    if all.is_empty() || !core.row_sampler.is_due() {
        return Ok(permit);
    }
    let first = fastrand::usize(..all.len());
    let some: Vec<_> = all[first..].iter().chain(&all[..first]).take(ENTRIES_MAX).collect();
    let keys: Vec<_> = some.iter().map(|(_, key)| *key).collect();
    let (rows, permit) = read::find_rows(core, op, list, &keys, permit).await?;
    for (member, _) in some.into_iter().filter(|(_, key)| !rows.contains_key(key)) {
        core.mends.met(mend(op, list, member, None));
    }
    Ok(permit)
}
