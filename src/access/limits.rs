//! Limits the requests of one caller in a second and at one time, so that a noisy caller leaves room for the others.
//!
//! Requests and items have a bucket each, which fills at its rate up to its burst (GCRA). The number of items of a
//! request may be known only afterwards, and may exceed any burst. So a request passes while its bucket holds
//! anything, and the caller owes the excess, for which later requests wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{NotKeyed, StateStore};
use governor::{Quota, RateLimiter};
use quick_cache::sync::Cache;

use crate::domain::{Rate, RateLimits};

/// The refusals in a second that the server answers at once, if the caller's limit is not greater. It delays further
/// ones, so that a caller that does not slow down cannot make refusals cost more than serving.
const PROMPT_REFUSALS: u32 = 1_000;
/// Callers other than keys whose limits are remembered. A forgotten caller starts again with full buckets.
const REMEMBERED_MAX: usize = 10_000;

/// The limit that a caller exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    Requests,
    Items,
    /// At work at once.
    Operations,
}

/// A request that came too soon. Nothing was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
pub struct Limited {
    pub excess: Excess,
    /// When a retry succeeds, if no other request comes in between.
    pub retry_after: Duration,
}

impl Limited {
    fn text(&self) -> &'static str {
        match self.excess {
            Excess::Requests => "request rate limit exceeded: send fewer requests per second",
            Excess::Items => "item rate limit exceeded: read and add fewer items per second",
            Excess::Operations => "too many concurrent list operations for this caller: wait for some to finish",
        }
    }
}

/// The default limits of known callers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LimitOptions {
    pub rates: RateLimits,
    /// The percentage of a list actor's permits that one caller's operations may use at once; `None` for no limit.
    pub operations_percent: Option<u32>,
}

impl LimitOptions {
    /// The limits of a caller, which may have separate ones. `None` without any limits.
    pub(super) fn limiter(self, own: RateLimits) -> Option<Arc<Limiter>> {
        let options = Self { rates: own.or(self.rates), ..self };
        (options != Self::default()).then(|| Arc::new(Limiter::new(options)))
    }
}

/// The limits of callers other than keys, by their names.
pub(super) struct Limiters {
    options: LimitOptions,
    known: Cache<String, Arc<Limiter>>,
}

impl Limiters {
    pub fn new(options: LimitOptions) -> Self {
        Self { options, known: Cache::new(REMEMBERED_MAX) }
    }

    pub fn of(&self, name: &str) -> Option<Arc<Limiter>> {
        if self.options == LimitOptions::default() {
            return None;
        }
        self.known.get(name).or_else(|| {
            let limiter = self.options.limiter(RateLimits::default())?;
            self.known.insert(name.to_owned(), Arc::clone(&limiter));
            Some(limiter)
        })
    }
}

/// Time since a bucket was made.
#[derive(Debug, Clone, Copy)]
struct SinceStart(Instant);

impl Clock for SinceStart {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::from(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// When a bucket will be full again, in nanoseconds since its start.
#[derive(Debug, Clone, Default)]
struct Level(Arc<AtomicU64>);

impl StateStore for Level {
    type Key = NotKeyed;

    fn measure_and_replace<T, F, E>(&self, _: &NotKeyed, decide: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let mut before = self.0.load(Ordering::Acquire);
        loop {
            let (outcome, after) = decide(Some(Nanos::from(before)))?;
            match self.0.compare_exchange_weak(before, after.as_u64(), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(outcome),
                Err(present) => before = present,
            }
        }
    }
}

/// The remaining units of a bucket, as reported to callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    pub rate: Rate,
    pub units: u64,
    /// When there is more, if it is not full.
    pub more_in: Duration,
}

struct Bucket {
    rate: Rate,
    level: Level,
    clock: SinceStart,
    limiter: RateLimiter<NotKeyed, Level, SinceStart, NoOpMiddleware<Nanos>>,
}

impl Bucket {
    fn new(rate: Rate) -> Self {
        let (level, clock) = (Level::default(), SinceStart(Instant::now()));
        let quota = Quota::per_second(rate.per_second()).allow_burst(rate.burst());
        Self { rate, limiter: RateLimiter::new(quota, level.clone(), clock), level, clock }
    }

    /// The time in which one unit refills.
    fn unit_nanos(&self) -> u64 {
        (1_000_000_000 / u64::from(self.rate.per_second().get())).max(1)
    }

    fn take_one(&self, excess: Excess) -> Result<(), Limited> {
        self.limiter.check().map_err(|until| Limited { excess, retry_after: until.wait_time_from(self.clock.now()) })
    }

