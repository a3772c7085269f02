//! Bags: one row each, which is swapped by lightweight transactions.
//!
//! Each swap gives the row another *state*, a random number, and is applied if the state is the one that was read. A
//! transaction is not safe to repeat as other writes are. So the row keeps the states that it replaced lately, and an
//! attempt that is not applied checks whether an earlier attempt of the same swap was ([`states`]). Where the row does
//! not show it, the outcome is unknown. A bag that was taken out leaves its state for a while.
//!
//! Entries are items of ordinary lists, and are written after the swap with a write timestamp that the row has: each
//! swap takes a larger one than the swap before. So the entries of later swaps outrank the entries of earlier swaps,
//! regardless of the servers' clocks and of late writes. Adding entries for an unchanged bag needs no swap.

mod states;
pub mod unfinished;

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use uuid::Uuid;

use self::states::Fate;
use super::settled::SETTLED_TENTHS;
use super::{add, deletes};
use crate::domain::{Item, ItemKey, ListKey, NewItem, Timestamp, ValueDigest};
use crate::items::cql::call::Call;
use crate::items::cql::error::damaged_row;
use crate::items::cql::options::SETTLED_AFTER_MIN;
use crate::items::cql::partitions::{BagPut, BagStates};
use crate::items::cql::statements::Query;
use crate::items::cql::statements::bags::BagStatement;
use crate::items::cql::statements::lists::KEYS_MAX;
use crate::items::cql::ttl::row_ttl_secs;
use crate::items::{
    BagAfter, BagEntries, BagRow, BagSwap, EntryChange, JOB_OPERATION_TIME_MAX, OpContext, ReadBag, StoreError, Swapped,
};

/// How long the state of a bag that was taken out is kept, in seconds: much longer than clocks are apart and writes
/// are late.
const GONE_TTL_SECS: i32 = 86_400;
/// For how long a row stays at least, in seconds, so that a swap finds the effect of its earlier attempts.
const ROW_TTL_SECS_MIN: i32 = 120;
/// For how long a swap that found no row is sure that no row of a previous attempt has expired since.
const ABSENCE_KNOWN_FOR: Duration = Duration::from_secs(60);
/// However long an entry that is added without a swap is in progress, sweeps hide none.
const _: () =
    assert!(JOB_OPERATION_TIME_MAX.as_millis() * 10 < SETTLED_AFTER_MIN.as_millis() * (10 - SETTLED_TENTHS as u128));
const MICROS_PER_MILLI: i64 = 1_000;
/// A bag is one row.
const ROWS_MAX: usize = 2;
/// Lists of entries that are written at once.
const LISTS_MAX: usize = 8;

/// The stamp of the bag that a row shows.
fn shown(row: &StoredBag, op: &OpContext) -> Option<Timestamp> {
    let (stamp, expires_at) = row.bag?;
    op.sees(stamp.as_nanos(), expires_at).then_some(stamp)
}

/// The visible bag of a list.
pub async fn bag(call: &mut Call) -> Result<ReadBag, StoreError> {
    let row = read(call).await?;
    let shown = shown(&row, &call.op).zip(row.document.clone());
    let bag = shown.map(|(timestamp, value)| Item { timestamp, value });
    Ok(ReadBag { bag, row: Some(BagRow::new(row)) })
}

