//! Makes ordered rows and reverse entries agree where somebody met some that do not.
//!
//! That comes of servers that add a member at once: both items are in the entry then, and one of them stands. It
//! comes of an add whose outcome was unknown, and that arrives after its writer has written over its place: its
//! row is there and no entry points to it. And it comes of a write that reached fewer replicas than it should have.
//! Most often nothing is wrong any more: whoever looked, did so while something moved.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::super::core::Core;
use super::super::mends::Mend;
use super::super::statements::Statement;
use super::super::ttl::row_ttl_secs;
use super::entry::Entry;
use super::read;
use super::walk::keep_of;
use super::write::{self, Change};
use crate::items::{Operation, StoreError};

/// How long a look at a member and what follows may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// A row that no entry points to may be one of a write that is under way, until it is so old: an attempt is given
/// up on after 30 s.
const STRAY_AGE: Duration = Duration::from_secs(40);

/// What was wrong, for the count.
const SECOND_ITEM: &str = "second_item";
const MISSING_ROW: &str = "missing_row";
const STRAY_ROW: &str = "stray_row";

/// Mends the sets of a session, one member after the other, until it is dropped.
pub async fn mend(core: Arc<Core>) {
    loop {
        let met = core.mends.next().await;
        // Whoever meets it next has it looked at again.
        if let Err(error) = look(&core, &met.what).await {
            tracing::debug!(%error, "a member of a set was not mended");
        }
    }
}

async fn look(core: &Arc<Core>, Mend { list, member, row, ttl }: &Mend) -> Result<(), StoreError> {
    // Live load comes first.
    let Some(permit) = core.permits.try_take() else { return Ok(()) };
    let op = Operation::new(core.write_clock.wall(), *ttl, Instant::now() + TIMEOUT);
    let (mut entries, permit) = read::entries(core, &op, list, vec![member.clone()], permit).await?;
    let entry = entries.remove(member).unwrap_or_else(|| Entry { member: member.clone(), held: Vec::new() });
    let keys: Vec<_> = entry.held.iter().map(|held| held.key).chain(*row).collect();
    let (rows, permit) = read::find_rows(core, &op, list, &keys, permit).await?;
    let mut changes = Vec::new();
    let mut wrong = Vec::new();
    if let Some(stands) = entry.standing(&op, keep_of(list)) {
        for held in entry.held.iter().filter(|held| held.is_visible(&op) && *held != stands) {
            let [row, place] = write::drop(member, held);
            changes.extend((held.key != stands.key).then_some(row));
            changes.push(place);
            wrong.push(SECOND_ITEM);
        }
        let ttl_secs = row_ttl_secs(stands.expires_at, op.now).filter(|_| !rows.contains_key(&stands.key));
        if let Some(ttl_secs) = ttl_secs {
            changes.push(Change::PutRow { member: member.clone(), held: stands.clone(), ttl_secs });
            wrong.push(MISSING_ROW);
        }
    }
    let stray = row.filter(|row| entry.held.iter().all(|held| held.key != *row));
    if let Some((key, written)) = stray.and_then(|key| Some((key, *rows.get(&key)?)))
        && is_old(core, written)
    {
        changes.push(Change::DropRow { key, written });
        wrong.push(STRAY_ROW);
    }
    write::write(core, &op, list, Statement::Delete, changes, permit).await?;
    wrong.into_iter().for_each(|what| core.mended.with_label_values(&[what]).inc());
    Ok(())
}

fn is_old(core: &Core, written: i64) -> bool {
    let now = i64::try_from(core.write_clock.wall().as_micros()).unwrap_or(i64::MAX);
    let age = Duration::from_micros(u64::try_from(now.saturating_sub(written)).unwrap_or(0));
    age >= STRAY_AGE
}
