//! Bags: one row each, which is swapped by lightweight transactions.
//!
//! Each swap gives the row another *state*, a number that nobody else draws, and is made if the state is the one that
//! was read. So an attempt that was repeated finds its own state there, and knows that it was made. A bag that was
//! taken out leaves its state for a while.
//!
//! Entries are items of ordinary lists, and are written after the swap with a write timestamp that the row has: each
//! swap takes a larger one than the swap before. So the entries of later swaps outrank those of earlier ones, whatever
//! the servers' clocks, and however late a write arrives. Who adds entries for a bag that stays as it is needs no swap.

use std::sync::Arc;

use bytes::Bytes;
use scylla::errors::{BadQuery, ExecutionError};
use scylla::policies::load_balancing::LoadBalancingPolicy;
use scylla::response::PagingState;
use scylla::response::query_result::QueryResult;
use scylla::value::{CqlValue, Row};
use uuid::Uuid;

use super::core::Core;
use super::error::damaged_row;
use super::keys;
use super::lanes::in_lanes;
use super::permits::Permit;
use super::statements::{KEYS_MAX, Statement};
use super::ttl::row_ttl_secs;
use super::{add, deletes, unfinished};
use crate::domain::{Item, ItemKey, ListKey, Timestamp, ValueDigest};
use crate::items::{BagAfter, BagEntries, BagSwap, EntryChange, Operation, StoreError, Swapped};

/// How long the state of a bag that was taken out is kept, in seconds: much longer than clocks are apart and writes
/// are late.
const GONE_TTL_SECS: i32 = 86_400;
/// Lists of entries that are written at once.
const LISTS_MAX: usize = 8;

/// The row of a bag, as it was read.
#[derive(Debug, Clone)]
struct Present {
    state: Uuid,
    /// The write timestamp of the entries that came and went with it.
    written: i64,
    /// None once it was taken out.
    document: Option<Document>,
}

#[derive(Debug, Clone)]
struct Document {
    stamp: Timestamp,
    expires_at: u64,
    bytes: Bytes,
}

impl Present {
    fn visible(&self, op: &Operation) -> Option<&Document> {
        let is_visible = |document: &&Document| {
            document.stamp >= op.ttl.visible_from(op.now) && op.now.as_nanos() < document.expires_at
        };
        self.document.as_ref().filter(is_visible)
    }
}

/// The visible bag of a list.
pub async fn bag(core: &Arc<Core>, op: &Operation, list: &ListKey) -> Result<Option<Item>, StoreError> {
    let permit = core.permit(op.deadline).await?;
    let (present, _permit) = read(core, op, list, permit).await?;
    let visible = present.as_ref().and_then(|present| present.visible(op));
    Ok(visible.map(|document| Item { timestamp: document.stamp, value: document.bytes.clone() }))
}

/// Swaps a bag, and changes its entries then.
pub async fn swap(core: &Arc<Core>, op: &Operation, list: &ListKey, swap: BagSwap) -> Result<Swapped, StoreError> {
    let BagSwap { before, after, entries, entered_in } = swap;
    // Nobody finds what is not there.
    let entered_in = entered_in.filter(|_| matches!(after, BagAfter::Put(_)));
    let mut permit = core.permit(op.deadline).await?;
    let mut noted = None;
    // What changes entries alone is done again by whoever asks for it.
    if (!entries.is_empty() || entered_in.is_some()) && after != BagAfter::Same {
        let swap;
        (swap, permit) =
            unfinished::begin(core, op, list, &entries, permit).await.map_err(StoreError::with_nothing_done)?;
        noted = Some(swap);
    }
    let what = Swap { before: Some(before), after, has_entries: !entries.is_empty() };
    let made;
    (made, permit) = change(core, op, list, &what, permit).await?;
    if let Some(written) = made {
        let changed = change_entries(core, op, entries, written, permit).await;
        permit = changed.map_err(StoreError::with_outcome_unknown)?;
    }
    if let Some(swap) = noted {
        let (core, op, list) = (Arc::clone(core), *op, list.clone());
        let entered_in = entered_in.filter(|_| made.is_some());
        // Nobody waits for it: a swap that stays noted is looked at again, and that is all.
        tokio::spawn(async move {
            match entered_in {
                Some(indexes) => unfinished::left(&core, &op, swap, &list, indexes, permit).await,
                None => unfinished::end(&core, &op, swap, permit).await,
            }
        });
    }
    Ok(if made.is_some() { Swapped::Done } else { Swapped::Lost })
}

