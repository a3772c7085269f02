//! How the metadata actor makes changes of definitions: all that have come by the time the one before is made are made
//! together, with one sync of the disk where the store can.

use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::{Instant, timeout, timeout_at};

use super::metadata_state::MetadataState;
use super::waiting_changes::{Asked, Outcome, Waiting};
use crate::metadata::{ChangeContext, MetadataError};

/// The store settles after so long without a change.
const QUIET: Duration = Duration::from_millis(100);
/// And at most after so long, if it could not.
const QUIET_MAX: Duration = Duration::from_secs(10);

impl MetadataState {
    /// Answers once a change is made and the catalog shows it. One that could not begin in time is taken back.
    pub async fn answer(&self, mut asked: Asked) -> Outcome {
        let answered = match timeout_at(asked.deadline, &mut asked.answered).await {
            Ok(answered) => answered,
            Err(_) if self.waiting.withdraw(asked.number) => return Err(too_late()),
            Err(_) => asked.answered.await,
        };
        answered.unwrap_or_else(|_| Err(broken_off()))
    }

    /// Makes changes as they come, in their order, for as long as the actor lives.
    pub async fn make_changes(self: Rc<Self>) {
        let most = self.store.together_max().max(1);
        // An actor before this one may have ended between a change and that.
        let (mut company, mut is_settled, mut quiet) = (1, false, QUIET);
        loop {
            if !is_settled && timeout(quiet, self.waiting.until(1)).await.is_err() {
                is_settled = self.settle().await;
                quiet = if is_settled { QUIET } else { (quiet * 2).min(QUIET_MAX) };
                continue;
            }
            self.waiting.gather(company).await;
            // The lock may be held by what is no change of a definition, and more may come meanwhile.
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

    /// Whether the store has settled. One that could not may have lost a change that the catalog has.
    async fn settle(&self) -> bool {
        let settled = self.store.settle().await;
        if let Err(error) = &settled {
            tracing::warn!(%error, "the metadata store could not settle after the last changes");
            self.note(&settled);
            self.refresher.read_everything();
        }
        settled.is_ok()
    }

    /// Makes changes together, publishes them one after another, and answers each.
    async fn make(&self, waiting: Vec<Waiting>) {
        let at = self.clock.now();
        let (changes, answers): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .map(|Waiting { change, by, answer, .. }| ((change, ChangeContext { by, at }), answer))
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
