//! Calls about lists that several callers share. An operation with one caller needs no function here: it runs by
//! [`ListPool::read`] or [`ListPool::write`].

use bytes::Bytes;
use tokio::time::Instant;

use super::list_error::ListError;
use super::list_pool::ListPool;
use super::turns::Turn;
use super::work::WorkTerms;
use crate::domain::{FeatureKey, Item, ListKey, Retention, Timestamp, Token};
use crate::items::{Bounds, EntityPage, EntityPlace, ItemPage, OpContext, PageInMemory, Range, StateToken, Validity};

impl ListPool {
    /// An operation at the current moment.
    pub(super) fn operation(&self, retention: impl Into<Retention>, deadline: Instant) -> OpContext {
        OpContext::new(self.inner.clock.now(), retention, deadline)
    }

    /// The state of a list, if its store has it in memory.
    pub fn state(&self, list: &ListKey) -> Option<StateToken> {
        self.inner.abilities.memory.as_ref()?.state(list)
    }

    /// Reads a page on this thread, if the store has it in memory. Also returns for how long the page is the answer, if
    /// that is known.
    pub fn get_from_memory(
        &self,
        list: &ListKey,
        retention: impl Into<Retention>,
        range: &Range,
        deadline: Instant,
    ) -> Option<(ItemPage, Option<Validity>)> {
        let memory = self.inner.abilities.memory.as_ref()?;
        let op = self.operation(retention, deadline);
        let PageInMemory { page, validity } = memory.get_from_memory(&op, list, range)?;
        Some((page, validity))
    }

    /// Reads a page: from memory if the store can, or else through the list's actor.
    pub async fn get(
        &self,
        list: &ListKey,
        retention: impl Into<Retention>,
        range: Range,
        deadline: Instant,
    ) -> Result<(ItemPage, Option<Validity>), ListError> {
        let retention = retention.into();
        if let Some(found) = self.get_from_memory(list, retention, &range, deadline) {
            return Ok(found);
        }
        let page = self.get_through_actor(list, retention, range, deadline).await?;
        Ok((page, None))
    }

    /// Reads a page through the list's actor, for a caller that has already tried to read from memory.
    pub async fn get_through_actor(
        &self,
        list: &ListKey,
        retention: impl Into<Retention>,
        range: Range,
        deadline: Instant,
    ) -> Result<ItemPage, ListError> {
        self.read(list.clone(), retention, deadline, async move |session, op, list| session.get(op, list, &range).await)
            .await
    }

    /// The newest visible item of each of these values within the bounds, in the order of the values.
    pub async fn contains(
        &self,
        list: ListKey,
        retention: impl Into<Retention>,
        within: Bounds,
        values: Vec<Bytes>,
        deadline: Instant,
    ) -> Result<Vec<Option<Timestamp>>, ListError> {
        self.read(list, retention, deadline, async move |session, op, list| {
            session.contains(op, list, &within, &values).await
        })
        .await
    }

    /// The visible item of each of these members of a set, in the order of the members: from memory if the store can,
    /// or else through the set's actor.
    pub async fn lookup(
        &self,
        set: ListKey,
        retention: impl Into<Retention>,
        members: Vec<Bytes>,
        deadline: Instant,
    ) -> Result<Vec<Option<Item>>, ListError> {
        let retention = retention.into();
        if let Some(memory) = &self.inner.abilities.memory
            && let Some(found) = memory.lookup_from_memory(&self.operation(retention, deadline), &set, &members)
        {
            return Ok(found);
        }
        self.read(set, retention, deadline, async move |session, op, set| session.lookup(op, set, &members).await).await
    }

    /// Removes all items of a list, visible or not.
    pub async fn remove_all(
        &self,
        list: ListKey,
        retention: impl Into<Retention>,
        deadline: Instant,
    ) -> Result<(), ListError> {
        let turn = Turn::to_clear(&list);
        self.write(list, turn, retention, deadline, async |session, op, list| session.remove_all(op, list).await).await
    }

    /// The entities that have lists of a feature version with visible items, from a place on. Of bags, also others: the
    /// caller reads each bag.
    pub async fn entities(
        &self,
        feature_key: FeatureKey,
        retention: impl Into<Retention>,
        from: Option<EntityPlace>,
        limit: usize,
        deadline: Instant,
    ) -> Result<EntityPage, ListError> {
        let token = token_of_walk(&feature_key, from.as_ref());
        self.deliver(token, WorkTerms::of_read(retention, deadline), async move |session, op| {
            session.entities(op, &feature_key, from.as_ref(), limit).await
        })
        .await
    }
}

/// Each part of a walk runs in another actor.
pub(super) fn token_of_walk(feature_key: &FeatureKey, from: Option<&EntityPlace>) -> Token {
    let hash = from.map_or(0, |from| from.hash);
    Token::of_bytes(&[feature_key.as_str().as_bytes(), &hash.to_be_bytes()].concat())
}
