//! The faults of a run, and their times: after a number of operations, so that a fault has the same load on every
//! machine.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use tokio::sync::watch;

use crate::backends::Failure;
use crate::disks::FailureLog;
use crate::run::Plan;
use crate::subject::Subject;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// SIGKILL, then a start.
    Kill,
    /// SIGKILL, then starts that are killed as well before they serve, then a start.
    KillInStart,
    /// SIGTERM in the middle of it all, then a start.
    Terminate,
    /// All threads stop for a moment, and continue.
    Pause,
    /// The pool of list actors gets other sizes, one after the other. No call may fail for it.
    Resize,
    /// The wall clock steps ahead or back by an hour, or from a step to a third place.
    StepClock,
    /// Once the program that the server runs in has failed it, and clients have seen that: SIGKILL, then a
    /// start without that program.
    Unwrap { after: FailureLog },
    /// A store that is not the server's own fails for a while.
    Backend(Failure),
}

impl Fault {
    /// Its kind, for counts.
    pub fn name(&self) -> String {
        match self {
            Self::Backend(failure) => format!("{failure:?}"),
            Self::Unwrap { .. } => "Unwrap".to_owned(),
            other => format!("{other:?}"),
        }
    }
}

/// The extent of a start before it is killed: from barely begun to serving.
const START_KILL_MS_MAX: u64 = 400;
const PAUSE_MS: u64 = 300;
/// From one list actor, which has all lists, to many.
const POOL_SIZES: [usize; 5] = [8, 1, 4, 2, 3];
/// Enough for some reads and some writes.
const CALLS_AFTER_FAILURE: usize = 300;
const CLOCK_OFFSETS_SECS: [i64; 3] = [-3_600, 0, 3_600];

/// Injects the plan's faults in its order, roughly evenly over its operations. Returns how many processes a SIGKILL
/// ended.
pub fn inject(
    plan: &Plan,
    subjects: &[Arc<Subject>],
    mut done: watch::Receiver<usize>,
    mut rng: Rng,
) -> impl Future<Output = Result<usize, String>> + use<> {
    let (faults, subjects, backends) = (plan.faults.clone(), subjects.to_vec(), plan.backends.clone());
    let stretch = plan.operations / (faults.len() + 1);
    async move {
        let mut kills = 0;
        for (number, fault) in faults.into_iter().enumerate() {
            let at = stretch * (number + 1) - rng.usize(0..=stretch / 3);
            // An error is the end of all clients: they are done, and so are the faults.
            if done.wait_for(|done| *done >= at).await.is_err() {
                break;
            }
            if let Fault::Unwrap { after } = &fault {
                after.await_failure().await?;
                let so_far = *done.borrow();
                if done.wait_for(|done| *done >= so_far + CALLS_AFTER_FAILURE).await.is_err() {
                    break;
                }
            }
            kills += match (fault, &backends) {
                (Fault::Backend(failure), Some(backends)) => backends.fail(failure, &mut rng).await.map(|()| 0)?,
                (fault, _) => {
                    let hit = rng.usize(0..subjects.len());
                    carry_out(fault, &subjects[hit], &mut rng).await?
                }
            };
        }
        Ok(kills)
    }
}

async fn carry_out(fault: Fault, subject: &Subject, rng: &mut Rng) -> Result<usize, String> {
    match fault {
        Fault::Kill => {
            subject.kill().await?;
            subject.bring_up().await?;
            Ok(1)
        }
        Fault::KillInStart => {
            subject.kill().await?;
            let starts = rng.usize(1..3);
            for _ in 0..starts {
                subject.kill_in_start(Duration::from_millis(rng.u64(1..START_KILL_MS_MAX))).await?;
            }
            subject.bring_up().await?;
            Ok(1 + starts)
        }
        Fault::Terminate => {
            subject.terminate().await?;
            subject.bring_up().await?;
            Ok(0)
        }
        Fault::Resize => {
            for _ in 0..POOL_SIZES.len() {
                subject.resize_pool(rng.choice(POOL_SIZES).unwrap_or(1)).await?;
            }
            Ok(0)
        }
        Fault::StepClock => {
            let offset = rng.choice(CLOCK_OFFSETS_SECS).unwrap_or_default();
            subject.step_clock(offset).map(|()| 0)
        }
        Fault::Unwrap { .. } => {
            subject.kill().await?;
            subject.alter(|recipe| recipe.wrapper.clear());
            subject.bring_up().await?;
            Ok(1)
        }
        Fault::Backend(failure) => Err(format!("there is nothing that could have a {failure:?}")),
        Fault::Pause => {
            subject.pause(Duration::from_millis(PAUSE_MS)).await?;
            Ok(0)
        }
    }
}
