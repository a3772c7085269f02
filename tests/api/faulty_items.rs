//! An item store in memory with faults on demand.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use async_trait::async_trait;
use liststore::domain::{ListKey, NewItem, Timestamp};
use liststore::items::memory::MemoryStore;
use liststore::items::{
    Abilities, Around, BagSwaps, ByteErasure, Done, Erased, ItemSession, ItemStore, ListAccess, OpContext, StoreError,
    Surrounded, ToAwait,
};
use tokio::time::Instant;

use super::faults::{Event, Faults};

pub struct FaultyItems {
    pub faults: Arc<Faults>,
    pub inner: Arc<MemoryStore>,
}

#[async_trait(?Send)]
impl ItemStore for FaultyItems {
    async fn open_session(&self) -> Result<Rc<dyn ItemSession>, StoreError> {
        if self.faults.sessions_left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_err() {
            return Err(StoreError::Unavailable { reason: "refused by the test".to_owned(), outcome_unknown: false });
        }
        Ok(Surrounded::by(FaultySession { faults: Arc::clone(&self.faults), inner: self.inner.open_session().await? }))
    }

    fn abilities(self: Arc<Self>) -> Abilities {
        Abilities {
            memory: None,
            permits: None,
            bag_swaps: BagSwaps::Atomic,
            reclaim: None,
            backup: Err("a store of tests"),
            erasure: Some(self),
            migration: None,
        }
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.faults.events.lock().unwrap().push(Event::Sync);
        self.faults.sync_fails.lock().unwrap().clone().map_or_else(|| self.inner.sync(), Err)
    }

    async fn idle(&self) {}

    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn read_only(&self) -> Option<String> {
        self.faults.read_only.lock().unwrap().clone()
    }

    fn warning(&self) -> Option<String> {
        None
    }
}

impl ByteErasure for FaultyItems {
    fn held(&self, lists: &[ListKey], _: Instant) -> Result<Option<Vec<bool>>, StoreError> {
        let held = self.faults.held.lock().unwrap();
        Ok(held.as_ref().map(|held| lists.iter().map(|list| held.contains(&name(list))).collect()))
    }

    fn erase_removed(&self) -> Result<Erased, StoreError> {
        Ok(Erased::Later)
    }

    fn erase_in_time(&self) -> Result<Option<Timestamp>, StoreError> {
        self.faults.erased_by.lock().unwrap().clone().transpose()
    }
}

/// A list, as the faults name it.
fn name(list: &ListKey) -> String {
    format!("{} {}", list.feature_key, list.entity_id.as_str())
}

struct FaultySession {
    faults: Arc<Faults>,
    inner: Rc<dyn ItemSession>,
}

impl FaultySession {
    fn fail_if(&self, fails: bool) -> Result<(), StoreError> {
        let failure = || StoreError::Unavailable { reason: "SECRET".to_owned(), outcome_unknown: false };
        if fails { Err(failure()) } else { Ok(()) }
    }

    async fn before_swap(&self) -> Result<(), StoreError> {
        self.faults.inject().await?;
        self.fail_if(self.faults.swaps_fail.load(SeqCst))?;
        self.faults.events.lock().unwrap().push(Event::Items);
        Ok(())
    }
}

#[async_trait(?Send)]
impl Around for FaultySession {
    type Held = ();

    fn session(&self) -> &dyn ItemSession {
        &*self.inner
    }

    async fn before(&self, _: &OpContext, access: ListAccess<'_>) -> Result<(), StoreError> {
        match access {
            ListAccess::Read(list) => {
                self.faults.inject().await?;
                self.fail_if(self.faults.unreadable.lock().unwrap().contains(&name(list)))
            }
            ListAccess::Remove(_) | ListAccess::Walk(_) => self.faults.inject().await,
            ListAccess::RemoveAll(list) => {
                self.faults.inject().await?;
                self.faults.clears_held.subscribe().wait_for(|held| !held).await.unwrap();
                self.fail_if(self.faults.uncleared.lock().unwrap().contains(&name(list)))?;
                self.faults.cleared.lock().unwrap().push(name(list));
                self.faults.events.lock().unwrap().push(Event::Items);
                Ok(())
            }
            ListAccess::Swap(_) => self.before_swap().await,
            ListAccess::EnterBags(bags) => {
                for _ in bags {
                    self.before_swap().await?;
                }
                Ok(())
            }
        }
    }

    fn start_add(self: Rc<Self>, op: OpContext, list: ListKey, items: Vec<NewItem>, done: Done) -> Option<ToAwait> {
        Some(Box::pin(async move {
            let added = match self.faults.inject().await {
                Ok(()) => self.inner.add(&op, &list, items).await,
                Err(failed) => Err(failed),
            };
            done(added);
        }))
    }
}
