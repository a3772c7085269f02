//! Swaps of bags whose entries may not be written: a row each, from before the bag is swapped until its entries are.
//!
//! Who writes a bag and dies in between leaves its row, and any server finds it there. Rows are kept by the minute in
//! which they were made and a few shards, so that what is new is a few small reads, whatever was there before. They
//! are hints: one too many has a bag looked at that is as it should be.

use std::sync::Arc;

use bytes::Bytes;
use scylla::response::PagingState;
use scylla::statement::prepared::PreparedStatement;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::core::Core;
use super::error::damaged_row;
use super::keys;
use super::permits::Permit;
use super::statements::Statement;
use super::write::write;
use crate::domain::{EntityId, FeatureKey, ListKey, Timestamp};
use crate::items::{EntryChange, Operation, StoreError, SwapId, UnfinishedSwap};

/// Partitions of one minute.
const SHARDS: i32 = 4;
/// Rows of a partition that one look reads: the others come once these are gone.
const ROWS_MAX: i32 = 500;
/// For how many minutes rows are kept: as long as the table's `default_time_to_live` says.
const MINUTES_KEPT: i64 = 180;
/// Which entries went is part of a row up to this size. Those of a larger one go when a query meets them.
const REMOVED_BYTES_MAX: usize = 64 << 10;
const MICROS_PER_MINUTE: i64 = 60_000_000;

/// The list of entries, and those of it that went: places and values.
#[derive(Serialize, Deserialize)]
struct Removed(String, String, Vec<(u64, String)>);

/// Notes a swap that is about to be made.
pub async fn begin(
    core: &Arc<Core>,
    op: &Operation,
    list: &ListKey,
    entries: &[EntryChange],
    permit: Permit,
) -> Result<(SwapId, Permit), StoreError> {
    let id = Uuid::new_v4();
    let written = core.write_clock.next();
    let (minute, shard) = (minute_of(op.now), (id.as_u128() % SHARDS.unsigned_abs() as u128) as i32);
    let removed = pack(entries);
    let (feature_key, entity_id) = (list.feature_key.as_str(), list.entity_id.as_str());
    let bind = |statement: PreparedStatement| {
        statement.bind(&(minute, shard, id, feature_key, entity_id, &removed[..], written, written))
    };
    let permit = write(core, op, Statement::Add, &core.for_bags.note, permit, bind).await?;
    Ok((SwapId { minute, shard, id, written }, permit))
}

/// Forgets a swap whose entries are written.
pub async fn end(core: &Arc<Core>, op: &Operation, swap: SwapId, permit: Permit) -> Result<(), StoreError> {
    let SwapId { minute, shard, id, written } = swap;
    // Whoever noted it may have had a faster clock.
    let timestamp = core.write_clock.next().max(written.saturating_add(1));
    let bind = |statement: PreparedStatement| statement.bind(&(timestamp, minute, shard, id));
    write(core, op, Statement::Delete, &core.for_bags.forget, permit, bind).await.map(drop)
}

/// The swaps of the last minute, and of one of the minutes before it, which each look takes another of.
pub async fn look(core: &Arc<Core>, op: &Operation, number: u64) -> Result<Vec<UnfinishedSwap>, StoreError> {
    let now = minute_of(op.now);
    // Servers' clocks differ, and a minute has just begun or ends.
    let lately = [now + 1, now, now - 1];
    let earlier = now - 2 - (number % MINUTES_KEPT.unsigned_abs()) as i64;
    let mut permit = core.permit(op.deadline).await?;
    let mut found = Vec::new();
    for minute in lately.into_iter().chain([earlier]) {
        for shard in 0..SHARDS {
            let rows;
            (rows, permit) = read(core, op, minute, shard, permit).await?;
            found.extend(rows.into_iter().map(|(id, bag, removed)| UnfinishedSwap {
                id,
                bag,
                entries: removed,
                is_recent: minute >= now - 1,
            }));
        }
    }
    Ok(found)
}

type Found = (SwapId, ListKey, Vec<EntryChange>);

