//! Aggregates over windows of time, in one pass over a list, newest first. Every store offers its items to an
//! [`Aggregator`], which knows no store.
//!
//! Windows that end at one moment share their work. Each item is taken once, and the results of a window are rendered
//! at the first item before its beginning. So four windows cost as much as the longest one.
//!
//! An item costs no allocation. Its properties are found in one walk through its JSON, up to the last of them, and each
//! is read once for all aggregates of it. Values that are counted apart get numbers from a hash table, and all else
//! about them is in vectors by these numbers. Windows that begin after an item, and memory beyond its bound, are each
//! found by one comparison.
//!
//! | file | content |
//! | --- | --- |
//! | `plan` | the requested aggregates, checked against the type of the values |
//! | `mod` | windows, bounds, and why a window is not complete |
//! | `tally` | groups, and the results of a window |
//! | `state` | the state of each aggregate |
//! | `times` | how often each value comes |
//! | `ranks` | the shown groups, and the most frequent values |
//! | `room` | the memory and time of results |
//! | `number` | arithmetic |
//! | `digits` | integers of JSON |
//! | `values` | distinct values, their order, and their JSON |
//! | `find` | properties of stored JSON |
//! | `words` | short bytes, a word at a time |
//! | `memory` | how much is taken |
//! | `pages` | a session that has its items in pages |

mod digits;
mod find;
mod memory;
mod number;
mod pages;
mod plan;
mod ranks;
mod room;
mod state;
mod tally;
mod times;
mod values;
mod words;

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::sync::Arc;

use liststore_contract::domain::{Identity, MaxItems, Timestamp};
use liststore_contract::wire::{AggregateWindow, Aggregated, WindowAggregates, WindowBounds};
use tokio::time::Instant;

use super::collect::{Collect, Next, Offered};
use super::{Bounds, OpContext};
use find::Span;
use memory::Memory;
use state::Field;
use tally::{Rendered, Tally};
use values::{Hasher, Values};

pub use pages::aggregate_pages;
pub use plan::Aggregation;

/// What an aggregation has read, and its result.
#[derive(Debug, Clone)]
pub struct AggregateOutcome {
    /// The visible items that were looked at.
    pub items_read: u64,
    pub result: Result<Aggregated, AggregateFailure>,
}

/// Why there is no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AggregateFailure {
    /// The result of this aggregate does not fit its type in one of the windows.
    OutOfRange { aggregate: usize },
    /// It would take more memory than it may.
    TooLarge,
    /// A stored value is not of the feature's type.
    Damaged,
    /// The deadline passed before all windows had their results.
    Late,
}

/// Why a window does not have all its items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    Ttl,
    MaxItems,
    ItemsMax,
}

impl Reason {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ttl => "ttl",
            Self::MaxItems => "max_items",
            Self::ItemsMax => "items_max",
        }
    }
}

/// A window, and its results once all its items were met.
struct Window {
    /// Nanoseconds since the Unix epoch, both inclusive.
    min: u64,
    max: u64,
    reason: Option<Reason>,
    rendered: Option<Result<Rendered, AggregateFailure>>,
}

/// Windows that end at one moment.
struct Chain {
    max: u64,
    /// Their places, the one that begins last first.
    windows: Vec<usize>,
    /// How many of them have their results.
    closed: usize,
    tally: Tally,
}

/// Aggregates the items of a list that it is offered, newest first.
pub struct Aggregator {
    plan: Arc<Aggregation>,
    identity: Identity,
    now: u64,
    deadline: Instant,
    as_of: Timestamp,
    /// The oldest timestamp that is visible.
    visible_from: u64,
    max_items: Option<u64>,
    /// The oldest wanted timestamp: where the first window begins, and not before what is visible.
    floor: u64,
    /// The end of the last window, or any time if items are counted from the newest on.
    ceiling: u64,
    windows: Vec<Window>,
    /// Those with windows that lack their results, the one that ends last first.
    chains: Vec<Chain>,
    /// How many of them may have the next item. Items come newest first, so only closed chains make it smaller.
    begun: usize,
    /// The latest beginning of a window without results: an item before it closes that window. If there is none, any
    /// item is before it.
    next_begin: u64,
    /// Of each source, its distinct values, if they are needed.
    values: Vec<Values>,
    /// Of each source, where it is in the present item.
    found: Vec<Span>,
    memory: Memory,
    items_read: u64,
    failure: Option<AggregateFailure>,
}

