//! One change of a definition: one transaction, with its audit entry and its notification.
//!
//! The transaction begins by locking the revision, as all changes of all servers do. So changes are sequential, and the
//! later of two racing changes sees the earlier one's result. Revisions become visible in their order, so a reader of
//! changes misses none.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use prometheus::IntCounter;
use sqlx::{Connection, PgConnection};

use super::connections::Connections;
use super::error::{Failure, commit_was_undone, with_unknown_outcome};
use super::options::{BEGIN, CALL_TIME_MAX};
use super::queries;
use crate::definition::Feature;
use crate::domain::{FeatureId, Generation, Revision, VersionLabel};
use crate::metadata::MetadataError;
use crate::metadata::change::Transition;

/// The number of attempts of a change that collides with others.
const ATTEMPTS_MAX: usize = 4;

/// The basis of a decision: the current state, which stays unchanged until the change is made.
pub(super) struct Present {
    pub feature: Option<Feature>,
    /// The last generation of the created version, if it ever existed.
    pub last_generation: Option<Generation>,
    /// The number of the change.
    pub revision: Revision,
}

/// The outcome of a change.
pub(super) struct ChangeOutcome {
    /// The feature before the change.
    pub before: Option<Feature>,
    /// The effect; `None` without one.
    pub transition: Option<Transition>,
}

/// Decides the effect. It may run again after a collision with another change.
pub(super) type Decide<'a> = dyn Fn(&Present) -> Result<Option<Transition>, MetadataError> + Send + Sync + 'a;

/// The result of one transaction.
pub(super) struct Worked<T> {
    pub outcome: T,
    /// Whether there is anything to commit.
    pub changed: bool,
}

/// The work of one transaction. It may run again after a collision with another.
#[async_trait]
pub(super) trait Work: Send + Sync {
    type Outcome: Send;

    async fn carry_out(&self, connection: &mut PgConnection) -> Result<Worked<Self::Outcome>, Failure>;
}

/// Makes a change to a feature, completely or not at all for every server. `created` is the version whose last
/// generation the decision needs.
pub(super) async fn change(
    connections: &Connections,
    collisions: &IntCounter,
    id: &FeatureId,
    created: Option<&VersionLabel>,
    decide: &Decide<'_>,
) -> Result<ChangeOutcome, MetadataError> {
    carry_out(connections, collisions, &FeatureWork { id, created, decide }).await
}

/// Does work in a transaction, completely or not at all for every server.
pub(super) async fn carry_out<W: Work>(
    connections: &Connections,
    collisions: &IntCounter,
    work: &W,
) -> Result<W::Outcome, MetadataError> {
    let committing = AtomicBool::new(false);
    let attempts = async {
        let mut left = ATTEMPTS_MAX;
        loop {
            left -= 1;
            let mut lease = connections.lease().await?;
            match attempt(&mut lease, work, &committing).await {
                Ok(outcome) => {
                    lease.finished();
                    return Ok(outcome);
                }
                Err(failure) if failure.is_collision() && left > 0 => collisions.inc(),
                Err(Failure::Refused(error)) => {
                    lease.finished();
                    return Err(error);
                }
                Err(failure) => {
                    if failure.is_of_the_server() {
                        connections.suspect();
                    }
                    return Err(failure.into_error());
                }
            }
            committing.store(false, Ordering::Relaxed);
        }
    };
    let result = connections.within(CALL_TIME_MAX, attempts).await;
    if committing.load(Ordering::Relaxed) { result.map_err(with_unknown_outcome) } else { result }
}

/// Leaves no transaction open, unless the driver failed.
async fn attempt<W: Work>(
    connection: &mut PgConnection,
    work: &W,
    committing: &AtomicBool,
) -> Result<W::Outcome, Failure> {
    let mut transaction = connection.begin_with(BEGIN).await?;
    match work.carry_out(&mut transaction).await {
        Ok(Worked { outcome, changed: true }) => {
            committing.store(true, Ordering::Relaxed);
            let committed = transaction.commit().await;
            if committed.as_ref().err().is_none_or(commit_was_undone) {
                committing.store(false, Ordering::Relaxed);
            }
            committed?;
            Ok(outcome)
        }
        Ok(Worked { outcome, changed: false }) => {
            transaction.rollback().await?;
            Ok(outcome)
        }
        Err(failure) => {
            transaction.rollback().await?;
            Err(failure)
        }
    }
}

/// A change of a definition.
struct FeatureWork<'a> {
    id: &'a FeatureId,
    created: Option<&'a VersionLabel>,
    decide: &'a Decide<'a>,
}

#[async_trait]
impl Work for FeatureWork<'_> {
    type Outcome = ChangeOutcome;

    async fn carry_out(&self, connection: &mut PgConnection) -> Result<Worked<ChangeOutcome>, Failure> {
        let present = prepare(connection, self.id, self.created).await?;
        let transition = (self.decide)(&present).map_err(Failure::Refused)?;
        let before = present.feature;
        if let Some(transition) = &transition {
            write(connection, transition).await?;
        }
        let changed = transition.is_some();
        Ok(Worked { outcome: ChangeOutcome { before, transition }, changed })
    }
}

async fn prepare(
    connection: &mut PgConnection,
    id: &FeatureId,
    created: Option<&VersionLabel>,
) -> Result<Present, Failure> {
    let revision = queries::next_revision(connection).await?;
    let feature = queries::feature(connection, id).await?;
    let last_generation = match created {
        Some(label) => queries::last_generation(connection, id, label).await?,
        None => None,
    };
    Ok(Present { feature, last_generation, revision })
}

async fn write(connection: &mut PgConnection, transition: &Transition) -> Result<(), Failure> {
    let Transition { id, after, began, job, entry } = transition;
    match after {
        Some(feature) => queries::put_feature(connection, feature).await?,
        None => queries::delete_feature(connection, id).await?,
    }
    if let Some(job) = job
        && !queries::put_job(connection, job).await?
    {
        return Err(Failure::Refused(MetadataError::EtagMismatch));
    }
    if let Some((label, generation)) = began {
        queries::put_generation(connection, id, label, *generation).await?;
    }
    queries::add_history(connection, id, entry).await?;
    queries::notify(connection, entry.revision).await
}
