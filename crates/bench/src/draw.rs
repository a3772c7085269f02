//! Selects the next request: draws operations, and stores the expected contents of their answers.

use std::sync::Arc;
use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::batch::lists_of;
use super::checks::{AcknowledgedAdd, RecentAdds};
use super::data::scramble;
use super::operation::{Kind, LoadRequest, Mix};
use super::plan::{Plan, Start};
use super::response::Malformed;

/// The draws of one thread. The same seed makes the same draws.
pub struct Draw {
    plan: Arc<Plan>,
    start: Start,
    random: Xoshiro256PlusPlus,
    recent: RecentAdds,
    /// The number of the next value that is added.
    next_number: u64,
    /// The last timestamp that was given to an add.
    last_nanos: u64,
    /// How many answers have come.
    answers: u64,
}

/// An operation, and the acknowledged items of its list when it was drawn.
#[derive(Debug, Clone, Copy)]
pub struct Drawn {
    pub operation: LoadRequest,
    recent: Option<AcknowledgedAdd>,
}

impl Draw {
    pub fn new(plan: Arc<Plan>, thread: usize, start: Start) -> Self {
        Self {
            random: Xoshiro256PlusPlus::seed_from_u64(scramble(plan.seed).wrapping_add(thread as u64)),
            recent: RecentAdds::new(),
            // Another run, and another thread, adds other values.
            next_number: scramble(start.unix_nanos.wrapping_add(thread as u64)),
            last_nanos: 0,
            answers: 0,
            plan,
            start,
        }
    }

    pub fn kind(&mut self, mix: &Mix) -> Kind {
        mix.pick(&mut self.random)
    }

    /// An operation of this kind, `now` after the start.
    pub fn operation(&mut self, kind: Kind, now: Duration) -> Drawn {
        let list = self.plan.popularity.pick(&mut self.random);
        match kind {
            Kind::Get => Drawn { operation: LoadRequest::Get { list }, recent: self.recent.last_of(list) },
            Kind::Add => {
                let number = self.next_number;
                self.next_number = number.wrapping_add(self.plan.batch);
                let present = self.start.unix_nanos.saturating_add(now.as_nanos() as u64);
                let newest_nanos = present.max(self.last_nanos + 1);
                self.last_nanos = newest_nanos;
                Drawn { operation: LoadRequest::Add { list, newest_nanos, number }, recent: None }
            }
            Kind::Remove => {
                let index = self.random.random_range(0..self.plan.data.length);
                Drawn { operation: LoadRequest::Remove { list, index }, recent: None }
            }
        }
    }

    /// Notes a successful answer. Checks one in `check_every`, and returns the finding.
    pub fn answered(&mut self, drawn: &Drawn, body: &[u8]) -> Option<Result<(), Malformed>> {
        let Plan { protocol, expectations, check_every, lists_per_get, data, .. } = &*self.plan;
        self.answers += 1;
        let is_checked = *check_every != 0 && self.answers.is_multiple_of(*check_every);
        let found = match drawn.operation {
            _ if !is_checked => None,
            LoadRequest::Get { list } if *lists_per_get > 1 => {
                Some(expectations.check_gets(protocol, lists_of(list, *lists_per_get, data), body))
            }
            LoadRequest::Get { list } => Some(expectations.check_get(protocol, list, drawn.recent, body)),
            LoadRequest::Add { .. } => Some(expectations.check_add(protocol, body)),
            LoadRequest::Remove { .. } => None,
        };
        if let LoadRequest::Add { list, newest_nanos, number } = drawn.operation {
            self.recent.remember(AcknowledgedAdd { list, newest_nanos, number });
        }
        found
    }
}
