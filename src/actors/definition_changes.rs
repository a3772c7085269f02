//! How the metadata actor makes changes of definitions: together all that arrived during the previous change, with one
//! fsync if the store can.

use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::{Instant, timeout, timeout_at};

use super::metadata_state::MetadataState;
use super::waiting_changes::{AskedChange, ChangeOutcome, WaitingChange};
use crate::metadata::{ChangeContext, MetadataError};

/// The store settles after this time without a change.
const QUIET: Duration = Duration::from_millis(100);
/// The longest time between two attempts to settle.
const QUIET_MAX: Duration = Duration::from_secs(10);

impl MetadataState {
    /// Answers once a change is made and the catalog shows it. A change that could not begin in time is withdrawn.
    pub async fn answer(&self, mut asked: AskedChange) -> ChangeOutcome {
        let answered = match timeout_at(asked.deadline, &mut asked.answered).await {
            Ok(answered) => answered,
            Err(_) if self.waiting.withdraw(asked.number) => return Err(too_late()),
            Err(_) => asked.answered.await,
        };
        answered.unwrap_or_else(|_| Err(broken_off()))
    }

    /// Makes changes in the order of their arrival, as long as the actor lives.
    pub async fn make_changes(self: Rc<Self>) {
        let most = self.store.together_max().max(1);
        // A previous actor may have died between a change and the settling of the store.
        let (mut company, mut is_settled, mut quiet) = (1, false, QUIET);
        loop {
            if !is_settled && timeout(quiet, self.waiting.until(1)).await.is_err() {
                is_settled = self.settle().await;
                quiet = if is_settled { QUIET } else { (quiet * 2).min(QUIET_MAX) };
                continue;
            }
            self.waiting.gather(company).await;
            // A change of an API key may hold the lock. While this waits, more changes may arrive.
            let _changing = self.changing.lock().await;
            let (in_time, late): (Vec<_>, Vec<_>) =
                self.waiting.take(most).into_iter().partition(|waiting| Instant::now() < waiting.deadline);
            for late in late {
                let _caller_has_left = late.answer.send(Err(too_late()));
            }
            company = in_time.len();
            if !in_time.is_empty() {
                self.make(in_time).await;
                is_settled = false;
            }
        }
    }

    /// Whether the store has settled. Otherwise it may have lost a change that the catalog has.
    async fn settle(&self) -> bool {
        let settled = self.store.settle().await;
        if let Err(error) = &settled {
            tracing::warn!(%error, "the metadata store could not settle after the last changes");
            self.note(&settled);
            self.refresher.read_everything();
        }
        settled.is_ok()
    }

    /// Makes changes together, publishes them in order, and answers each caller.
    async fn make(&self, waiting: Vec<WaitingChange>) {
        let at = self.clock.now();
        let (changes, answers): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .map(|WaitingChange { change, by, answer, .. }| ((change, ChangeContext { by, at }), answer))
            .unzip();
        let made = AssertUnwindSafe(self.store.apply_together(changes)).catch_unwind().await;
        let made = made.unwrap_or_else(|_| {
            tracing::error!("a change of definitions panicked: all definitions are read again");
            Vec::new()
        });
        let mut outcomes = made.into_iter();
        for answer in answers {
            let outcome = outcomes.next().unwrap_or_else(|| Err(broken_off()));
            if let Ok(applied) = &outcome {
                self.publish(applied);
            }
            let _caller_has_left = answer.send(outcome);
        }
    }
}

fn too_late() -> MetadataError {
    let reason = "the changes before it took too long".to_owned();
    MetadataError::Unavailable { reason, outcome_unknown: false }
}

fn broken_off() -> MetadataError {
    MetadataError::Internal { reason: "the change broke off".to_owned(), outcome_unknown: true }
}