/// Swaps a bag, and changes its entries then.
pub async fn swap(mut call: Call, swap: BagSwap) -> Result<Swapped, StoreError> {
    let BagSwap { before, row, after, entries, entered_in } = swap;
    // Only a present bag can be missing from an index.
    let entered_in = entered_in.filter(|_| matches!(after, BagAfter::Put(_)));
    let mut noted = None;
    // The caller repeats a swap that changes entries alone.
    if (!entries.is_empty() || entered_in.is_some()) && after != BagAfter::Same {
        let swap = unfinished::begin(&mut call, &entries).await;
        noted = Some(swap.map_err(StoreError::with_nothing_done)?);
    }
    let what = Swap { before: Some(before), after, has_entries: !entries.is_empty() };
    let known = row.as_ref().and_then(|row| row.get::<StoredBag>().cloned());
    let made = change(&mut call, &what, known).await?;
    if let Some(written) = made {
        change_entries(&mut call, entries, written).await.map_err(StoreError::with_outcome_unknown)?;
    }
    if let Some(swap) = noted {
        let entered_in = entered_in.filter(|_| made.is_some());
        // No caller waits for it. A swap that stays noted is only checked once more.
        tokio::spawn(async move {
            match entered_in {
                Some(indexes) => unfinished::left(&mut call, swap, indexes).await,
                None => unfinished::end(&mut call, swap).await,
            }
        });
    }
    Ok(if made.is_some() { Swapped::Done } else { Swapped::Lost })
}

/// Adds entries for the bag of a call, if it is the one that was read, with the write timestamp that its row has, or a
/// more recent one that no sweep hides. Nothing is swapped for them: a later change of the bag takes a larger
/// timestamp, and so the entries that it takes out stay out.
pub async fn enter(call: &mut Call, entries: BagEntries) -> Result<Swapped, StoreError> {
    let BagEntries { stamp, entries, .. } = entries;
    let row = read(call).await?;
    if shown(&row, &call.op) != Some(stamp) {
        return Ok(Swapped::Lost);
    }
    let core = &call.core;
    let recent = core.write_clock.settled_at(row.at, core.settled_after() * SETTLED_TENTHS / 10);
    let changed = change_entries(call, entries, row.written.max(recent)).await;
    changed.map_err(StoreError::with_outcome_unknown)?;
    Ok(Swapped::Done)
}

/// Removes a bag in any state.
pub async fn clear(call: &mut Call) -> Result<(), StoreError> {
    let what = Swap { before: None, after: BagAfter::Gone, has_entries: false };
    change(call, &what, None).await.map(drop)
}

/// A change of the row of a bag.
struct Swap {
    /// The stamp of the visible bag, or that there is none; `None` if that does not matter.
    before: Option<Option<Timestamp>>,
    after: BagAfter,
    has_entries: bool,
}

/// Changes the row of a bag, if the visible bag is the one that was read, and from the row that the caller read, if it
/// has it. Returns the write timestamp for its entries if it was; not if another bag is there.
async fn change(
    call: &mut Call,
    Swap { before, after, has_entries }: &Swap,
    mut known: Option<StoredBag>,
) -> Result<Option<i64>, StoreError> {
    loop {
        let row = match known.take() {
            Some(known) => known,
            None => read(call).await?,
        };
        let visible = shown(&row, &call.op);
        if before.is_some_and(|before| before != visible) {
            return Ok(None);
        }
        let bag = match after {
            BagAfter::Put(new) => Some(new.clone()),
            BagAfter::Same => row
                .bag
                .zip(row.document.clone())
                .filter(|_| visible.is_some())
                .map(|((timestamp, expires_at), value)| NewItem { timestamp, value, expires_at }),
            BagAfter::Gone => None,
        };
        let written = call.core.write_clock.next().max(row.written.saturating_add(1));
        // If entries are removed, the row keeps the timestamp that the next swap has to outrank, even without a bag.
        if bag.is_none() && row.bag.is_none() && !has_entries {
            return Ok(Some(written));
        }
        if put(call, row, New { state: Uuid::new_v4(), written, bag }).await? {
            return Ok(Some(written));
        }
        call.op.begin()?;
    }
}

/// The row of a bag as it was read.
#[derive(Debug, Clone, Default)]
struct StoredBag {
    /// `None` without a row.
    state: Option<Uuid>,
    /// The states that led to it.
    states: Option<Bytes>,
    /// The write timestamp of the entries that came and went with the state.
    written: i64,
    /// The stamp and the expiry of the bag, visible or not.
    bag: Option<(Timestamp, u64)>,
    document: Option<Bytes>,
    /// When it was read, by the clock of a node, in microseconds; 0 without a row.
    at: i64,
}

