//! Decides whether a history is allowed by the promises of `docs/explanation/guarantees.md`.
//!
//! A history is divided into objects that can be judged separately: the items of a list that were ever added together
//! or share a value ([`clusters`]), the definitions of a feature and the TTL of a version ([`definitions`]), a member
//! of a set ([`members`]). Each of these is judged exactly ([`linear`]). Rules across objects are judged by conditions
//! at every instant ([`windows`]): whether a page is the list at one moment. A list that goes back, which callers
//! notice first, has a separate check ([`monotonic`]). Lists that show only their newest items have separate promises
//! ([`bounded`]), and so have bags ([`bags`]). Aggregates are pages that show values, and how often each was there, in
//! groups at times ([`aggregates`], [`groups`]). This module must never talk to a server.

mod aggregates;
pub mod bags;
mod bounded;
mod clusters;
mod counts;
mod definitions;
mod expiry;
mod groups;
mod linear;
mod members;
mod monotonic;
mod pages;
mod script;
mod story;
mod windows;

pub mod forbidden;
pub mod forbidden_observations;
pub mod forbidden_special;
pub mod proofs;

use std::fmt;

use crate::history::{History, Outcome, Promises};
use story::Stories;

/// A promise that was broken, and the calls that show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub promise: &'static str,
    pub detail: String,
    /// Places in the history, in its order.
    pub calls: Vec<usize>,
}

impl Violation {
    fn new(promise: &'static str, detail: impl Into<String>, calls: impl IntoIterator<Item = usize>) -> Self {
        let mut calls: Vec<usize> = calls.into_iter().collect();
        calls.sort_unstable();
        calls.dedup();
        Self { promise, detail: detail.into(), calls }
    }

    /// The violation with the calls that show it, for people.
    pub fn explain<'a>(&'a self, history: &'a History) -> impl fmt::Display + 'a {
        Explained { violation: self, history }
    }
}

struct Explained<'a> {
    violation: &'a Violation,
    history: &'a History,
}

impl fmt::Display for Explained<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "broken promise: {}\n  {}", self.violation.promise, self.violation.detail)?;
        for call in &self.violation.calls {
            if let Some(call) = self.history.calls.get(*call) {
                writeln!(f, "  {call}")?;
            }
        }
        for (number, end) in self.history.ends.iter().enumerate() {
            let shown = self.violation.calls.iter().filter_map(|call| self.history.calls.get(*call));
            if shown.clone().any(|call| call.incarnation == number) {
                writeln!(f, "  {:>12.3} ms  end of the server's start {number}", *end as f64 / 1e6)?;
            }
        }
        Ok(())
    }
}

/// All violations found, the most informative first: at most one for each object. An error means that
/// the history itself cannot be judged.
pub fn check(history: &History) -> Result<Vec<Violation>, String> {
    let mut violations = forbidden_answers(history);
    let stories = Stories::of(history)?;
    for story in stories.iter() {
        let story = &story?;
        let shapes = pages::check(history, story);
        let broken = !shapes.is_empty();
        violations.extend(shapes);
        // A malformed page proves nothing about missing items.
        if broken {
            continue;
        }
        if history.promises == Promises::Linearizable {
            violations.extend(monotonic::check(history, story));
            violations.extend(clusters::check(history, story)?);
        }
        violations.extend(windows::check(history, story));
    }
    violations.extend(members::check(history)?);
    violations.extend(bounded::check(history)?);
    violations.extend(definitions::check(history)?);
    violations.extend(bags::check(history));
    Ok(violations)
}

fn forbidden_answers(history: &History) -> Vec<Violation> {
    let reported = |(index, call): (usize, &crate::history::Call)| match &call.outcome {
        Outcome::Forbidden { answer } => Some(Violation::new("documented answers only", answer.clone(), [index])),
        _ => None,
    };
    history.calls.iter().enumerate().filter_map(reported).collect()
}