impl Aggregator {
    /// For items of a list with this identity that the operation sees.
    pub fn new(plan: &Arc<Aggregation>, op: &OpContext, identity: Identity) -> Self {
        let as_of = plan.as_of.unwrap_or(op.now);
        let bounds = plan.windows.iter().map(|window| bounds_of(window, as_of, plan.as_of));
        let windows: Vec<_> = bounds.map(|(min, max)| Window { min, max, reason: None, rendered: None }).collect();
        let mut memory = Memory::new(plan.bytes_max);
        let mut chains = Vec::<Chain>::new();
        let has_one = windows.iter().all(|window| window.max == windows[0].max);
        for (place, window) in windows.iter().enumerate() {
            match chains.iter_mut().find(|chain| chain.max == window.max) {
                Some(chain) => chain.windows.push(place),
                None => {
                    let tally = Tally::new(plan, has_one, &mut memory);
                    chains.push(Chain { max: window.max, windows: vec![place], closed: 0, tally });
                }
            }
        }
        for chain in &mut chains {
            chain.windows.sort_by_key(|place| Reverse(windows[*place].min));
        }
        chains.sort_by_key(|chain| Reverse(chain.max));
        let newest = chains.first().map_or(0, |chain| chain.max);
        let visible_from = op.ttl.visible_from(op.now).as_nanos();
        let hasher = Hasher::random();
        let mut aggregator = Self {
            identity,
            now: op.now.as_nanos(),
            deadline: op.deadline,
            as_of,
            visible_from,
            max_items: op.max_items.map(MaxItems::as_u64),
            floor: windows.iter().map(|window| window.min).min().unwrap_or(0).max(visible_from),
            ceiling: if op.max_items.is_some() { Timestamp::MAX.as_nanos() } else { newest },
            windows,
            chains,
            begun: 0,
            next_begin: u64::MAX,
            values: plan.sources.iter().map(|_| Values::new(hasher)).collect(),
            found: vec![Span::NONE; plan.sources.len()],
            memory,
            items_read: 0,
            failure: None,
            plan: Arc::clone(plan),
        };
        aggregator.next_begin = aggregator.latest_begin();
        aggregator
    }

    /// The moments between which it wants to be offered all visible items, newest first. From a list that does not show
    /// all its items it wants them from the newest on: so it knows where they end.
    pub fn bounds(&self) -> Bounds {
        let timestamp = |nanos: u64| Timestamp::saturating_from_nanos(u128::from(nanos));
        Bounds { min_timestamp: timestamp(self.floor), max_timestamp: timestamp(self.ceiling) }
    }

    /// Whether it looks at the values of items, or only at their timestamps.
    pub fn needs_values(&self) -> bool {
        self.plan.needs_values()
    }

    /// To how many aggregates an item is added at most.
    pub fn adds_per_item(&self) -> usize {
        self.chains.len() * self.plan.aggregates.len()
    }

    /// The most items that it takes before it is done.
    pub fn items_wanted(&self) -> usize {
        // One more than it may read shows whether there are more.
        let wanted = self.plan.items_max.saturating_add(1).min(self.max_items.unwrap_or(u64::MAX));
        usize::try_from(wanted).unwrap_or(usize::MAX)
    }

    /// Takes the next visible item by its timestamp, in nanoseconds, and its stored bytes. These may be empty if it
    /// needs no values.
    #[inline]
    fn visit(&mut self, timestamp: u64, stored: &[u8]) -> Next {
        if timestamp < self.next_begin {
            self.close(Some(timestamp));
            if self.failure.is_some() || self.chains.is_empty() {
                return Next::Done;
            }
        }
        if self.items_read >= self.plan.items_max {
            self.give_up(Reason::ItemsMax);
            return Next::Done;
        }
        self.items_read += 1;
        if let Err(failure) = self.take(timestamp, stored) {
            self.failure = Some(failure);
            return Next::Done;
        }
        if self.max_items == Some(self.items_read) {
            self.give_up(Reason::MaxItems);
            return Next::Done;
        }
        Next::Wanted
    }

    fn latest_begin(&self) -> u64 {
        let open = self.chains.iter().filter_map(|chain| chain.windows.get(chain.closed));
        open.map(|place| self.windows[*place].min).max().unwrap_or(u64::MAX)
    }

    /// Gives windows their results that begin after the next item; all of them if there is none.
    #[cold]
    fn close(&mut self, next: Option<u64>) {
        if self.failure.is_some() {
            return;
        }
        for chain in &mut self.chains {
            while let Some(place) = chain.windows.get(chain.closed) {
                let window = &mut self.windows[*place];
                if next.is_some_and(|next| next >= window.min) {
                    break;
                }
                match chain.tally.render(&self.plan, &self.values, self.memory.left(), self.deadline) {
                    Err(failure @ (AggregateFailure::TooLarge | AggregateFailure::Late)) => {
                        self.failure = Some(failure);
                        return;
                    }
                    rendered => {
                        let bytes = rendered.as_ref().map_or(0, |rendered| rendered.bytes);
                        self.memory.grow(0, bytes);
                        window.rendered = Some(rendered);
                    }
                }
                chain.closed += 1;
            }
        }
        let is_open = |chain: &Chain| chain.closed < chain.windows.len();
        let begun = self.chains[..self.begun].iter().filter(|chain| is_open(chain)).count();
        self.chains.retain(is_open);
        (self.begun, self.next_begin) = (begun, self.latest_begin());
    }

    /// Notes why the windows that are not closed yet do not have all their items.
    fn give_up(&mut self, reason: Reason) {
        for chain in &self.chains {
            for place in &chain.windows[chain.closed..] {
                self.windows[*place].reason = Some(reason);
            }
        }
    }

