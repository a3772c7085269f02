//! Collectors that retain no items: for counting, and for finding values.

use std::collections::HashMap;

use bytes::Bytes;
use liststore_contract::domain::{Identity, Timestamp};

use super::{Collect, Next, Offered, is_visible};
use crate::OpContext;
use crate::request::{Bounds, Count};

/// The items that an operation sees between two moments.
struct Within {
    op: OpContext,
    /// Nanoseconds since the Unix epoch, both inclusive.
    floor: u64,
    ceiling: u64,
}

impl Within {
    fn new(op: &OpContext, bounds: &Bounds) -> Self {
        let floor = op.ttl.visible_from(op.now).max(bounds.min_timestamp).as_nanos();
        Self { op: *op, floor, ceiling: bounds.max_timestamp.as_nanos() }
    }

    fn is_over(&self, item: &impl Offered) -> bool {
        item.timestamp() < self.floor
    }

    fn has(&self, item: &impl Offered) -> bool {
        item.timestamp() <= self.ceiling && is_visible(&self.op, item)
    }
}

/// Counts items, up to a bound.
pub struct Counter {
    within: Within,
    max: u64,
    count: Count,
}

impl Counter {
    pub fn new(op: &OpContext, bounds: &Bounds, max: u64) -> Self {
        Self { within: Within::new(op, bounds), max, count: Count { items: 0, exact: true } }
    }
}

impl Collect for Counter {
    type Found = Count;

    fn offer(&mut self, item: &impl Offered) -> Next {
        if self.within.is_over(item) {
            return Next::Done;
        }
        if self.within.has(item) {
            if self.count.items == self.max {
                self.count.exact = false;
                return Next::Done;
            }
            self.count.items += 1;
        }
        Next::Wanted
    }

    fn finish(&mut self) -> Count {
        self.count
    }
}

/// Finds the newest item of each of some values.
pub struct Finder {
    within: Within,
    identity: Identity,
    /// Values that were not found yet, and the place of their answer.
    missing: HashMap<Bytes, usize>,
    /// One element for each distinct value.
    newest: Vec<Option<Timestamp>>,
    /// The index of each requested value among them.
    asked: Vec<usize>,
}

impl Finder {
    pub fn new(op: &OpContext, bounds: &Bounds, identity: Identity, values: &[Bytes]) -> Self {
        let mut missing = HashMap::with_capacity(values.len());
        let place = |value: &Bytes| {
            let next = missing.len();
            *missing.entry(value.clone()).or_insert(next)
        };
        let asked = values.iter().map(place).collect();
        let newest = vec![None; missing.len()];
        Self { within: Within::new(op, bounds), identity, missing, newest, asked }
    }
}

impl Collect for Finder {
    type Found = Vec<Option<Timestamp>>;

    fn offer(&mut self, item: &impl Offered) -> Next {
        if self.within.is_over(item) || self.missing.is_empty() {
            return Next::Done;
        }
        if self.within.has(item)
            && let Some(place) = self.missing.remove(self.identity.value(item.value()))
        {
            self.newest[place] = Timestamp::from_nanos(item.timestamp()).ok();
        }
        Next::Wanted
    }

    fn finish(&mut self) -> Self::Found {
        self.asked.iter().map(|place| self.newest[*place]).collect()
    }
}