/// Adds entries for a bag, if it is the one that was read, with the write timestamp that its row has. Nothing is
/// swapped for them: whoever changes the bag meanwhile takes a larger timestamp, and so what that takes out stays out.
pub async fn enter(core: &Arc<Core>, op: &Operation, entries: BagEntries) -> Result<Swapped, StoreError> {
    let BagEntries { bag, stamp, entries } = entries;
    let permit = core.permit(op.deadline).await?;
    let (present, permit) = read(core, op, &bag, permit).await?;
    let stands = |present: &Present| present.visible(op).is_some_and(|document| document.stamp == stamp);
    let Some(present) = present.filter(stands) else { return Ok(Swapped::Lost) };
    let changed = change_entries(core, op, entries, present.written, permit).await;
    changed.map_err(StoreError::with_outcome_unknown)?;
    Ok(Swapped::Done)
}

/// Takes a bag out, whatever it is.
pub async fn clear(core: &Arc<Core>, op: &Operation, list: &ListKey) -> Result<(), StoreError> {
    let permit = core.permit(op.deadline).await?;
    change(core, op, list, &Swap { before: None, after: BagAfter::Gone, has_entries: false }, permit).await.map(drop)
}

/// A change of the row of a bag.
struct Swap {
    /// The stamp of the visible bag, or that there is none; `None` if that does not matter.
    before: Option<Option<Timestamp>>,
    after: BagAfter,
    has_entries: bool,
}

/// Changes the row of a bag, if the visible bag is the one that was read. Returns the write timestamp for its entries
/// if it was; not if another bag is there.
async fn change(
    core: &Arc<Core>,
    op: &Operation,
    list: &ListKey,
    Swap { before, after, has_entries }: &Swap,
    mut permit: Permit,
) -> Result<(Option<i64>, Permit), StoreError> {
    loop {
        let present;
        (present, permit) = read(core, op, list, permit).await?;
        let visible = present.as_ref().and_then(|present| present.visible(op));
        if before.is_some_and(|before| before != visible.map(|document| document.stamp)) {
            return Ok((None, permit));
        }
        let document = match after {
            BagAfter::Put(new) => {
                let (stamp, expires_at) = (new.timestamp, new.expires_at);
                Some(Document { stamp, expires_at, bytes: new.value.clone() })
            }
            BagAfter::Same => visible.cloned(),
            BagAfter::Gone => None,
        };
        let outranked = present.as_ref().map_or(0, |present| present.written.saturating_add(1));
        let new = Present { state: Uuid::new_v4(), written: core.write_clock.next().max(outranked), document };
        let is_empty = |present: &Option<Present>| present.as_ref().is_none_or(|present| present.document.is_none());
        // Where entries go, the row tells the next swap what it has to outrank, though there is no bag.
        if new.document.is_none() && is_empty(&present) && !has_entries {
            return Ok((Some(new.written), permit));
        }
        let written = new.written;
        let made;
        (made, permit) = put(core, op, list, (present.map(|present| present.state), new), permit).await?;
        if made {
            return Ok((Some(written), permit));
        }
        op.begin()?;
    }
}

