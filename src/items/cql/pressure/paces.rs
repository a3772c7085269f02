//! Which nodes answer much slower than others, by what operations see of them: such a node is asked last.
//!
//! Nodes are compared by the mean latency of one kind of request at a time. Each window of a second gives every node
//! that answered often enough a mean; a node whose mean is several times the best one is slow from then on. No
//! operation asks it while there are others, so that `lookout.rs` measures it once a second, until it keeps up again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::items::cql::statements::Statement;

/// A window takes at least this long, and has at least so many answers of a node: fewer are kept for the next one.
const WINDOW: Duration = Duration::from_secs(1);
const ANSWERS_MIN: u32 = 10;
/// What another node's mean is compared with is not older than this.
const FRESH: Duration = Duration::from_secs(30);
/// A node is slow if it takes this many times as long as the fastest one, and is slower by this much.
const SLOW_FACTOR: u32 = 3;
const SLOW_MORE: Duration = Duration::from_millis(20);
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// Requests whose latencies are compared with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
}

impl Kind {
    const ALL: [Self; 2] = [Self::Read, Self::Write];

    /// The kind of a statement. Latencies of contended or large requests are no measure of a node.
    pub fn of(statement: Statement) -> Option<Self> {
        match statement {
            Statement::Get | Statement::Keys | Statement::Find | Statement::Buckets => Some(Self::Read),
            Statement::Add | Statement::Delete | Statement::NoteBuckets => Some(Self::Write),
            Statement::Entities | Statement::Swap | Statement::Clear | Statement::Sweep => None,
        }
    }
}

/// The latencies of all nodes, and which of them are slow.
#[derive(Debug, Default)]
pub struct Paces {
    /// How many nodes are slow: most of the time none, and then no lock is taken for the question.
    slow: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    window_began: Option<Instant>,
    nodes: HashMap<Uuid, [Answers; Kind::ALL.len()]>,
    /// Slow nodes, and when each must be measured next.
    slow: HashMap<Uuid, Instant>,
}

#[derive(Debug, Default)]
struct Answers {
    count: u32,
    total: Duration,
    mean: Option<(Duration, Instant)>,
}

impl Answers {
    /// The mean that was taken lately.
    fn fresh(&self, now: Instant) -> Option<Duration> {
        self.mean.filter(|(_, at)| now.saturating_duration_since(*at) < FRESH).map(|(mean, _)| mean)
    }
}

impl State {
    /// The longest that a node may take which keeps up with the fastest one.
    fn bound(&self, kind: Kind, now: Instant) -> Option<Duration> {
        let others = self.nodes.iter().filter(|(node, _)| !self.slow.contains_key(*node));
        let best = others.filter_map(|(_, answers)| answers[kind as usize].fresh(now)).min()?;
        Some(best * SLOW_FACTOR + SLOW_MORE)
    }

    fn judge(&mut self, now: Instant) {
        for answers in self.nodes.values_mut().flatten().filter(|answers| answers.count >= ANSWERS_MIN) {
            let Answers { count, total, .. } = std::mem::take(answers);
            answers.mean = Some((total / count, now));
        }
        let bounds = Kind::ALL.map(|kind| self.bound(kind, now));
        for (node, answers) in &self.nodes {
            let judged = answers.iter().zip(bounds).filter_map(|(answers, bound)| {
                let (mean, _) = answers.mean.filter(|(_, at)| *at == now)?;
                Some(mean > bound?)
            });
            match judged.reduce(|one, other| one || other) {
                Some(true) if !self.slow.contains_key(node) => {
                    tracing::debug!(%node, "a node is much slower than others: preferring other nodes");
                    self.slow.insert(*node, now + PROBE_INTERVAL);
                }
                Some(false) => {
                    self.slow.remove(node);
                }
                _ => {}
            }
        }
        // Nodes that left the cluster.
        self.nodes.retain(|_, answers| answers.iter().any(|one| one.count > 0 || one.fresh(now).is_some()));
        let nodes = &self.nodes;
        self.slow.retain(|node, next| nodes.contains_key(node) || now.saturating_duration_since(*next) < FRESH);
    }
}

impl Paces {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A node has answered a request of this kind.
    pub fn took(&self, node: Uuid, kind: Kind, latency: Duration) {
        let mut state = self.state();
        let answers = &mut state.nodes.entry(node).or_default()[kind as usize];
        answers.count = answers.count.saturating_add(1);
        answers.total = answers.total.saturating_add(latency);
    }

