//! A walk over the buckets of a list: one bucket after the other, and several at once where they have few items.

use std::collections::VecDeque;

use super::directory::{Names, partition};
use super::pace::Pace;
use super::several::{self, Several};
use crate::domain::{ListKey, Order};
use crate::items::StoreError;
use crate::items::collect::{Collect, Next};
use crate::items::cql::call::Call;
use crate::items::cql::layouts::partition::PartitionWalk;
use crate::items::cql::layouts::walk::{Row, Slice, Step, Walk, What};

/// A walk over the list of its call.
pub struct BucketsWalk {
    list: ListKey,
    slice: Slice,
    what: What,
    /// How many rows were not offered yet.
    left: usize,
    names: Names,
    pace: Pace,
    /// Buckets that were read together, and their rows. `None` for a bucket that must be read separately.
    read: VecDeque<(String, Option<Vec<several::Row>>)>,
    /// The bucket that is being read separately.
    inside: Option<(String, PartitionWalk)>,
}

impl BucketsWalk {
    pub fn new(call: &Call, slice: Slice, what: What, limit: usize) -> Self {
        let (list, pace) = (call.list.clone(), Pace::default());
        let names = Names::between(&list, slice.order, (slice.lower.as_str(), slice.upper.as_str()));
        Self { list, slice, what, left: limit, names, pace, read: VecDeque::new(), inside: None }
    }

    /// Reads as many next buckets as are likely to fill the walk. Returns whether there are any.
    async fn read_next(&mut self, call: &mut Call) -> Result<bool, StoreError> {
        let names = self.names.take(call, self.pace.buckets(self.left)).await?;
        let found = match &names[..] {
            [] | [_] => vec![None; names.len()],
            _ => {
                let each = Pace::rows_of_each(self.left, names.len());
                let with_values = self.what == What::Items;
                let (lower, upper) = (&self.slice.lower, &self.slice.upper);
                Several { list: &self.list, names: &names, lower, upper, with_values }.rows(call, each).await?
            }
        };
        self.pace.read(names.len());
        self.read.extend(names.into_iter().zip(found));
        Ok(!self.read.is_empty())
    }

    fn offer<C: Collect>(&mut self, mut rows: Vec<several::Row>, collector: &mut C) -> Result<Next, StoreError> {
        if self.slice.order == Order::Oldest {
            rows.reverse();
        }
        for (key, value) in rows {
            self.left = self.left.saturating_sub(1);
            self.pace.passed(1);
            if collector.offer(&Row::new(&key, value)?) == Next::Done {
                return Ok(Next::Done);
            }
        }
        Ok(Next::Wanted)
    }
}

impl Walk for BucketsWalk {
    async fn next<C: Collect + Send>(&mut self, call: &mut Call, collector: &mut C) -> Result<Step, StoreError> {
        if let Some((name, walk)) = &mut self.inside {
            let list = call.turn_to(partition(&self.list, name));
            let step = walk.next(call, collector).await;
            call.turn_to(list);
            self.pace.passed(self.left - walk.left);
            self.left = walk.left;
            match step? {
                Step::Ended => self.inside = None,
                step => return Ok(step),
            }
        }
        if self.left == 0 || (self.read.is_empty() && !self.read_next(call).await?) {
            return Ok(Step::Ended);
        }
        match self.read.pop_front() {
            Some((_, Some(rows))) => {
                if self.offer(rows, collector)? == Next::Done {
                    return Ok(Step::Full);
                }
            }
            Some((name, None)) => {
                let walk = PartitionWalk::new(call, self.slice.clone(), self.what, self.left);
                self.inside = Some((name, walk));
            }
            None => return Ok(Step::Ended),
        }
        Ok(Step::More)
    }
}
