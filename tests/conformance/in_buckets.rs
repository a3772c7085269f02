//! A store that divides all lists into buckets, so that every case of the suite runs on them without changes.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use liststore::domain::{Bucket, Clock, FeatureKey, ListKey, NewItem, SystemClock, Timestamp};
use liststore::items::{
    Abilities, Around, Done, ItemSession, ItemStore, ListAccess, OpContext, StoreError, Surrounded, ToAwait,
};

pub struct InBuckets<S> {
    pub store: Arc<S>,
    pub bucket: Bucket,
}

struct Session {
    session: Rc<dyn ItemSession>,
    bucket: Bucket,
}

#[async_trait(?Send)]
impl<S: ItemStore> ItemStore for InBuckets<S> {
    async fn open_session(&self) -> Result<Rc<dyn ItemSession>, StoreError> {
        Ok(Surrounded::by(Session { session: self.store.open_session().await?, bucket: self.bucket }))
    }

    fn abilities(self: Arc<Self>) -> Abilities {
        let Abilities { bag_swaps, reclaim, .. } = Arc::clone(&self.store).abilities();
        Abilities {
            memory: None,
            permits: None,
            bag_swaps,
            reclaim,
            backup: Err("a store of tests"),
            erasure: None,
            migration: None,
        }
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.store.sync()
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.store.close().await
    }

    async fn idle(&self) {
        self.store.idle().await;
    }

    fn read_only(&self) -> Option<String> {
        self.store.read_only()
    }

    fn warning(&self) -> Option<String> {
        self.store.warning()
    }
}

#[async_trait(?Send)]
impl Around for Session {
    type Held = ();

    fn session(&self) -> &dyn ItemSession {
        &*self.session
    }

    async fn before(&self, _: &OpContext, _: ListAccess<'_>) -> Result<(), StoreError> {
        Ok(())
    }

    fn start_add(self: Rc<Self>, op: OpContext, list: ListKey, items: Vec<NewItem>, done: Done) -> Option<ToAwait> {
        Rc::clone(&self.session).start_add(op, list, items, done)
    }

    fn inside<'k>(&self, feature_key: &'k FeatureKey) -> Cow<'k, FeatureKey> {
        Cow::Owned(feature_key.clone().with_bucket(Some(self.bucket)))
    }
}

/// A clock that is ahead of the machine's by the distance to the next border of a bucket: cases have items on both
/// sides of it. The store uses it, too: otherwise it would cut lists by items that had not expired yet.
#[derive(Clone, Copy)]
pub struct AtTheBorder {
    ahead: u64,
}

impl AtTheBorder {
    pub fn of(bucket: Bucket) -> Self {
        let now = SystemClock.now();
        Self { ahead: bucket.end_of(now) - now.as_nanos() }
    }
}

impl Clock for AtTheBorder {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(SystemClock.now().as_nanos() + self.ahead).unwrap()
    }

    fn uptime(&self) -> Duration {
        SystemClock.uptime()
    }
}
