//! The embedded store as the contract of stores has it, with its optional abilities.

use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use liststore_contract::domain::{FeatureKey, Item, ListKey, ListKeyRef, Timestamp};
use liststore_storage::{
    Abilities, BagSwaps, BoundOf, ByteErasure, Erased, FileBackup, IsUnreachable, ItemBackup, ItemSession, ItemStore,
    MemoryReads, OpContext, PageInMemory, Range, Reclaim, StateToken, StoreError,
};
use tokio::time::Instant;

use super::{EmbeddedStore, spawn, stop};
use crate::backup;
use crate::collect::members::{MemberFinder, Present};
use crate::collect::page::{self, Collect};
use crate::engine::Engine;
use crate::erasure;
use crate::health;
use crate::list_id::BorrowedListId;
use crate::memory::member_index::MemberIndex;
use crate::options::Fsync;
use crate::presence;
use crate::read::found_bags;
use crate::session::EmbeddedSession;

#[async_trait(?Send)]
impl ItemStore for EmbeddedStore {
    async fn open_session(&self) -> Result<Rc<dyn ItemSession>, StoreError> {
        Ok(Rc::new(EmbeddedSession::new(self.engine.clone())))
    }

    fn abilities(self: Arc<Self>) -> Abilities {
        Abilities {
            memory: Some(self.clone()),
            permits: None,
            bag_swaps: BagSwaps::Atomic,
            reclaim: Some(self.clone()),
            backup: Ok(self.clone()),
            erasure: Some(self),
            migration: None,
        }
    }

    fn sync(&self) -> Result<(), StoreError> {
        let engine = &self.engine;
        // In the other mode the store acknowledges nothing before its fsync.
        if engine.options.fsync == Fsync::Group || engine.progress.is_durable() || engine.sync_log() {
            if let Some(place) = engine.progress.appended() {
                engine.options.durable.reach(place.as_u64());
            }
            return Ok(());
        }
        Err(health::unavailable(&engine.health.read_only().unwrap_or_default()))
    }

    /// Closing the store completes the queued writes.
    async fn idle(&self) {}

    async fn close(&self) -> Result<(), StoreError> {
        let running = std::mem::take(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner));
        let engine = self.engine.clone();
        let (done, stopped) = tokio::sync::oneshot::channel();
        // Waiting for the threads would hold up the arbiter.
        let stopper = spawn("items-close", move || {
            stop(&engine, running);
            let _nobody_waits = done.send(());
        });
        let internal = |reason: String| StoreError::Internal { reason, outcome_unknown: false };
        stopper.map_err(|error| internal(error.to_string()))?;
        stopped.await.map_err(|_| internal("closing was interrupted".into()))?;
        match self.engine.health.has_failed() {
            true => Err(health::unavailable(&self.engine.health.read_only().unwrap_or_default())),
            false => Ok(()),
        }
    }

    fn read_only(&self) -> Option<String> {
        self.engine.read_only()
    }

    fn warning(&self) -> Option<String> {
        None
    }
}

impl MemoryReads for EmbeddedStore {
    fn state(&self, list: &ListKey) -> Option<StateToken> {
        self.engine.heads.state(self.engine.options.list_hash.of_list(list.borrowed()))
    }

    fn get_from_memory(&self, op: &OpContext, list: &ListKey, range: &Range) -> Option<PageInMemory> {
        let bounded = match op.max_items {
            Some(max_items) => Some((range.at_most(max_items)?, max_items)),
            None => None,
        };
        let list = BorrowedListId::of(list.borrowed(), self.engine.options.list_hash);
        let range = bounded.as_ref().map_or(range, |(range, _)| range);
        let mut found = self.engine.heads.page_in_memory(list, op, range)?;
        bounded.iter().for_each(|(_, max_items)| found.page.end_with(*max_items));
        self.engine.metrics.head_hits.inc();
        Some(found)
    }

    fn bag_from_memory(&self, op: &OpContext, bag: ListKeyRef<'_>) -> Option<Option<Item>> {
        let bag = BorrowedListId::of(bag, self.engine.options.list_hash);
        let found = found_bags::bag(&self.engine.heads, op, bag)?;
        self.engine.metrics.head_hits.inc();
        Some(found)
    }

    fn bags_from_memory(
        &self,
        op: &OpContext,
        feature_key: &FeatureKey,
        entries: &[Item],
    ) -> Vec<Option<Option<Item>>> {
        let Engine { heads, options, metrics, .. } = &*self.engine;
        let found = found_bags::bags(heads, options.list_hash, op, feature_key, entries);
        metrics.head_hits.inc_by(found.iter().flatten().count() as u64);
        found
    }

    fn lookup_from_memory(&self, op: &OpContext, list: &ListKey, members: &[Bytes]) -> Option<Vec<Option<Item>>> {
        // Only reading the newest items shows which items are beyond them.
        if op.max_items.is_some() {
            return None;
        }
        let seen = |present: Option<Present>| present.and_then(|present| present.seen_by(op));
        let set = BorrowedListId::of(list.borrowed(), self.engine.options.list_hash);
        let find = |index: &MemberIndex| members.iter().map(|member| index.find(member)).collect::<Vec<_>>();
        let found = self.engine.heads.members(set, find).or_else(|| {
            let mut finder = MemberFinder::new(list.identity(), members.iter().cloned());
            page::collect_row(self.engine.heads.whole(set)?, &mut finder)?;
            Some(finder.finish())
        })?;
        self.engine.metrics.member_hits.inc();
        Some(found.into_iter().map(seen).collect())
    }
}

impl Reclaim for EmbeddedStore {
    fn forget(&self, unreachable: IsUnreachable) {
        let _said_before = self.engine.unreachable.set(unreachable);
        self.engine.bell.ring();
    }

    fn bound(&self, bound_of: BoundOf) {
        let _said_before = self.engine.bound_of.set(bound_of);
        self.engine.bell.ring();
    }
}

impl ByteErasure for EmbeddedStore {
    fn held(&self, lists: &[ListKey], deadline: Instant) -> Result<Option<Vec<bool>>, StoreError> {
        presence::held(&self.engine, lists, deadline)
    }

    fn erase_removed(&self) -> Result<Erased, StoreError> {
        erasure::erase(&self.engine).map(|()| Erased::Now)
    }

    fn erase_in_time(&self) -> Result<Option<Timestamp>, StoreError> {
        erasure::promise(&self.engine).map(Some)
    }
}

impl FileBackup for EmbeddedStore {
    fn backup(
        &self,
        to: &Path,
        cancelled: &(dyn Fn() -> bool + Sync),
        fixed: &mut dyn FnMut(),
    ) -> Result<ItemBackup, StoreError> {
        backup::write(&self.engine, to, cancelled, fixed)
    }
}
