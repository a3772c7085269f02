//! Swaps of bags whose entries may not be written: a row each, from before the bag is swapped until its entries are.
//!
//! A server that dies in between leaves the row, and any server finds it. Rows are kept by the minute in which they
//! were made and a few shards, so that new rows are found by a few small reads. They are hints: a surplus row only
//! causes a check of a correct bag. A row also stays if its server may not know all indexes.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use uuid::Uuid;

use crate::domain::{EntityId, FeatureKey, ListKey, Timestamp};
use crate::items::cql::call::{Call, Pages, Subject};
use crate::items::cql::core::Core;
use crate::items::cql::statements::Query;
use crate::items::cql::statements::bags::BagStatement;
use crate::items::{EntryChange, OpContext, StoreError, SwapId, SwapPage, SwapScan, UnfinishedSwap};

/// Partitions of one minute.
const SHARDS: i32 = 4;
/// Rows of a partition that are read at once.
const ROWS_MAX: usize = 500;
/// Once it has as many, a part of a scan is over.
const PAGE_SWAPS: usize = 2_000;
/// This part of the time of a scan is left for the way of its answer.
const ANSWER_PART: u32 = 4;
/// For how many minutes rows are kept: the table's `default_time_to_live`.
const MINUTES_KEPT: i64 = 180;
/// The most bytes of a note. Entries that do not fit are removed when a query finds them.
const NOTE_BYTES_MAX: usize = 64 << 10;
const MICROS_PER_MINUTE: i64 = 60_000_000;

/// Where a swap is noted: its partition, its row, and the write timestamp of the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Noted {
    minute: i64,
    shard: i32,
    id: Uuid,
    written: i64,
}

impl Noted {
    fn pack(self) -> SwapId {
        let part = Left { minute: self.minute, shard: self.shard, after: self.id }.pack();
        SwapId::new([&part[..], &self.written.to_be_bytes()].concat())
    }

    /// `None` if another store made the ID.
    pub fn unpack(id: &SwapId) -> Option<Self> {
        let (part, written) = id.as_bytes().split_last_chunk()?;
        let Left { minute, shard, after: id } = Left::unpack(part)?;
        Some(Self { minute, shard, id, written: i64::from_be_bytes(*written) })
    }
}

/// A part of a scan that is left: a partition, behind a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Left {
    minute: i64,
    shard: i32,
    after: Uuid,
}

impl Left {
    fn pack(self) -> Bytes {
        [&self.minute.to_be_bytes()[..], &self.shard.to_be_bytes(), self.after.as_bytes()].concat().into()
    }

    fn unpack(packed: &[u8]) -> Option<Self> {
        let (minute, packed) = packed.split_first_chunk()?;
        let (shard, after) = packed.split_first_chunk()?;
        let (minute, shard) = (i64::from_be_bytes(*minute), i32::from_be_bytes(*shard));
        Some(Self { minute, shard, after: Uuid::from_slice(after).ok()? })
    }
}

/// The content of a row without the bag.
#[derive(Default, Serialize, Deserialize)]
struct Note {
    /// Which entries the swap was to remove.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    removed: Vec<Removed>,
    /// The indexes that all entries are written in, once that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    entered_in: Option<Vec<String>>,
}

/// The list of entries, and its removed entries: places and values.
#[derive(Serialize, Deserialize)]
struct Removed(String, String, Vec<(u64, String)>);

/// Notes a swap of the call's bag that is about to be made.
pub async fn begin(call: &mut Call, entries: &[EntryChange]) -> Result<Noted, StoreError> {
    let id = Uuid::new_v4();
    call.begin().await?;
    let written = call.core.write_clock.next();
    let (minute, shard) = (minute_of(call.op.now), (id.as_u128() % SHARDS.unsigned_abs() as u128) as i32);
    let swap = Noted { minute, shard, id, written };
    note(call, &swap, &Note::of(entries, None)).await?;
    Ok(swap)
}

/// Forgets a swap whose entries are written.
pub async fn end<L: Subject>(call: &mut Call<L>, swap: Noted) -> Result<(), StoreError> {
    let Noted { minute, shard, id, written } = swap;
    // The server that noted it may have had a faster clock.
    let timestamp = call.core.write_clock.next().max(written.saturating_add(1));
    let values = [timestamp.into(), minute.into(), shard.into(), id.into()];
    call.write(&Query::plain(BagStatement::Forget, values)).await
}

/// Notes of a swap of the call's bag that it was made with all entries in some indexes. There may be
/// others, so the swap stays noted.
pub async fn left(call: &mut Call, swap: Noted, entered_in: Vec<FeatureKey>) -> Result<(), StoreError> {
    let written = call.core.write_clock.next().max(swap.written.saturating_add(1));
    note(call, &Noted { written, ..swap }, &Note::of(&[], Some(entered_in))).await
}

