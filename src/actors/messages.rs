//! What the pool sends to a list actor: one message an operation, each with its permit.

use actix::Message;
use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::list_error::ListError;
use super::permit::Permit;
use crate::domain::{AheadMax, FeatureKey, Item, ListKey, Retention, Timestamp, TimestampUnit, Ttl, Value};
use crate::items::{
    self, BagEntries, BagPage, BagSwap, Bounds, EntityPage, EntityPlace, ItemPage, Range, ReadBag, Removal, SwapId,
    SwapLook, SwapPage, Swapped,
};

/// What every list operation carries.
#[derive(Debug)]
pub(super) struct Envelope {
    pub list: ListKey,
    pub retention: Retention,
    pub deadline: Instant,
    /// Given back when the store has finished, not when the caller leaves: it bounds the work, not
    /// the waiting.
    pub permit: Permit,
}

/// How far a timestamp may be ahead of the server's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct AheadBound {
    pub max: AheadMax,
    /// The setting or property that has the bound.
    pub source: &'static str,
}

impl AheadBound {
    /// A version's own bound, else the server's.
    pub fn of(version: Option<AheadMax>, server: AheadMax) -> Self {
        match version {
            Some(max) => Self { max, source: "timestamp_ahead_max of the feature version" },
            None => Self { max: server, source: "items.timestamp_ahead_max" },
        }
    }
}

#[derive(Debug, Message)]
#[rtype(result = "Result<ItemPage, ListError>")]
pub(super) struct Get {
    pub envelope: Envelope,
    pub range: Range,
}

/// Answered by whoever finishes it, and not by way of the actor, which is woken for it only once.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(super) struct Add {
    pub envelope: Envelope,
    pub items: Vec<(Timestamp, Value)>,
    pub ahead_max: AheadBound,
    pub reply: oneshot::Sender<Result<AddOutcome, ListError>>,
}

#[derive(Debug, Message)]
#[rtype(result = "Result<Vec<Option<Timestamp>>, ListError>")]
pub(super) struct Contains {
    pub envelope: Envelope,
    pub within: Bounds,
    pub values: Vec<Bytes>,
}

#[derive(Debug, Message)]
#[rtype(result = "Result<Vec<Option<Item>>, ListError>")]
pub(super) struct Lookup {
    pub envelope: Envelope,
    pub members: Vec<Bytes>,
}

#[derive(Debug, Message)]
#[rtype(result = "Result<items::Count, ListError>")]
pub(super) struct Count {
    pub envelope: Envelope,
    pub within: Bounds,
    pub max: u64,
}

#[derive(Debug, Message)]
#[rtype(result = "Result<u64, ListError>")]
pub(super) struct Remove {
    pub envelope: Envelope,
    pub removal: Removal,
}

#[derive(Debug, Message)]
#[rtype(result = "Result<(), ListError>")]
pub(super) struct RemoveAll {
    pub envelope: Envelope,
}

#[derive(Debug, Message)]
#[rtype(result = "Result<ReadBag, ListError>")]
pub(super) struct GetBag {
    pub envelope: Envelope,
}

#[derive(Debug, Message)]
#[rtype(result = "Result<Swapped, ListError>")]
pub(super) struct SwapBag {
    pub envelope: Envelope,
    pub swap: BagSwap,
}

/// About no list: any actor will do.
#[derive(Debug, Message)]
#[rtype(result = "Result<SwapPage, ListError>")]
pub(super) struct UnfinishedSwaps {
    pub look: SwapLook,
    pub deadline: Instant,
    pub permit: Permit,
}

#[derive(Debug, Message)]
#[rtype(result = "Result<(), ListError>")]
pub(super) struct FinishSwap {
    pub swap: SwapId,
    pub deadline: Instant,
    pub permit: Permit,
}

/// About a feature version, and no list of it: any actor will do.
#[derive(Debug, Message)]
#[rtype(result = "Result<EntityPage, ListError>")]
pub(super) struct Entities {
    pub feature_key: FeatureKey,
    pub retention: Retention,
    pub from: Option<EntityPlace>,
    pub limit: usize,
    pub deadline: Instant,
    pub permit: Permit,
}

/// The same of the bags of a type.
#[derive(Debug, Message)]
#[rtype(result = "Result<EntityPage, ListError>")]
pub(super) struct BagEntities {
    pub feature_key: FeatureKey,
    pub ttl: Ttl,
    pub from: Option<EntityPlace>,
    pub limit: usize,
    pub deadline: Instant,
    pub permit: Permit,
}

/// With the bags themselves.
#[derive(Debug, Message)]
#[rtype(result = "Result<BagPage, ListError>")]
pub(super) struct Bags {
    pub feature_key: FeatureKey,
    pub ttl: Ttl,
    pub from: Option<EntityPlace>,
    pub limit: usize,
    pub deadline: Instant,
    pub permit: Permit,
}

/// About bags that are all routed to the actor.
#[derive(Debug, Message)]
#[rtype(result = "Result<Vec<Swapped>, ListError>")]
pub(super) struct EnterBags {
    pub bags: Vec<BagEntries>,
    pub ttl: Ttl,
    pub deadline: Instant,
    pub permit: Permit,
}

/// What became of the items of one add: together as many as were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddOutcome {
    pub added: usize,
    pub already_expired: usize,
    /// The unit that the timestamp of an expired item was likely meant in.
    pub mistaken_unit: Option<TimestampUnit>,
}
