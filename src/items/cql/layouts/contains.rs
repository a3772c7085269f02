//! Finds the newest item of each of some values: by reading the list, newest first, and by the index of
//! values for what reading has not met.
//!
//! Finding the length of a list costs as much as reading it. So the list is read page by page, until reading has cost
//! as much as a search for the missing values. Then they are searched for. At any list length, this costs at most about
//! twice the cheaper way.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use super::buckets;
use super::keys::rows_of_value;
use super::layout::{last_shown, page};
use crate::domain::{Item, ItemKey, ListKey, Order, Timestamp, ValueDigest};
use crate::items::cql::call::{Call, Pages};
use crate::items::cql::statements::Query;
use crate::items::cql::statements::lists::ListStatement;
use crate::items::{Bounds, OpContext, Range, StoreError};

/// Rows of the first page, and of any.
const FIRST_ROWS: usize = 500;
const ROWS_MAX: usize = 5_000;
/// A page has no more bytes of values than this.
const PAGE_BYTES: usize = 1 << 20;
/// The cost of a search by the index, which is a separate request, in rows of a slice.
const ROWS_OF_LOOKUP: usize = 100;
/// Bytes of a value that cost as much to read as a row does.
const BYTES_OF_ROW: usize = 128;
/// Searches by the index in progress at once.
const LOOKUPS_MAX: usize = 8;

pub async fn contains(
    call: &mut Call,
    within: &Bounds,
    values: &[Bytes],
) -> Result<Vec<Option<Timestamp>>, StoreError> {
    let last_shown = last_shown(call).await?;
    let visible = Visible { op: call.op, within: *within, last_shown };
    let mut sought = Sought::new(values);
    let mut range = Range {
        min_timestamp: within.min_timestamp,
        max_timestamp: within.max_timestamp,
        after: None,
        limit: FIRST_ROWS,
        value_bytes_max: PAGE_BYTES,
        order: Order::Newest,
    };
    let (mut cost, mut use_index) = (0, true);
    loop {
        // Callers that wait for a permit get one between the pages.
        call.release();
        let page = page(call, &range, last_shown).await?.page;
        cost += page.items.iter().map(cost_of).sum::<usize>();
        page.items.iter().for_each(|item| sought.note(&item.value, item.timestamp));
        let Some(last) = page.items.last().filter(|_| page.more && !sought.missing.is_empty()) else { break };
        if use_index && cost >= sought.missing.len() * ROWS_OF_LOOKUP {
            // Missing values have no newer items than those read.
            let rest = Bounds { max_timestamp: last.timestamp, ..*within };
            let partitions = buckets::partitions(call, &rest).await?;
            if cost < sought.missing.len() * partitions.len() * ROWS_OF_LOOKUP {
                (range.after, range.limit) = (Some(last.key()), (2 * range.limit).min(ROWS_MAX));
                continue;
            }
            match look_up(call, &partitions, visible, &mut sought).await {
                Ok(()) => break,
                // The index is missing or not built, or has too many tombstones: reading on needs none.
                Err(StoreError::Unavailable { .. } | StoreError::TooManyTombstones { .. }) => use_index = false,
                Err(other) => return Err(other),
            }
        }
        (range.after, range.limit) = (Some(last.key()), (2 * range.limit).min(ROWS_MAX));
    }
    Ok(values.iter().map(|value| sought.newest.get(value).copied()).collect())
}

fn cost_of(item: &Item) -> usize {
    1 + item.value.len() / BYTES_OF_ROW
}

/// The items that a search may return.
#[derive(Clone, Copy)]
struct Visible {
    op: OpContext,
    within: Bounds,
    /// The last item that the list shows, if it has more.
    last_shown: Option<ItemKey>,
}

impl Visible {
    fn has(self, key: &ItemKey) -> bool {
        self.within.contain(key.timestamp)
            && key.timestamp >= self.op.ttl.visible_from(self.op.now)
            && self.last_shown.is_none_or(|last| *key >= last)
    }
}

/// Values, and the newest item found of each.
struct Sought {
    missing: HashSet<Bytes>,
    newest: HashMap<Bytes, Timestamp>,
}

impl Sought {
    fn new(values: &[Bytes]) -> Self {
        Self { missing: values.iter().cloned().collect(), newest: HashMap::new() }
    }

    /// Notes an item, newest first.
    fn note(&mut self, value: &Bytes, timestamp: Timestamp) {
        if let Some(value) = self.missing.take(value) {
            self.newest.insert(value, timestamp);
        }
    }
}

/// Searches for all missing values, a few at a time, limited by permits.
async fn look_up(
    call: &mut Call,
    partitions: &[ListKey],
    visible: Visible,
    sought: &mut Sought,
) -> Result<(), StoreError> {
    call.release();
    call.core.prepare_search(call.op.deadline).await?;
    let missing: Vec<_> = sought.missing.iter().cloned().collect();
    let each = |mut call: Call, value: Bytes| async move {
        let mut newest = None;
        // Of buckets, the newest that has the value has its newest item.
        for list in partitions {
            call.turn_to(list.clone());
            newest = newest_of(&mut call, visible, &value).await?;
            if newest.is_some() {
                break;
            }
        }
        Ok((newest.map(|newest| (value, newest)), call))
    };
    let found = call.in_lanes(missing, LOOKUPS_MAX, each).await?;
    sought.newest.extend(found.into_iter().flatten());
    Ok(())
}

/// The newest visible item of a value, by the index, in whose order nothing is relied on.
async fn newest_of(call: &mut Call, visible: Visible, value: &Bytes) -> Result<Option<Timestamp>, StoreError> {
    let digest = ValueDigest::of(value);
    let query = Query::of_partition(ListStatement::Find, [(&value[..]).into()]);
    let (mut pages, mut newest) = (Pages::new(), None);
    while let Some(page) = pages.next(call, &query, rows_of_value(value)).await? {
        for row in page.rows::<(&str, i64)>()? {
            let (text, _) = row?;
            // The index may lag behind its rows. Only the key proves which value it has.
            let key = ItemKey::parse(text).ok().filter(|key| key.digest == digest);
            newest = newest.max(key.filter(|key| visible.has(key)).map(|key| key.timestamp));
        }
    }
    Ok(newest)
}
