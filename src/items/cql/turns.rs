//! Removals by value take turns at their list: two that overlapped would each find, and count, what
//! only one of them removes. One list has one session in a server, so this holds within a server; two
//! servers may still count an item twice.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as TurnMutex, OwnedMutexGuard};
use tokio::time::{Instant, timeout_at};

use crate::domain::ListKey;
use crate::items::StoreError;

/// The lists at which a removal is under way.
#[derive(Debug, Default)]
pub struct Turns {
    lists: Mutex<HashMap<ListKey, Arc<TurnMutex<()>>>>,
}

/// A turn at a list, until it is dropped.
#[derive(Debug)]
pub struct Turn<'a> {
    turns: &'a Turns,
    list: &'a ListKey,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Turns {
    fn lists(&self) -> MutexGuard<'_, HashMap<ListKey, Arc<TurnMutex<()>>>> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn at a list, in the order of asking, until the deadline.
    pub async fn at<'a>(&'a self, list: &'a ListKey, deadline: Instant) -> Result<Turn<'a>, StoreError> {
        let turn = Arc::clone(self.lists().entry(list.clone()).or_default());
        // Made before the wait, so that one that ends in vain is cleaned up after as well.
        let mut waiting = Turn { turns: self, list, guard: None };
        match timeout_at(deadline, turn.lock_owned()).await {
            Ok(guard) => {
                waiting.guard = Some(guard);
                Ok(waiting)
            }
            Err(_) => Err(StoreError::Timeout { outcome_unknown: false }),
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut lists = self.turns.lists();
        self.guard = None;
        // Whoever waits holds a count too.
        if lists.get(self.list).is_some_and(|turn| Arc::strong_count(turn) == 1) {
            lists.remove(self.list);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::domain::{EntityId, EntityType, FeatureId, FeatureKey, FeatureName, Generation, VersionLabel};

    fn list(entity_id: &str) -> ListKey {
        let id = FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new("seen").unwrap() };
        let key = FeatureKey::new(&id, &VersionLabel::new("").unwrap(), Generation::FIRST);
        ListKey::new(key, EntityId::new(entity_id).unwrap())
    }

    fn within(millis: u64) -> Instant {
        Instant::now() + Duration::from_millis(millis)
    }

    #[tokio::test]
    async fn one_list_has_one_turn_and_nothing_is_kept_of_it() {
        let (turns, one, other) = (Turns::default(), list("u-1"), list("u-2"));
        let first = turns.at(&one, within(1_000)).await.unwrap();
        let elsewhere = turns.at(&other, within(1_000)).await.unwrap();
        let late = turns.at(&one, within(20)).await;
        assert!(matches!(late, Err(StoreError::Timeout { outcome_unknown: false })));
        assert_eq!(turns.lists().len(), 2);
        let (second, ()) = tokio::join!(turns.at(&one, within(5_000)), async {
            tokio::task::yield_now().await;
            drop(first);
        });
        drop((second.unwrap(), elsewhere));
        assert!(turns.lists().is_empty());
    }
}
