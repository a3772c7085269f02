//! Aggregates over windows of time, in one pass over a list, newest first. Every store offers its items to an
//! [`Aggregator`], which knows no store.
//!
//! Windows that end at one moment share their work. Each item is taken once, and the results of a window are rendered
//! at the first item before its beginning. So four windows cost as much as the longest one.
//!
//! | file | content |
//! | --- | --- |
//! | `plan` | the requested aggregates, checked against the type of the values |
//! | `mod` | windows, bounds, and why a window is not complete |
//! | `tally` | groups and the state of each aggregate |
//! | `number` | arithmetic |
//! | `values` | distinct values, their order, and their JSON |
//! | `find` | properties of stored JSON |
//! | `pages` | a session that has its items in pages |

mod find;
mod number;
mod pages;
mod plan;
mod tally;
mod values;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use liststore_contract::domain::{Identity, MaxItems, Timestamp};
use liststore_contract::wire::{AggregateWindow, Aggregated, WindowAggregates, WindowBounds};
use smallvec::SmallVec;

use super::collect::{Collect, Next, Offered, is_visible};
use super::{Bounds, OpContext};
use tally::{Field, Rendered, Tally};
use values::Values;

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
    op: OpContext,
    identity: Identity,
    as_of: Timestamp,
    /// The oldest timestamp that is visible.
    visible_from: u64,
    max_items: Option<u64>,
    /// The beginning of the first window.
    floor: u64,
    /// The end of the last window, or any time if items are counted from the newest on.
    ceiling: u64,
    windows: Vec<Window>,
    chains: Vec<Chain>,
    values: Values,
    /// Memory of results, about.
    result_bytes: usize,
    items_read: u64,
    failure: Option<AggregateFailure>,
}

impl Aggregator {
    /// For items of a list with this identity that the operation sees.
    pub fn new(plan: &Arc<Aggregation>, op: &OpContext, identity: Identity) -> Self {
        let as_of = plan.as_of.unwrap_or(op.now);
        let bounds = plan.windows.iter().map(|window| bounds_of(window, as_of, plan.as_of));
        let windows: Vec<_> = bounds.map(|(min, max)| Window { min, max, reason: None, rendered: None }).collect();
        let mut chains = Vec::<Chain>::new();
        for (place, window) in windows.iter().enumerate() {
            match chains.iter_mut().find(|chain| chain.max == window.max) {
                Some(chain) => chain.windows.push(place),
                None => {
                    let tally = Tally::new(plan);
                    chains.push(Chain { max: window.max, windows: vec![place], closed: 0, tally });
                }
            }
        }
        for chain in &mut chains {
            chain.windows.sort_by_key(|place| std::cmp::Reverse(windows[*place].min));
        }
        let newest = windows.iter().map(|window| window.max).max().unwrap_or(0);
        Self {
            plan: Arc::clone(plan),
            op: *op,
            identity,
            as_of,
            visible_from: op.ttl.visible_from(op.now).as_nanos(),
            max_items: op.max_items.map(MaxItems::as_u64),
            floor: windows.iter().map(|window| window.min).min().unwrap_or(0),
            ceiling: if op.max_items.is_some() { Timestamp::MAX.as_nanos() } else { newest },
            windows,
            chains,
            values: Values::default(),
            result_bytes: 0,
            items_read: 0,
            failure: None,
        }
    }

    /// The moments between which it wants to be offered all visible items, newest first. From a list that does not show
    /// all its items it wants them from the newest on: so it knows where they end.
    pub fn bounds(&self) -> Bounds {
        let timestamp = |nanos: u64| Timestamp::saturating_from_nanos(u128::from(nanos));
        Bounds { min_timestamp: timestamp(self.floor.max(self.visible_from)), max_timestamp: timestamp(self.ceiling) }
    }

    /// Whether it looks at the values of items, or only at their timestamps.
    pub fn needs_values(&self) -> bool {
        self.plan.needs_values()
    }