    /// Judges all nodes, if a window is over. To be called more often than that.
    pub fn judge(&self, now: Instant) {
        let mut state = self.state();
        let began = *state.window_began.get_or_insert(now);
        if now.saturating_duration_since(began) >= WINDOW {
            state.window_began = Some(now);
            state.judge(now);
            self.slow.store(state.slow.len(), Ordering::Relaxed);
        }
    }

    /// Whether this node must be asked after others.
    pub fn is_slow(&self, node: Uuid) -> bool {
        self.slow.load(Ordering::Relaxed) > 0 && self.state().slow.contains_key(&node)
    }

    /// Whether a node is slow and it is time to measure it.
    pub fn may_probe(&self, node: Uuid, now: Instant) -> bool {
        if self.slow.load(Ordering::Relaxed) == 0 {
            return false;
        }
        match self.state().slow.get_mut(&node) {
            Some(next) if now >= *next => {
                *next = now + PROBE_INTERVAL;
                true
            }
            _ => false,
        }
    }

    /// A slow node has answered a read that was to measure it.
    pub fn probed(&self, node: Uuid, latency: Duration, now: Instant) {
        let mut state = self.state();
        if state.bound(Kind::Read, now).is_none_or(|bound| latency <= bound) && state.slow.remove(&node).is_some() {
            tracing::debug!(%node, "a slow node has recovered");
            // Its latencies while it was slow no longer count.
            state.nodes.remove(&node);
        }
        self.slow.store(state.slow.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: [Uuid; 3] = [Uuid::from_u128(1), Uuid::from_u128(2), Uuid::from_u128(3)];

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// One window, in which each node answers so often, each after so many milliseconds.
    fn window(paces: &Paces, now: &mut Instant, kind: Kind, count: u32, took: [u64; 3]) -> [bool; 3] {
        for (node, took) in NODES.into_iter().zip(took) {
            (0..count).for_each(|_| paces.took(node, kind, millis(took)));
        }
        *now += WINDOW;
        paces.judge(*now);
        NODES.map(|node| paces.is_slow(node))
    }

    fn fresh() -> (Paces, Instant) {
        let (paces, now) = (Paces::default(), Instant::now());
        paces.judge(now);
        (paces, now)
    }

    #[test]
    fn a_node_slower_by_300_ms_is_slow_until_a_probe_is_answered_in_time() {
        let (paces, mut now) = fresh();
        assert_eq!(window(&paces, &mut now, Kind::Read, 50, [2, 1, 3]), [false; 3]);
        assert_eq!(window(&paces, &mut now, Kind::Read, 50, [2, 301, 3]), [false, true, false]);
        // No operation uses it any more.
        paces.judge(now + WINDOW);
        assert!(paces.is_slow(NODES[1]));
        assert!(!paces.may_probe(NODES[1], now + millis(999)) && !paces.may_probe(NODES[0], now + millis(1_000)));
        assert!(paces.may_probe(NODES[1], now + millis(1_000)) && !paces.may_probe(NODES[1], now + millis(1_001)));
        paces.probed(NODES[1], millis(301), now);
        assert!(paces.is_slow(NODES[1]));
        paces.probed(NODES[1], millis(3), now);
        assert!(!paces.is_slow(NODES[1]));
    }

    #[test]
    fn small_differences_and_a_few_late_answers_make_no_node_slow() {
        let (paces, mut now) = fresh();
        assert_eq!(window(&paces, &mut now, Kind::Read, 50, [1, 21, 5]), [false; 3], "20 ms are noise");
        assert_eq!(window(&paces, &mut now, Kind::Read, 50, [100, 290, 150]), [false; 3], "less than three times");
        assert_eq!(window(&paces, &mut now, Kind::Read, ANSWERS_MIN - 1, [1, 1_000, 1]), [false; 3]);
        // They are kept until there are enough.
        assert_eq!(window(&paces, &mut now, Kind::Read, 1, [1, 1_000, 1]), [false, true, false]);
    }

    #[test]
    fn reads_and_writes_are_not_compared_with_each_other() {
        let (paces, mut now) = fresh();
        (0..20).for_each(|_| paces.took(NODES[0], Kind::Read, millis(1)));
        (0..20).for_each(|_| paces.took(NODES[1], Kind::Write, millis(400)));
        now += WINDOW;
        paces.judge(now);
        assert_eq!(NODES.map(|node| paces.is_slow(node)), [false; 3], "no other node has answered as much");
        assert_eq!(window(&paces, &mut now, Kind::Write, 20, [2, 400, 2]), [false, true, false]);
        // If all of them are slow, none counts as slow.
        let (paces, mut now) = fresh();
        assert_eq!(window(&paces, &mut now, Kind::Read, 20, [400, 400, 400]), [false; 3]);
    }
}