    fn take(&mut self, timestamp: u64, stored: &[u8]) -> Result<(), AggregateFailure> {
        while self.chains.get(self.begun).is_some_and(|chain| timestamp <= chain.max) {
            self.begun += 1;
        }
        let Self { plan, identity, chains, begun, values, found, memory, items_read, .. } = self;
        let (plan, chains) = (&**plan, &mut chains[..*begun]);
        if chains.is_empty() {
            return Ok(());
        }
        let value = identity.value(stored);
        if let Some(ways) = &plan.ways {
            ways.find(value, found).map_err(|_| AggregateFailure::Damaged)?;
        }
        let bytes_of = |source: usize| match plan.sources[source].property {
            Some(_) => found[source].of(value),
            None => Some(value),
        };
        if let Some(filter) = &plan.filter
            && !bytes_of(filter.source).is_some_and(|value| filter.has(value))
        {
            return Ok(());
        }
        if let Some(by) = plan.group_by {
            let group = bytes_of(by.source).map(|value| values[by.source].number_of(value, memory));
            for Chain { tally, .. } in &mut *chains {
                match group {
                    Some(group) => tally.enter_group(plan, group, memory),
                    None => tally.skip(),
                }
            }
            if group.is_none() {
                return Ok(());
            }
        }
        chains.iter_mut().for_each(|chain| chain.tally.count());
        let mut is_skipped = false;
        for (place, source) in plan.sources.iter().enumerate().filter(|(_, source)| !source.states.is_empty()) {
            let Some(bytes) = bytes_of(place) else {
                is_skipped = true;
                continue;
            };
            let number = if source.needs_number { plan.form.number(bytes) } else { None };
            is_skipped |= source.needs_number && number.is_none();
            let known = values[place].count();
            let identity = if source.needs_identity { values[place].number_of(bytes, memory) } else { 0 };
            let field = Field { bytes, number, identity, is_first: known < values[place].count() };
            for Chain { tally, .. } in &mut *chains {
                tally.add(plan, place, &field, *items_read, memory);
            }
        }
        if is_skipped {
            chains.iter_mut().for_each(|chain| chain.tally.skip());
        }
        if memory.is_exceeded() { Err(AggregateFailure::TooLarge) } else { Ok(()) }
    }

    fn windows(&mut self) -> Result<Vec<WindowAggregates>, AggregateFailure> {
        let mut windows = Vec::with_capacity(self.windows.len());
        for (asked, Window { min, max, reason, rendered }) in self.plan.windows.iter().zip(&mut self.windows) {
            let Some(rendered) = rendered.take() else { continue };
            let Rendered { results, groups, skipped, .. } = rendered?;
            let reason = if *min < self.visible_from { Some(Reason::Ttl) } else { *reason };
            let (length, max) = match asked {
                AggregateWindow::Last(length) => (Some(length.as_str().to_owned()), *max),
                // One that begins after `as_of` is shown as it was asked for.
                AggregateWindow::Between(bounds) if max < min => (None, bounds.max_timestamp.as_nanos()),
                AggregateWindow::Between(_) => (None, *max),
            };
            let text = |nanos: u64| Timestamp::saturating_from_nanos(u128::from(nanos)).to_string();
            windows.push(WindowAggregates {
                window: length,
                min_timestamp: text(*min),
                max_timestamp: text(max),
                complete: reason.is_none(),
                reason: reason.map(|reason| reason.as_str().to_owned()),
                results,
                groups,
                skipped,
            });
        }
        Ok(windows)
    }
}

impl Collect for Aggregator {
    type Found = AggregateOutcome;

    #[inline]
    fn offer(&mut self, item: &impl Offered) -> Next {
        let timestamp = item.timestamp();
        if timestamp < self.floor {
            return Next::Done;
        }
        // Nothing from the floor on is too old to be visible.
        if timestamp > self.ceiling || item.is_deleted() || self.now >= item.expires_at() {
            return Next::Wanted;
        }
        self.visit(timestamp, item.value())
    }

    /// The aggregates of the offered items.
    fn finish(&mut self) -> AggregateOutcome {
        self.close(None);
        let items_read = self.items_read;
        let result = match self.failure {
            Some(failure) => Err(failure),
            None => self.windows().map(|windows| Aggregated { as_of: self.as_of.to_string(), windows, items_read }),
        };
        AggregateOutcome { items_read, result }
    }
}

/// The first and last nanosecond of a window. `bound` is the moment after which no item counts, if the caller named
/// one.
fn bounds_of(window: &AggregateWindow, as_of: Timestamp, bound: Option<Timestamp>) -> (u64, u64) {
    match window {
        AggregateWindow::Last(length) => {
            let end = as_of.as_nanos();
            ((end + 1).saturating_sub(length.as_nanos()), end)
        }
        AggregateWindow::Between(WindowBounds { min_timestamp, max_timestamp }) => {
            let max = bound.map_or(*max_timestamp, |bound| bound.min(*max_timestamp));
            (min_timestamp.as_nanos(), max.as_nanos())
        }
    }
}
