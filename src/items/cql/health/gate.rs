//! Refuses operations at once where no node of the cluster is reached, in place of letting each wait
//! for half of its time, with a permit. A circuit breaker: it opens when there was nothing to connect to for a
//! while, and closes when there is something again.
//!
//! The driver keeps trying to connect, and `lookout.rs` asks nodes that are connected and silent whether they answer
//! again: no operation has to find out.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::items::StoreError;
use crate::items::cql::connect::connection_errors::unavailable;

/// How long nothing is reached before operations are refused: a connection that broke is replaced
/// within less.
const GRACE: Duration = Duration::from_millis(500);

/// Whether a session takes operations.
#[derive(Debug, Default)]
pub struct Gate {
    shut: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    nothing_since: Option<Instant>,
    why: Option<String>,
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes whether a node is reached now. Returns whether the gate is shut.
    pub fn note(&self, reached: bool, now: Instant) -> bool {
        let mut state = self.state();
        if reached {
            *state = State::default();
            self.shut.store(false, Ordering::Relaxed);
            return false;
        }
        let since = *state.nothing_since.get_or_insert(now);
        let shut = now.saturating_duration_since(since) >= GRACE;
        self.shut.store(shut, Ordering::Relaxed);
        shut
    }

    /// Notes why nothing is reached.
    pub fn set_reason(&self, why: String) {
        let mut state = self.state();
        if state.nothing_since.is_some() {
            state.why = Some(why);
        }
    }

    pub fn why(&self) -> Option<String> {
        self.state().why.clone()
    }

    /// Lets an operation through, or refuses it. Checks for reached nodes only while the gate is shut.
    pub fn admit(&self, reaches_a_node: impl FnOnce() -> bool) -> Result<(), StoreError> {
        if !self.is_shut() {
            return Ok(());
        }
        if !reaches_a_node() {
            return Err(self.refusal());
        }
        self.note(true, Instant::now());
        Ok(())
    }

    pub fn is_shut(&self) -> bool {
        self.shut.load(Ordering::Relaxed)
    }

    /// The error of an operation while no node is reached.
    pub fn refusal(&self) -> StoreError {
        let why = self.why().unwrap_or_else(|| "cause not known yet".to_owned());
        unavailable(format!("no node of the cluster is reachable ({why}): nothing was done; retrying"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_closes_after_a_while_and_opens_at_once() {
        let (gate, start) = (Gate::default(), Instant::now());
        let admitted = |reached| gate.admit(|| reached).is_ok();
        assert!(!gate.note(false, start));
        assert!(admitted(false), "a connection may be back in a moment");
        assert!(gate.note(false, start + GRACE));
        gate.set_reason("connection refused".to_owned());
        let refused = gate.admit(|| false).unwrap_err();
        assert!(!refused.outcome_unknown());
        assert!(refused.to_string().contains("connection refused"), "{refused}");
        assert!(!admitted(false) && gate.is_shut());
        assert!(admitted(true) && !gate.is_shut());
        assert!(admitted(false), "it is open again, and must wait again before it shuts");
        assert_eq!(gate.why(), None);
    }

    #[test]
    fn a_short_outage_does_not_close_the_gate() {
        let (gate, start) = (Gate::default(), Instant::now());
        for n in 0..10 {
            let at = start + GRACE * n;
            assert!(!gate.note(false, at));
            assert!(!gate.note(true, at + GRACE / 2));
        }
    }
}