    /// Takes units even if there are not enough.
    fn add_debt(&self, units: u64) {
        let (now, cost) = (self.clock.now().as_u64(), units.saturating_mul(self.unit_nanos()));
        let owed = |full_at: u64| Some(full_at.max(now).saturating_add(cost));
        // It always has a new value, so it never fails.
        let _ = self.level.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, owed);
    }

    fn left(&self) -> Left {
        let missing = self.level.0.load(Ordering::Acquire).saturating_sub(self.clock.now().as_u64());
        let (burst, unit) = (u64::from(self.rate.burst().get()), self.unit_nanos());
        let units = burst.saturating_sub(missing.div_ceil(unit));
        let with_one_more = burst.saturating_sub(units + 1).saturating_mul(unit);
        Left { rate: self.rate, units, more_in: Duration::from_nanos(missing.saturating_sub(with_one_more)) }
    }
}

/// One caller's limits, and how much of them is used. Made once for all of the caller's requests.
pub struct Limiter {
    requests: Option<Bucket>,
    items: Option<Bucket>,
    prompt_refusals: Option<Bucket>,
    operations_percent: Option<u32>,
    operations: AtomicUsize,
}

impl std::fmt::Debug for Limiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Limiter").finish_non_exhaustive()
    }
}

impl PartialEq for Limiter {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Limiter {}

impl Limiter {
    fn new(LimitOptions { rates, operations_percent }: LimitOptions) -> Self {
        let (requests, items) = (rates.requests.map(Bucket::new), rates.items.map(Bucket::new));
        let prompt = rates.requests.map_or(PROMPT_REFUSALS, |rate| rate.per_second().get().max(PROMPT_REFUSALS));
        let prompt_refusals = Rate::new(prompt, None).ok().map(Bucket::new);
        Self { requests, items, prompt_refusals, operations_percent, operations: AtomicUsize::new(0) }
    }

    /// Counts a request that was refused for these limits. Returns whether there were too many lately, so that the
    /// answer must be delayed.
    pub fn refuses_too_often(&self) -> bool {
        self.prompt_refusals.as_ref().is_some_and(|bucket| bucket.take_one(Excess::Requests).is_err())
    }

    /// Counts a request.
    pub fn take_request(&self) -> Result<(), Limited> {
        self.requests.as_ref().map_or(Ok(()), |bucket| bucket.take_one(Excess::Requests))
    }

    /// Whether there is room for an item, without counting one.
    pub fn check_items(&self) -> Result<(), Limited> {
        let Some(left) = self.items.as_ref().map(Bucket::left).filter(|left| left.units == 0) else { return Ok(()) };
        Err(Limited { excess: Excess::Items, retry_after: left.more_in })
    }

    /// Counts items, at least one, if there is room for any.
    pub fn take_items(&self, items: usize) -> Result<(), Limited> {
        let Some(bucket) = &self.items else { return Ok(()) };
        bucket.take_one(Excess::Items)?;
        self.charge_items(items.saturating_sub(1));
        Ok(())
    }

    /// Counts items whose number was unknown before they were read.
    pub fn charge_items(&self, items: usize) {
        if let Some(bucket) = self.items.as_ref().filter(|_| items > 0) {
            bucket.add_debt(items as u64);
        }
    }

    /// Counts a list operation until the returned value is dropped. `permits` is the current number of one list actor:
    /// a caller with fewer operations at work cannot block an actor.
    pub fn begin(self: &Arc<Self>, permits: usize) -> Result<Option<AtWork>, Limited> {
        let Some(percent) = self.operations_percent else { return Ok(None) };
        let max = (permits.saturating_mul(percent as usize) / 100).max(1);
        let at_work = AtWork(Arc::clone(self));
        if self.operations.fetch_add(1, Ordering::AcqRel) >= max {
            return Err(Limited { excess: Excess::Operations, retry_after: Duration::ZERO });
        }
        Ok(Some(at_work))
    }

    /// The remaining requests and items.
    pub fn left(&self) -> [Option<Left>; 2] {
        [&self.requests, &self.items].map(|bucket| bucket.as_ref().map(Bucket::left))
    }
}

/// A list operation that is at work.
#[derive(Debug)]
pub struct AtWork(Arc<Limiter>);

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.operations.fetch_sub(1, Ordering::AcqRel);
    }
}