async fn note(call: &mut Call, swap: &Noted, note: &Note) -> Result<(), StoreError> {
    let Noted { minute, shard, id, written } = *swap;
    let (list, note) = (call.list.clone(), note.pack());
    let (feature_key, entity_id) = (list.feature_key.as_str().into(), list.entity_id.as_str().into());
    let note = (&note[..]).into();
    // As a column, and as the write timestamp.
    let (column, timestamp) = (written.into(), written.into());
    let values = [minute.into(), shard.into(), id.into(), feature_key, entity_id, note, column, timestamp];
    call.write(&Query::plain(BagStatement::Note, values)).await
}

/// Continues a scan: of the swaps of the last minute, and of one earlier minute, of which each scan takes
/// another. It ends before the deadline, so that the caller gets the position that was reached.
pub async fn scan(core: &Arc<Core>, op: &OpContext, scan: SwapScan) -> Result<SwapPage, StoreError> {
    let now = minute_of(op.now);
    let time = op.deadline.saturating_duration_since(Instant::now());
    let op = &OpContext { deadline: op.deadline - time / ANSWER_PART, ..*op };
    let SwapScan { mut number, left } = scan;
    let mut left: Vec<Left> = left.iter().filter_map(|part| Left::unpack(part)).collect();
    if left.is_empty() {
        let earlier = now - 2 - (number % MINUTES_KEPT.unsigned_abs()) as i64;
        number += 1;
        // Servers' clocks differ, and a minute has just begun or ends. The latest are first.
        let minutes = [earlier, now - 1, now, now + 1];
        let all = |minute| (0..SHARDS).map(move |shard| Left { minute, shard, after: Uuid::nil() });
        left.extend(minutes.into_iter().flat_map(all));
    }
    let (mut call, mut swaps, mut is_first) = (Call::new(core, op, &()), Vec::new(), true);
    while swaps.len() < PAGE_SWAPS
        && op.begin().is_ok()
        && let Some(part) = left.pop()
    {
        // A scan is many requests, and callers that wait for a permit get one between them.
        call.release();
        match call.begin().await {
            Ok(()) => {}
            Err(error) if is_first => return Err(error),
            // The found swaps are returned, and the next part begins here.
            Err(_) => {
                left.push(part);
                break;
            }
        }
        let Left { minute, shard, .. } = part;
        match read(&mut call, part).await {
            Ok((found, next)) => {
                left.extend(next.map(|after| Left { after, ..part }));
                swaps.extend(found.into_iter().map(|found| UnfinishedSwap { is_recent: minute >= now - 1, ..found }));
            }
            Err(error) => {
                tracing::debug!(%error, minute, shard, "cannot read unfinished bag swaps");
                // A partition that had only the time that others left is the first of the next part. One that cannot
                // be read although it had all the time does not hold up the others.
                if !is_first && op.begin().is_err() {
                    left.push(part);
                }
            }
        }
        is_first = false;
    }
    let left = left.into_iter().map(Left::pack).collect();
    Ok(SwapPage { swaps, scan: SwapScan { number, left } })
}

/// Reads a part of a partition. Returns the last ID of the part, if more rows may follow.
async fn read(
    call: &mut Call<()>,
    Left { minute, shard, after }: Left,
) -> Result<(Vec<UnfinishedSwap>, Option<Uuid>), StoreError> {
    type Columns = (Uuid, Option<String>, Option<String>, Option<Bytes>, Option<i64>);
    let limit = i32::try_from(ROWS_MAX).unwrap_or(i32::MAX);
    let values = [minute.into(), shard.into(), after.into(), limit.into()];
    let query = Query::timed(BagStatement::Noted, values);
    let (mut found, mut rows, mut last, mut pages) = (Vec::new(), 0, None, Pages::new());
    // Among many that were forgotten a page may be short, or empty.
    while rows < ROWS_MAX {
        let page = match pages.next(call, &query, ROWS_MAX).await {
            // The rows that were read are returned, and the next read continues after them.
            Err(_) if last.is_some() => return Ok((found, last)),
            page => page?,
        };
        let Some(page) = page else { break };
        for row in page.rows::<Columns>()? {
            let (id, feature_key, entity_id, packed, written) = row?;
            (rows, last) = (rows + 1, Some(id));
            // Cells of one row expire together; one that is read while they do is as good as gone.
            let (Some(feature_key), Some(entity_id), Some(packed), Some(written)) =
                (feature_key, entity_id, packed, written)
            else {
                continue;
            };
            let Some(bag) = list_of(&feature_key, &entity_id) else { continue };
            let note = Note::unpack(&packed);
            let id = Noted { minute, shard, id, written }.pack();
            let (entries, entered_in) = (note.entries(), note.entered_in());
            found.push(UnfinishedSwap { id, bag, entries, is_recent: true, entered_in });
        }
    }
    Ok((found, last.filter(|_| rows == ROWS_MAX)))
}

