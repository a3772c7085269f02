//! The work of a list actor: an operation with its permit and its turn, and the message of an add.

use std::marker::PhantomData;

use actix::Message;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::list_error::ListError;
use super::turns::Turn;
use crate::domain::{AheadMax, ListKey, Retention, Timestamp, TimestampUnit, Value};

/// Runs an operation with the session of its actor, on its arbiter.
pub(super) struct Work<F, T, P> {
    pub terms: WorkTerms,
    /// Released when the store has finished, not when the caller leaves: it bounds the work, not the waiting.
    pub permit: P,
    /// An async function of the session and of the operation's moment.
    pub run: F,
    pub answer: PhantomData<fn() -> T>,
}

impl<F, T: 'static, P> Message for Work<F, T, P> {
    type Result = Result<T, ListError>;
}

/// The terms on which an operation runs.
pub(super) struct WorkTerms {
    pub retention: Retention,
    pub deadline: Instant,
    pub effect: WorkEffect,
    pub turns: WantedTurns,
}

impl WorkTerms {
    /// For an operation that only reads.
    pub fn of_read(retention: impl Into<Retention>, deadline: Instant) -> Self {
        Self { retention: retention.into(), deadline, effect: WorkEffect::Read, turns: WantedTurns::None }
    }

    /// For an operation that writes, in these turns.
    pub fn of_write(retention: impl Into<Retention>, deadline: Instant, turns: WantedTurns) -> Self {
        Self { retention: retention.into(), deadline, effect: WorkEffect::Write, turns }
    }
}

/// Whether an interrupted operation may have changed something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkEffect {
    Read,
    Write,
}

/// The turns that an operation takes before it begins.
pub(super) enum WantedTurns {
    None,
    On(ListKey, Turn),
    AloneOnEach(Vec<ListKey>),
}

/// Adds items. The store's thread that completes the add answers the caller, without waking the actor again.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(super) struct AddWork<P> {
    pub list: ListKey,
    pub retention: Retention,
    pub deadline: Instant,
    pub permit: P,
    pub items: Vec<(Timestamp, Value)>,
    pub ahead_max: AheadBound,
    pub reply: oneshot::Sender<Result<AddOutcome, ListError>>,
}

/// How far a timestamp may be ahead of the server's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct AheadBound {
    pub max: AheadMax,
    /// The setting or property that has the bound.
    pub source: &'static str,
}

impl AheadBound {
    /// A version's own bound, or else the server's.
    pub fn of(version: Option<AheadMax>, server: AheadMax) -> Self {
        match version {
            Some(max) => Self { max, source: "timestamp_ahead_max of the feature version" },
            None => Self { max: server, source: "items.timestamp_ahead_max" },
        }
    }
}

/// The outcome for the items of one add. Both counts together are the number of items in the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddOutcome {
    pub added: usize,
    pub already_expired: usize,
    /// The unit in which the caller likely meant the timestamp of an expired item.
    pub mistaken_unit: Option<TimestampUnit>,
}