/// In whole seconds, rounded up.
pub fn whole_secs(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bucket that fills so slowly that no test sees it.
    fn slow(burst: u32) -> Option<Rate> {
        Some(Rate::new(1, Some(burst)).unwrap())
    }

    fn limiter(requests: Option<Rate>, items: Option<Rate>, operations_percent: Option<u32>) -> Arc<Limiter> {
        let own = RateLimits { requests, items };
        LimitOptions { rates: RateLimits::default(), operations_percent }.limiter(own).unwrap()
    }

    #[test]
    fn repeated_refusals_of_a_caller_are_delayed() {
        let requests = Some(Rate::new(2_000, Some(1)).unwrap());
        for (rates, prompt) in
            [(RateLimits { requests: slow(1), items: None }, 1_000), (RateLimits { requests, items: None }, 2_000)]
        {
            let limiter = LimitOptions::default().limiter(rates).unwrap();
            let reported_at_once = (0..prompt + 2_000).filter(|_| !limiter.refuses_too_often()).count();
            // Some units refill while this counts.
            assert!((prompt..prompt + 1_000).contains(&reported_at_once), "{reported_at_once}");
        }
    }

    #[test]
    fn only_a_burst_is_admitted() {
        let limiter = limiter(slow(5), None, None);
        for left in (0..5).rev() {
            assert_eq!(limiter.take_request(), Ok(()));
            assert!(limiter.left()[0].unwrap().units.abs_diff(left) <= 1);
        }
        let refused = limiter.take_request().unwrap_err();
        assert_eq!(refused.excess, Excess::Requests);
        assert!(refused.retry_after <= Duration::from_secs(1) && refused.retry_after > Duration::ZERO);
        assert_eq!(limiter.take_items(1_000_000), Ok(()), "items have no limit here");
        assert_eq!(limiter.check_items(), Ok(()));
    }

    #[test]
    fn a_request_larger_than_a_burst_leaves_a_debt() {
        let limiter = limiter(None, slow(10), None);
        assert_eq!(limiter.take_items(1_000), Ok(()));
        let refused = limiter.take_items(1).unwrap_err();
        let waits = refused.retry_after.as_secs();
        assert!((985..=991).contains(&waits), "{waits}");
        let left = limiter.left()[1].unwrap();
        assert_eq!(left.units, 0);
        let reported = limiter.check_items().unwrap_err();
        assert!(reported.excess == Excess::Items && reported.retry_after >= left.more_in / 2, "{reported:?}");
        // The longer of two waits satisfies both.
        assert!(left.more_in <= refused.retry_after && left.more_in.as_secs() >= 985, "{left:?}");
        limiter.charge_items(usize::MAX);
        assert!(limiter.take_items(1).is_err());
    }

    #[test]
    fn a_bucket_fills_again() {
        let limiter = limiter(Some(Rate::new(1_000, Some(1)).unwrap()), None, None);
        assert_eq!(limiter.take_request(), Ok(()));
        while limiter.take_request().is_err() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn operations_at_once_are_bounded() {
        let limiter = limiter(None, None, Some(50));
        let (first, _second) = (limiter.begin(4).unwrap(), limiter.begin(4).unwrap());
        for _ in 0..3 {
            assert_eq!(limiter.begin(5).unwrap_err().excess, Excess::Operations);
        }
        // The pool has grown, and has shrunk.
        let third = limiter.begin(6);
        assert!(third.is_ok());
        drop(first);
        assert!(limiter.begin(4).is_err() && limiter.begin(0).is_err() && limiter.begin(usize::MAX).is_ok());
    }

    #[test]
    fn the_remaining_budget_is_reported_until_it_grows() {
        let limiter = limiter(slow(5), None, None);
        let left = || limiter.left()[0].unwrap();
        assert_eq!((left().units, left().more_in), (5, Duration::ZERO));
        for _ in 0..5 {
            limiter.take_request().unwrap();
            let left = left();
            assert!(left.more_in > Duration::ZERO && left.more_in <= Duration::from_secs(1), "{left:?}");
        }
    }

    #[test]
    fn a_caller_without_limits_has_no_limiter() {
        assert!(LimitOptions::default().limiter(RateLimits::default()).is_none());
        assert!(Limiters::new(LimitOptions::default()).of("jwt:alice").is_none());
        let rates = RateLimits { requests: slow(1), items: None };
        let limiters = Limiters::new(LimitOptions { rates, operations_percent: None });
        assert_eq!(limiters.of("jwt:alice").unwrap().take_request(), Ok(()));
        assert!(limiters.of("jwt:alice").unwrap().take_request().is_err(), "it is the same one");
        assert_eq!(limiters.of("jwt:bob").unwrap().take_request(), Ok(()));
    }
}