async fn read(
    core: &Arc<Core>,
    op: &Operation,
    list: &ListKey,
    permit: Permit,
) -> Result<(Option<Present>, Permit), StoreError> {
    let (feature_key, entity_id) = (list.feature_key.as_str(), list.entity_id.as_str());
    let ((result, _), permit) = core
        .attempts
        .run(core.request(Statement::Get, op), permit, |route| {
            let mut read = core.for_bags.read.clone();
            read.set_load_balancing_policy(Some(route));
            let bound = match core.prepared.within(op.deadline) {
                None => read.bind(&(feature_key, entity_id)),
                Some(timeout) => read.bind(&(feature_key, entity_id, timeout)),
            };
            keys::read(Arc::clone(core), bound, PagingState::start())
        })
        .await?;
    type Columns = (Option<Uuid>, Option<i64>, Option<i64>, Option<i64>, Option<Bytes>);
    let result = result.into_rows_result().map_err(|_| damaged_row())?;
    let row = result.maybe_first_row::<Columns>().map_err(|_| damaged_row())?;
    // Cells of one row expire together; one that is read while they do is as good as gone.
    let Some((Some(state), Some(written), stamp, expires_at, document)) = row else { return Ok((None, permit)) };
    core.write_clock.observe(written);
    let document = match (stamp, expires_at, document) {
        (Some(stamp), Some(expires_at), Some(bytes)) => {
            let stamp = Timestamp::from_nanos(stamp.cast_unsigned()).map_err(|_| damaged_row())?;
            Some(Document { stamp, expires_at: expires_at.cast_unsigned(), bytes })
        }
        _ => None,
    };
    Ok((Some(Present { state, written, document }), permit))
}

/// Puts a row in the place of that with a state, or of none. Returns whether it was done.
async fn put(
    core: &Arc<Core>,
    op: &Operation,
    list: &ListKey,
    (before, new): (Option<Uuid>, Present),
    permit: Permit,
) -> Result<(bool, Permit), StoreError> {
    let ttl_secs = match &new.document {
        // It has expired meanwhile: it is out.
        Some(document) => row_ttl_secs(document.expires_at, op.now).unwrap_or(1),
        None => GONE_TTL_SECS,
    };
    let state = new.state;
    let all = Arc::new((list.clone(), before, new, ttl_secs));
    let (result, permit) = core
        .attempts
        .run(core.request(Statement::Swap, op), permit, |route| send(Arc::clone(core), Arc::clone(&all), route))
        .await?;
    let result = result.into_rows_result().map_err(|_| unknown(damaged_row()))?;
    let row = result.first_row::<Row>().map_err(|_| unknown(damaged_row()))?;
    // First whether it was made; if not, the state that is there, which can be that of an attempt before.
    let made = matches!(row.columns.first(), Some(Some(CqlValue::Boolean(true))));
    let ours = row.columns.iter().flatten().any(|found| *found == CqlValue::Uuid(state));
    Ok((made || ours, permit))
}

fn unknown(error: StoreError) -> StoreError {
    error.with_outcome_unknown()
}

async fn send(
    core: Arc<Core>,
    all: Arc<(ListKey, Option<Uuid>, Present, i32)>,
    route: Arc<dyn LoadBalancingPolicy>,
) -> Result<QueryResult, ExecutionError> {
    let (list, before, new, ttl_secs) = &*all;
    let mut put = core.for_bags.put.clone();
    put.set_load_balancing_policy(Some(route));
    let document = new.document.as_ref();
    let stamp = document.map(|document| document.stamp.as_nanos().cast_signed());
    let expires_at = document.map(|document| document.expires_at.cast_signed());
    let bytes = document.map(|document| &document.bytes[..]);
    let (feature_key, entity_id) = (list.feature_key.as_str(), list.entity_id.as_str());
    let values = (ttl_secs, new.state, new.written, stamp, expires_at, bytes, feature_key, entity_id, before);
    let bound = put.bind(&values).map_err(BadQuery::from)?;
    core.driver.execute_bound_unpaged(&bound).await
}

/// Changes lists of entries, a few at once.
async fn change_entries(
    core: &Arc<Core>,
    op: &Operation,
    entries: Vec<EntryChange>,
    written: i64,
    permit: Permit,
) -> Result<Permit, StoreError> {
    let each = |EntryChange { list, removed, added }: EntryChange, permit| async move {
        let key = |(at, value): &(Timestamp, Bytes)| ItemKey::new(*at, ValueDigest::of(value)).to_string();
        let removed: Vec<_> = removed.iter().map(key).collect();
        let deletes = removed.chunks(KEYS_MAX).map(|keys| (written, keys.to_vec())).collect();
        let permit = deletes::delete(core, op, &list, deletes, permit).await?;
        Ok(((), add::put(core, op, &list, &added, written, permit).await?))
    };
    in_lanes(core, permit, entries, LISTS_MAX, each).await.map(|(_, permit)| permit)
}
