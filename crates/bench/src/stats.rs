//! Measurements: latencies, items, errors by code.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::operation::Kind;

const LATENCY_NANOS_MIN: u64 = 1_000;
/// Longer ones count as this.
const LATENCY_NANOS_MAX: u64 = 3_600_000_000_000;
/// Errors of latencies are below 0.1%.
const SIGNIFICANT_DIGITS: u8 = 3;
/// Complaints that are stored as examples.
const EXAMPLES_MAX: usize = 5;
/// The number of distinct codes; a server has fewer.
const CODES_MAX: usize = 100;
const OTHER_CODES: &str = "other";

/// The measurements of one kind of operation.
#[derive(Debug, Clone)]
pub struct KindStats {
    /// Latencies of successful requests from the moment when they were due, in nanoseconds. A
    /// request that was due and had no answer when the run ended is here with its wait until then.
    pub latencies: Histogram<u64>,
    /// How long answers took that refused a request, from when it was sent.
    pub refusals: Histogram<u64>,
    pub done: u64,
    pub items: u64,
    /// Errors by code: the server's codes, or the generator's for an invalid answer.
    pub errors: BTreeMap<String, u64>,
    /// Requests that were due and never sent, since no connection was free before the end.
    pub unsent: u64,
}

#[derive(Debug, Clone)]
pub struct Stats {
    kinds: [KindStats; 3],
    /// Checked answers, and wrong ones among them.
    pub checked: u64,
    pub wrong: u64,
    pub examples: Vec<String>,
    pub reconnects: u64,
    /// All completed requests, including those before the measured time: for the live line.
    pub ended: u64,
}

impl KindStats {
    fn new() -> Result<Self, String> {
        let histogram = || {
            Histogram::new_with_bounds(LATENCY_NANOS_MIN, LATENCY_NANOS_MAX, SIGNIFICANT_DIGITS)
                .map_err(|e| e.to_string())
        };
        Ok(Self {
            latencies: histogram()?,
            refusals: histogram()?,
            done: 0,
            items: 0,
            errors: BTreeMap::new(),
            unsent: 0,
        })
    }

    pub fn errors_in_all(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Whether any request of this kind was due.
    pub fn is_used(&self) -> bool {
        self.done + self.errors_in_all() + self.unsent > 0
    }

    fn record(&mut self, latency: Duration) {
        self.latencies.saturating_record(nanos(latency));
    }

    pub fn done(&mut self, latency: Duration, items: u64) {
        self.record(latency);
        self.done += 1;
        self.items += items;
    }

    pub fn error(&mut self, code: &str) {
        let code = if self.errors.contains_key(code) || self.errors.len() < CODES_MAX { code } else { OTHER_CODES };
        match self.errors.get_mut(code) {
            Some(count) => *count += 1,
            None => _ = self.errors.insert(code.to_owned(), 1),
        }
    }

    /// A request that the server refused, so long after it was sent.
    pub fn refused(&mut self, code: &str, took: Duration) {
        self.refusals.saturating_record(nanos(took));
        self.error(code);
    }

    /// A request that was sent, and had no answer when the run ended.
    pub fn unfinished(&mut self, wait: Duration) {
        self.record(wait);
        self.error("unfinished");
    }

    /// A request that was due and not sent when the run ended.
    pub fn unsent(&mut self, wait: Duration) {
        self.record(wait);
        self.unsent += 1;
    }

    pub fn merge(&mut self, other: &Self) {
        // Fails only for histograms with different bounds.
        let _ = self.latencies.add(&other.latencies);
        let _ = self.refusals.add(&other.refusals);
        self.done += other.done;
        self.items += other.items;
        self.unsent += other.unsent;
        for (code, count) in &other.errors {
            *self.errors.entry(code.clone()).or_default() += count;
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(LATENCY_NANOS_MIN)
}

impl Stats {
    pub fn new() -> Result<Self, String> {
        Ok(Self {
            kinds: [KindStats::new()?, KindStats::new()?, KindStats::new()?],
            checked: 0,
            wrong: 0,
            examples: Vec::new(),
            reconnects: 0,
            ended: 0,
        })
    }

    pub fn kind(&mut self, kind: Kind) -> &mut KindStats {
        &mut self.kinds[kind.index()]
    }

    pub fn of(&self, kind: Kind) -> &KindStats {
        &self.kinds[kind.index()]
    }

    /// All kinds together.
    pub fn total(&self) -> Result<KindStats, String> {
        let mut total = KindStats::new()?;
        self.kinds.iter().for_each(|kind| total.merge(kind));
        Ok(total)
    }

    pub fn complain(&mut self, complaint: String) {
        self.wrong += 1;
        self.example(complaint);
    }

    pub fn example(&mut self, text: String) {
        if self.examples.len() < EXAMPLES_MAX && !self.examples.contains(&text) {
            self.examples.push(text);
        }
    }

    pub fn merge(&mut self, other: &Self) {
        for (kind, other) in self.kinds.iter_mut().zip(&other.kinds) {
            kind.merge(other);
        }
        self.checked += other.checked;
        self.wrong += other.wrong;
        self.reconnects += other.reconnects;
        self.ended += other.ended;
        other.examples.iter().for_each(|text| self.example(text.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_of_threads_are_summed() {
        let mut all = Stats::new().unwrap();
        for thread in 1..=3 {
            let mut stats = Stats::new().unwrap();
            stats.kind(Kind::Get).done(Duration::from_millis(thread), 50);
            stats.kind(Kind::Add).refused("overloaded", Duration::from_millis(10 * thread));
            stats.kind(Kind::Add).unsent(Duration::from_secs(1));
            stats.complain("wrong order".into());
            all.merge(&stats);
        }
        let get = all.of(Kind::Get);
        assert_eq!((get.done, get.items, get.latencies.len()), (3, 150, 3));
        assert!((2_990_000..=3_010_000).contains(&get.latencies.max()));
        assert_eq!(all.of(Kind::Add).errors, BTreeMap::from([("overloaded".to_owned(), 3)]));
        let refusals = &all.of(Kind::Add).refusals;
        assert!(refusals.len() == 3 && (29_900_000..=30_100_000).contains(&refusals.max()));
        assert_eq!((all.wrong, all.examples.len()), (3, 1));
        let total = all.total().unwrap();
        assert_eq!((total.done, total.unsent, total.latencies.len()), (3, 3, 6));
        assert!(!all.of(Kind::Remove).is_used());
    }

    #[test]
    fn codes_are_bounded() {
        let mut stats = KindStats::new().unwrap();
        (0..1_000).for_each(|i| stats.error(&format!("code {i}")));
        assert_eq!(stats.errors.len(), CODES_MAX + 1);
        assert_eq!(stats.errors_in_all(), 1_000);
    }
}