async fn read(
    core: &Arc<Core>,
    op: &Operation,
    minute: i64,
    shard: i32,
    permit: Permit,
) -> Result<(Vec<Found>, Permit), StoreError> {
    let ((result, _), permit) = core
        .attempts
        .run(core.request(Statement::Get, op), permit, |route| {
            let mut statement = core.for_bags.noted.clone();
            statement.set_load_balancing_policy(Some(route));
            let bound = match core.prepared.within(op.deadline) {
                None => statement.bind(&(minute, shard, ROWS_MAX)),
                Some(timeout) => statement.bind(&(minute, shard, ROWS_MAX, timeout)),
            };
            keys::read(Arc::clone(core), bound, PagingState::start())
        })
        .await?;
    type Columns = (Uuid, Option<String>, Option<String>, Option<Bytes>, Option<i64>);
    let result = result.into_rows_result().map_err(|_| damaged_row())?;
    let mut found = Vec::new();
    for row in result.rows::<Columns>().map_err(|_| damaged_row())? {
        // Cells of one row expire together; one that is read while they do is as good as gone.
        let (id, Some(feature_key), Some(entity_id), Some(removed), Some(written)) = row.map_err(|_| damaged_row())?
        else {
            continue;
        };
        let Some(bag) = list_of(&feature_key, &entity_id) else { continue };
        found.push((SwapId { minute, shard, id, written }, bag, unpack(&removed)));
    }
    Ok((found, permit))
}

fn minute_of(moment: Timestamp) -> i64 {
    moment.as_micros().cast_signed() / MICROS_PER_MINUTE
}

fn list_of(feature_key: &str, entity_id: &str) -> Option<ListKey> {
    let (id, version, generation) = FeatureKey::parse(feature_key)?;
    Some(ListKey::new(FeatureKey::new(&id, &version, generation), EntityId::new(entity_id).ok()?))
}

fn pack(entries: &[EntryChange]) -> Bytes {
    let text = |(place, value): &(Timestamp, Bytes)| {
        std::str::from_utf8(value).ok().map(|value| (place.as_nanos(), value.to_owned()))
    };
    let removed: Vec<_> = entries
        .iter()
        .filter(|change| !change.removed.is_empty())
        .map(|EntryChange { list, removed, .. }| {
            let (feature_key, entity_id) = (list.feature_key.as_str().to_owned(), list.entity_id.as_str().to_owned());
            Removed(feature_key, entity_id, removed.iter().filter_map(text).collect())
        })
        .collect();
    let packed = serde_json::to_vec(&removed).unwrap_or_default();
    if packed.len() > REMOVED_BYTES_MAX { Bytes::new() } else { packed.into() }
}

/// None of what is no packed removal.
fn unpack(packed: &[u8]) -> Vec<EntryChange> {
    let lists: Vec<Removed> = serde_json::from_slice(packed).unwrap_or_default();
    let change = |Removed(feature_key, entity_id, removed): Removed| {
        let list = list_of(&feature_key, &entity_id)?;
        let at = |(place, value): (u64, String)| Some((Timestamp::from_nanos(place).ok()?, Bytes::from(value)));
        Some(EntryChange { list, removed: removed.into_iter().filter_map(at).collect(), added: Vec::new() })
    };
    lists.into_iter().filter_map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::NewItem;

    #[test]
    fn what_went_is_read_as_it_was_noted_unless_it_is_very_much() {
        let at = |nanos| Timestamp::from_nanos(nanos).unwrap();
        let list = list_of("user#|by~3", "[\"a\",1]").unwrap();
        let value = Bytes::from_static("é-1".as_bytes());
        let removed = vec![(at(5), value.clone()), (at(6), value.clone())];
        let added = vec![NewItem { timestamp: at(7), value, expires_at: 9 }];
        let change = EntryChange { list, removed, added };
        let comes = EntryChange { removed: Vec::new(), ..change.clone() };
        let noted = unpack(&pack(&[comes, change.clone()]));
        assert_eq!(noted, [EntryChange { added: Vec::new(), ..change.clone() }]);
        let much = vec![change; 2_000];
        assert!(unpack(&pack(&much)).is_empty() && unpack(b"").is_empty() && unpack(b"[[1]]").is_empty());
    }
}
