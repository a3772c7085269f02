//! Finds members whose entry is shown by lookups and counts while no page shows their row.
//!
//! A page finds a member by its row alone. So where a tombstone hides a row and not its entry, no page meets the
//! member, and readers of entries do not read rows. Once a second a session compares some entries with their
//! rows, and notes differences.

use super::entry::ReverseEntry;
use super::read;
use super::walk::{keep_of, repair};
use crate::items::StoreError;
use crate::items::cql::call::Call;
use crate::items::cql::statements::sets::ENTRIES_MAX;

/// Compares some of the entries with their rows, if that is due.
pub async fn compare<'e>(call: &mut Call, entries: impl Iterator<Item = &'e ReverseEntry>) -> Result<(), StoreError> {
    let current =
        |entry: &'e ReverseEntry| entry.current(&call.op, keep_of(&call.list)).map(|held| (&entry.member, held.key));
    let all: Vec<_> = entries.filter_map(current).collect();
    if all.is_empty() || !call.core.row_sampler.is_due() {
        return Ok(());
    }
    let first = fastrand::usize(..all.len());
    let some: Vec<_> = all[first..].iter().chain(&all[..first]).take(ENTRIES_MAX).collect();
    let keys: Vec<_> = some.iter().map(|(_, key)| *key).collect();
    let rows = read::find_rows(call, &keys).await?;
    for (member, _) in some.into_iter().filter(|(_, key)| !rows.contains_key(key)) {
        call.core.repairs.note(repair(&call.op, &call.list, member, None));
    }
    Ok(())
}