fn minute_of(moment: Timestamp) -> i64 {
    moment.as_micros().cast_signed() / MICROS_PER_MINUTE
}

fn list_of(feature_key: &str, entity_id: &str) -> Option<ListKey> {
    Some(ListKey::new(key_of(feature_key)?, EntityId::new(entity_id).ok()?))
}

fn key_of(text: &str) -> Option<FeatureKey> {
    let (id, version, generation) = FeatureKey::parse(text)?;
    Some(FeatureKey::new(&id, &version, generation))
}

impl Note {
    fn of(entries: &[EntryChange], entered_in: Option<Vec<FeatureKey>>) -> Self {
        let text = |(place, value): &(Timestamp, Bytes)| {
            std::str::from_utf8(value).ok().map(|value| (place.as_nanos(), value.to_owned()))
        };
        let removed = entries.iter().filter(|change| !change.removed.is_empty());
        let removed = removed.map(|EntryChange { list, removed, .. }| {
            let (feature_key, entity_id) = (list.feature_key.as_str().to_owned(), list.entity_id.as_str().to_owned());
            Removed(feature_key, entity_id, removed.iter().filter_map(text).collect())
        });
        let removed = removed.collect();
        let entered_in = entered_in.map(|keys| keys.iter().map(|key| key.as_str().to_owned()).collect());
        Self { removed, entered_in }
    }

    fn pack(&self) -> Bytes {
        let packed = serde_json::to_vec(self).unwrap_or_default();
        if packed.len() > NOTE_BYTES_MAX { Bytes::new() } else { packed.into() }
    }

    /// Empty, if it is none.
    fn unpack(packed: &[u8]) -> Self {
        serde_json::from_slice(packed).unwrap_or_default()
    }

    fn entries(&self) -> Vec<EntryChange> {
        let change = |Removed(feature_key, entity_id, removed): &Removed| {
            let list = list_of(feature_key, entity_id)?;
            let at = |(place, value): &(u64, String)| {
                Some((Timestamp::from_nanos(*place).ok()?, Bytes::copy_from_slice(value.as_bytes())))
            };
            Some(EntryChange { list, removed: removed.iter().filter_map(at).collect(), added: Vec::new() })
        };
        self.removed.iter().filter_map(change).collect()
    }

    fn entered_in(&self) -> Option<Vec<FeatureKey>> {
        Some(self.entered_in.as_ref()?.iter().filter_map(|key| key_of(key)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::NewItem;

    #[test]
    fn only_valid_ids_lead_to_a_note() {
        let noted = Noted { minute: -7, shard: 3, id: Uuid::from_u128(9), written: i64::MAX };
        assert_eq!(Noted::unpack(&noted.pack()), Some(noted));
        let bytes = noted.pack().as_bytes().to_vec();
        for other in [&bytes[1..], &[bytes.as_slice(), &[0]].concat(), &[]] {
            assert_eq!(Noted::unpack(&SwapId::new(other.to_vec())), None);
        }
        let left = Left { minute: 5, shard: 0, after: Uuid::nil() };
        assert_eq!(Left::unpack(&left.pack()), Some(left));
    }

    #[test]
    fn removed_entries_are_read_as_noted_within_a_bound() {
        let at = |nanos| Timestamp::from_nanos(nanos).unwrap();
        let list = list_of("user#|by~3", "[\"a\",1]").unwrap();
        let value = Bytes::from_static("é-1".as_bytes());
        let removed = vec![(at(5), value.clone()), (at(6), value.clone())];
        let added = vec![NewItem { timestamp: at(7), value, expires_at: 9 }];
        let change = EntryChange { list, removed, added };
        let comes = EntryChange { removed: Vec::new(), ..change.clone() };
        let keys = vec![key_of("user#|by~3").unwrap(), key_of("user#|a").unwrap()];
        let noted = Note::unpack(&Note::of(&[comes, change.clone()], Some(keys.clone())).pack());
        assert_eq!(noted.entries(), [EntryChange { added: Vec::new(), ..change.clone() }]);
        assert_eq!(noted.entered_in(), Some(keys));
        let much = Note::of(&vec![change; 2_000], None).pack();
        for none in [&much[..], b"", b"[[1]]", b"{}"] {
            let none = Note::unpack(none);
            assert!(none.entries().is_empty() && none.entered_in().is_none());
        }
    }
}
