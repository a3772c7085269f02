//! Repairs ordered rows and reverse entries that do not agree.
//!
//! The cause is servers that add a member at once: both items are in the entry then, and one of them is current. It
//! comes of an add whose outcome was unknown, and that arrives after its writer has written over its place: its
//! row is there and no entry points to it. It comes of a write that reached fewer replicas than it should have. And
//! it comes of clocks: the deletion of an item has the write timestamp of that item, and hides the row of the same
//! item that a slower clock adds again, while the entry has a place of another writer.
//! Usually nothing is wrong by then: the reader found the member while something moved.

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::entry::{Held, ReverseEntry};
use super::read;
use super::walk::keep_of;
use super::write::{self, MemberChange};
use crate::items::cql::call::Call;
use crate::items::cql::core::Core;
use crate::items::cql::notes::repairs::Repair;
use crate::items::cql::statements::Statement;
use crate::items::cql::ttl::row_ttl_secs;
use crate::items::{OpContext, StoreError};

/// How long a look at a member and what follows may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// A row that no entry points to may be one of a write that is in progress, until it is so old: an attempt is given
/// up on after 30 s.
const STRAY_AGE: Duration = Duration::from_secs(40);

/// The kinds of repairs, for the metric.
const SECOND_ITEM: &str = "second_item";
const MISSING_ROW: &str = "missing_row";
const STRAY_ROW: &str = "stray_row";

/// Repairs the sets of a session, one member after the other, until it is dropped.
pub async fn repair(core: Arc<Core>) {
    loop {
        let due = core.repairs.next().await;
        // The next reader of the member notes it again.
        if let Err(error) = repair_member(&core, &due.what).await {
            tracing::debug!(%error, "cannot repair a set member");
        }
    }
}

async fn repair_member(core: &Arc<Core>, Repair { list, member, row, ttl }: &Repair) -> Result<(), StoreError> {
    // Live load comes first.
    let Some(permit) = core.permits.try_take() else { return Ok(()) };
    let op = OpContext::new(core.write_clock.wall(), *ttl, Instant::now() + TIMEOUT);
    let call = &mut Call::with_permit(core, &op, list, permit);
    let mut entries = read::entries(call, vec![member.clone()]).await?;
    let entry = entries.remove(member).unwrap_or_else(|| ReverseEntry { member: member.clone(), held: Vec::new() });
    let keys: Vec<_> = entry.held.iter().map(|held| held.key).chain(*row).collect();
    let rows = read::find_rows(call, &keys).await?;
    let (mut changes, mut wrong, mut missing) = (Vec::new(), Vec::new(), None);
    if let Some(current) = entry.current(&op, keep_of(list)) {
        for held in entry.held.iter().filter(|held| held.is_visible(&op) && *held != current) {
            let [row, place] = write::drop(member, held);
            changes.extend((held.key != current.key).then_some(row));
            changes.push(place);
            wrong.push(SECOND_ITEM);
        }
        let ttl_secs = row_ttl_secs(current.expires_at, op.now).filter(|_| !rows.contains_key(&current.key));
        missing = ttl_secs.map(|ttl_secs| (current, ttl_secs));
    }
    let stray = row.filter(|row| entry.held.iter().all(|held| held.key != *row));
    if let Some((key, written)) = stray.and_then(|key| Some((key, *rows.get(&key)?)))
        && is_old(core, written)
    {
        changes.push(MemberChange::DropRow { key, written });
        wrong.push(STRAY_ROW);
    }
    write::write(call, Statement::Delete, changes).await?;
    if let Some((current, ttl_secs)) = missing
        && restore_row(call, (member, current, ttl_secs)).await?
    {
        wrong.push(MISSING_ROW);
    }
    wrong.into_iter().for_each(|what| core.repaired.with_label_values(&[what]).inc());
    Ok(())
}

/// Writes the row of a current item, with the item's own write timestamp, or with a later one that outranks the
/// tombstone which hides it. The entry stays as it is: were it written again, it could undo a removal that deletes it
/// just now. Returns whether the row can be read then.
async fn restore_row(call: &mut Call, (member, current, ttl_secs): (&str, &Held, i32)) -> Result<bool, StoreError> {
    let core = Arc::clone(&call.core);
    for written in iter::once(current.written).chain(core.write_clock.outranking()) {
        let held = Held { written, ..current.clone() };
        let row = MemberChange::PutRow { member: member.to_owned(), held, ttl_secs };
        write::write(call, Statement::Delete, vec![row]).await?;
        if !read::find_rows(call, &[current.key]).await?.contains_key(&current.key) {
            continue;
        }
        let entries = read::entries(call, vec![member.to_owned()]).await?;
        if entries.values().any(|entry| entry.held.iter().any(|held| held.key == current.key)) {
            return Ok(true);
        }
        // A removal or a trim deleted the item after the entry was read, which is why its row was missing.
        let row = MemberChange::DropRow { key: current.key, written };
        write::write(call, Statement::Delete, vec![row]).await?;
        return Ok(false);
    }
    tracing::debug!(list = ?call.list, "no write timestamp is late enough to override the deletion of a set member");
    Ok(false)
}

fn is_old(core: &Core, written: i64) -> bool {
    let now = i64::try_from(core.write_clock.wall().as_micros()).unwrap_or(i64::MAX);
    let age = Duration::from_micros(u64::try_from(now.saturating_sub(written)).unwrap_or(0));
    age >= STRAY_AGE
}