/// Reads the row of a bag, and its document.
async fn read(call: &mut Call) -> Result<StoredBag, StoreError> {
    type Columns = (Option<Uuid>, Option<Bytes>, Option<i64>, Option<i64>, Option<i64>, Option<Bytes>, i64);
    let page = call.rows(&Query::of_partition(BagStatement::Read, []), ROWS_MAX).await?;
    let Some((state, states, written, stamp, expires_at, document, at_ms)) = page.first::<Columns>()? else {
        return Ok(StoredBag::default());
    };
    // Cells of one row expire together, but for the states that an older release leaves as they are. A row that is read
    // while they expire is as good as gone.
    let Some(written) = written.filter(|_| state.is_some()) else {
        return Ok(StoredBag { state, states, ..StoredBag::default() });
    };
    call.core.write_clock.observe(written);
    let bag = match (stamp, expires_at, &document) {
        (Some(stamp), Some(expires_at), Some(_)) => {
            let stamp = Timestamp::from_nanos(stamp.cast_unsigned()).map_err(|_| damaged_row())?;
            Some((stamp, expires_at.cast_unsigned()))
        }
        _ => None,
    };
    let at = at_ms.saturating_mul(MICROS_PER_MILLI);
    Ok(StoredBag { state, states, written, bag, document, at })
}

/// The row that a swap puts in the place of another.
#[derive(Debug, Clone)]
struct New {
    state: Uuid,
    written: i64,
    /// None to take the bag out.
    bag: Option<NewItem>,
}

/// Puts another row in the place of one that was read, or of none. Returns whether it was done.
async fn put(call: &mut Call, before: StoredBag, new: New) -> Result<bool, StoreError> {
    let (own, replaced, began) = (new.state, before.state, Instant::now());
    let (answer, is_repeated) = call.swap(put_of(&call.op, &call.list, before, new)).await?;
    let fate = states::fate(own, replaced, answer.state, answer.states.as_deref());
    // In the place of no row another may have expired, and a late attempt may find none again.
    let is_certain = replaced.is_some() || began.elapsed() < ABSENCE_KNOWN_FOR;
    if answer.is_applied || fate == Fate::Made {
        return Ok(true);
    }
    if !is_repeated || (fate == Fate::NotMade && is_certain) {
        return Ok(false);
    }
    let reason = "a retried bag change found more later changes than its row records: its outcome is unknown";
    Err(StoreError::Unavailable { reason: reason.to_owned(), outcome_unknown: true })
}

/// The values of the statement that puts a row, the same for each attempt.
fn put_of(op: &OpContext, list: &ListKey, before: StoredBag, New { state, written, bag }: New) -> BagPut {
    let ttl_secs = match &bag {
        Some(bag) => row_ttl_secs(bag.expires_at, op.now).unwrap_or(0).max(ROW_TTL_SECS_MIN),
        None => GONE_TTL_SECS,
    };
    let states = states::after(state, before.state, before.states.as_deref());
    let before = BagStates { state: before.state, states: before.states };
    BagPut { list: list.clone(), ttl_secs, state, states, written, bag, before }
}

/// Changes lists of entries, a few at once.
async fn change_entries(call: &mut Call, entries: Vec<EntryChange>, written: i64) -> Result<(), StoreError> {
    let each = |mut call: Call, EntryChange { list, removed, added }: EntryChange| async move {
        call.turn_to(list);
        let key = |(at, value): &(Timestamp, Bytes)| ItemKey::new(*at, ValueDigest::of(value)).to_string();
        let removed: Vec<_> = removed.iter().map(key).collect();
        let deletes = removed.chunks(KEYS_MAX).map(|keys| (written, keys.to_vec())).collect();
        deletes::delete(&mut call, deletes).await?;
        add::put(&mut call, &added, written).await?;
        Ok(((), call))
    };
    call.in_lanes(entries, LISTS_MAX, each).await.map(drop)
}
