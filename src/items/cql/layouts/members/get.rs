//! Get List Items of a set.

use std::collections::{BTreeMap, HashMap};

use super::entry::Held;
use super::read::Slice;
use super::walk::{Standing, Walk};
use crate::domain::{ItemKey, Order};
use crate::items::cql::call::Call;
use crate::items::cql::layouts::keys::bounds;
use crate::items::cql::pressure::coalesce::FetchedPage;
use crate::items::{ItemPage, Range, StoreError};

/// Rows that are read first; how large an item is, is not known then.
const FIRST_ROWS: usize = 128;
/// Later as many as fit in this, by those seen.
const STEP_BYTES: usize = 1 << 20;
const STEP_ROWS_MAX: usize = 1_000;

pub async fn get(call: &mut Call, range: &Range, last_shown: Option<ItemKey>) -> Result<FetchedPage, StoreError> {
    let mut page = Page { range, items: BTreeMap::new(), places: HashMap::new(), bytes: 0 };
    let after = range.after.map(|key| (key, range.order));
    let Some((lower, upper)) = bounds(&call.op, &range.bounds(), after, last_shown) else {
        return Ok(page.into_answer());
    };
    let mut walk = Walk::new(Slice { order: range.order, lower, upper });
    let mut rows_max = FIRST_ROWS;
    while !page.is_full() {
        // One more than asked for tells whether more follows.
        let rows = rows_max.min(range.limit.saturating_add(1) - page.items.len());
        let Some(standing) = walk.next(call, rows).await? else { break };
        standing.into_iter().for_each(|standing| page.push(standing));
        if let Some(bytes) = page.bytes.checked_div(page.items.len()) {
            rows_max = (STEP_BYTES / bytes.max(1)).clamp(1, STEP_ROWS_MAX);
        }
    }
    Ok(page.into_answer())
}

/// A page that is being filled.
struct Page<'a> {
    range: &'a Range,
    items: BTreeMap<ItemKey, Held>,
    /// Where each member is on it.
    places: HashMap<String, ItemKey>,
    bytes: usize,
}

impl Page<'_> {
    /// Takes an item. A member that is on the page already has moved meanwhile.
    fn push(&mut self, Standing { member, held, .. }: Standing) {
        if let Some(before) = self.places.insert(member, held.key)
            && let Some(before) = self.items.remove(&before)
        {
            self.bytes -= before.stored.len();
        }
        self.bytes += held.stored.len();
        self.items.insert(held.key, held);
    }

    fn is_full(&self) -> bool {
        self.items.len() > self.range.limit || (self.items.len() > 1 && self.bytes > self.range.value_bytes_max)
    }

    fn into_answer(self) -> FetchedPage {
        let Self { range, items, .. } = self;
        let held: Vec<_> = match range.order {
            Order::Newest => items.into_values().rev().collect(),
            Order::Oldest => items.into_values().collect(),
        };
        let mut bytes = 0;
        let fits = |held: &&Held| {
            bytes += held.stored.len();
            bytes <= range.value_bytes_max
        };
        let fitting = held.iter().take_while(fits).count();
        let shown = fitting.max(1).min(range.limit).min(held.len());
        let next = held.get(shown).map(|next| next.key.timestamp);
        let expiries = held.iter().take(shown + 1).map(|held| held.expires_at).collect();
        let items = held[..shown].iter().map(Held::item).collect();
        FetchedPage { page: ItemPage { items, more: next.is_some() }, next, expiries }
    }
}
