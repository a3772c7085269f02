//! A session whose operations take turns as in a list actor: for suites that use a store without a pool.

use std::rc::Rc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use liststore::actors::{ListTurns, Turn, TurnTaken};
use liststore::domain::{ListKey, NewItem};
use liststore::items::{Around, Done, ItemSession, ItemStore, ListAccess, OpContext, StoreError, Surrounded, ToAwait};

pub struct InTurn(Rc<ListTurns>);

/// Opens a session. One attempt gives a cluster five seconds, too little on a busy machine.
pub async fn open_session(store: &dyn ItemStore) -> Rc<dyn ItemSession> {
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        match store.open_session().await {
            Ok(session) => return session,
            Err(error) => assert!(error.is_retryable() && Instant::now() < patience, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

impl InTurn {
    pub fn around(session: Rc<dyn ItemSession>) -> Rc<dyn ItemSession> {
        Surrounded::by(Self(ListTurns::of(session)))
    }
}

#[async_trait(?Send)]
impl Around for InTurn {
    type Held = TurnTaken;

    fn session(&self) -> &dyn ItemSession {
        self.0.session()
    }

    async fn before(&self, op: &OpContext, access: ListAccess<'_>) -> Result<TurnTaken, StoreError> {
        match access {
            ListAccess::Read(_) | ListAccess::Walk(_) => Ok(TurnTaken::None),
            ListAccess::Remove(list) | ListAccess::Swap(list) => self.0.take(Turn::Alone, list, op.deadline).await,
            ListAccess::RemoveAll(list) => self.0.take(Turn::to_clear(list), list, op.deadline).await,
            ListAccess::EnterBags(bags) => {
                let lists: Vec<_> = bags.iter().map(|bag| bag.bag.clone()).collect();
                self.0.take_each(&lists, op.deadline).await
            }
        }
    }

    /// The turns join adds.
    fn start_add(self: Rc<Self>, op: OpContext, list: ListKey, items: Vec<NewItem>, done: Done) -> Option<ToAwait> {
        self.0.start_add(op, list, items, done)
    }
}