    /// The most items that it takes before it is done.
    pub fn items_wanted(&self) -> usize {
        // One more than it may read shows whether there are more.
        let wanted = self.plan.items_max.saturating_add(1).min(self.max_items.unwrap_or(u64::MAX));
        usize::try_from(wanted).unwrap_or(usize::MAX)
    }

    /// Takes the next visible item by its timestamp, in nanoseconds, and its stored bytes. These may be empty if it
    /// needs no values.
    fn meet(&mut self, timestamp: u64, stored: &[u8]) -> Next {
        self.close(Some(timestamp));
        if self.failure.is_some() || self.is_over() {
            return Next::Done;
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

    fn is_over(&self) -> bool {
        self.chains.iter().all(|chain| chain.closed == chain.windows.len())
    }

    /// Gives windows their results that begin after the next item; all of them if there is none.
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
                let room = self.plan.bytes_max.saturating_sub(self.result_bytes);
                match chain.tally.render(&self.plan, &self.values, room) {
                    Err(AggregateFailure::TooLarge) => {
                        self.failure = Some(AggregateFailure::TooLarge);
                        return;
                    }
                    rendered => {
                        self.result_bytes += rendered.as_ref().map_or(0, |rendered| rendered.bytes);
                        window.rendered = Some(rendered);
                    }
                }
                chain.closed += 1;
            }
        }
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
        let Self { plan, identity, chains, values, result_bytes, items_read, .. } = self;
        let wants = |chain: &Chain| timestamp <= chain.max && chain.closed < chain.windows.len();
        if !chains.iter().any(wants) {
            return Ok(());
        }
        let value = identity.value(stored);
        let found: SmallVec<[Option<&[u8]>; 4]> = plan
            .sources
            .iter()
            .map(|source| source.find(value))
            .collect::<Result<_, _>>()
            .map_err(|_| AggregateFailure::Damaged)?;
        if let Some(filter) = &plan.filter
            && !found[filter.source].is_some_and(|value| filter.has(value))
        {
            return Ok(());
        }
        let fields = plan.sources.iter().zip(&found).map(|(source, bytes)| Field {
            bytes: *bytes,
            number: bytes.filter(|_| source.needs_number).and_then(|bytes| plan.form.number(bytes)),
            identity: bytes.filter(|_| source.needs_identity).map_or(0, |bytes| values.number_of(bytes)),
        });
        let fields: SmallVec<[Field<'_>; 4]> = fields.collect();
        let mut memory = values.memory() + *result_bytes;
        for chain in chains {
            if wants(chain) {
                chain.tally.add(plan, &fields, *items_read);
            }
            memory += chain.tally.memory();
        }
        if memory > plan.bytes_max { Err(AggregateFailure::TooLarge) } else { Ok(()) }
    }

    fn windows(&mut self) -> Result<Vec<WindowAggregates>, AggregateFailure> {
        let mut windows = Vec::with_capacity(self.windows.len());
        for (asked, Window { min, max, reason, rendered }) in self.plan.windows.iter().zip(&mut self.windows) {
            let Some(rendered) = rendered.take() else { continue };
            let Rendered { results, groups, skipped, .. } = rendered?;
            let reason = if *min < self.visible_from { Some(Reason::Ttl) } else { *reason };
            let length = match asked {
                AggregateWindow::Last(length) => Some(length.as_str().to_owned()),
                AggregateWindow::Between(_) => None,
            };
            let text = |nanos: u64| Timestamp::saturating_from_nanos(u128::from(nanos)).to_string();
            windows.push(WindowAggregates {
                window: length,
                min_timestamp: text(*min),
                max_timestamp: text(*max),
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
        if timestamp < self.floor.max(self.visible_from) {
            return Next::Done;
        }
        if timestamp > self.ceiling || !is_visible(&self.op, item) {
            return Next::Wanted;
        }
        self.meet(timestamp, item.value())
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
