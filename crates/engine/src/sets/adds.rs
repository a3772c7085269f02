//! Adds to sets. Adds that waited for a set together share a lookup. They become one write of the set, in which they
//! apply one after the other.

use std::rc::Rc;

use bytes::Bytes;
use hashbrown::HashSet;
use liststore_contract::domain::{ListKey, NewItem};
use liststore_storage::{Done, OpContext, SetAdd, StoreError, ToAwait};

use crate::collect::members::FoundMember;
use crate::collect::set_write::SetWrite;
use crate::log::change::Changes;
use crate::log::queue::QueueShare;
use crate::session::EmbeddedSession;

/// Adds that become one write.
struct Together {
    list: ListKey,
    /// With the time of the last of them, and the earliest deadline.
    op: OpContext,
    adds: Vec<(OpContext, Vec<NewItem>)>,
    /// The member of each item.
    members: Vec<Bytes>,
    done: Done,
}

impl Together {
    /// Answers the adds that are too late. `None` if no others are left.
    fn of(list: ListKey, adds: Vec<SetAdd>) -> Option<Self> {
        let identity = list.identity();
        let (mut begun, mut dones) = (Vec::with_capacity(adds.len()), Vec::with_capacity(adds.len()));
        for SetAdd { op, items, done } in adds {
            match op.begin() {
                Ok(()) => {
                    begun.push((op, items));
                    dones.push(done);
                }
                Err(late) => done(Err(late)),
            }
        }
        let mut op = begun.first()?.0;
        for (other, _) in &begun {
            (op.now, op.deadline) = (op.now.max(other.now), op.deadline.min(other.deadline));
        }
        let items = begun.iter().flat_map(|(_, items)| items);
        let members = items.map(|item| item.value.slice_ref(identity.member(&item.value))).collect();
        Some(Self { list, op, adds: begun, members, done: all_of(dones) })
    }
}

/// Answers all of them with the same result.
fn all_of(mut dones: Vec<Done>) -> Done {
    match dones.pop() {
        Some(only) if dones.is_empty() => only,
        last => Box::new(move |result| dones.into_iter().chain(last).for_each(|done| done(result.clone()))),
    }
}

impl EmbeddedSession {
    /// Adds items to a set, which its list's actor reserves for these adds. Completes without waiting if no write is
    /// left alone and the members are in memory.
    pub(crate) fn add_to_set(self: Rc<Self>, list: ListKey, adds: Vec<SetAdd>) -> Option<ToAwait> {
        let together = Together::of(list, adds)?;
        self.engine.metrics.set_adds_joined.inc_by(together.adds.len() as u64 - 1);
        if let Some(found) = self.find_at_once(&together) {
            return self.start_write(together, found);
        }
        Some(Box::pin(async move {
            match self.find_once_settled(&together).await {
                Ok(found) => {
                    if let Some(to_await) = self.start_write(together, found) {
                        to_await.await;
                    }
                }
                Err(error) => (together.done)(Err(error)),
            }
        }))
    }

    fn find_at_once(&self, Together { list, members, .. }: &Together) -> Option<Vec<FoundMember>> {
        if self.engine.queue.has_write_left_alone() { None } else { self.find_in_memory(list, members) }
    }

    /// The stored state of the members, including items beyond the number that the set shows.
    async fn find_once_settled(
        &self,
        Together { list, op, members, .. }: &Together,
    ) -> Result<Vec<FoundMember>, StoreError> {
        // A write of a caller that left may still be queued.
        self.engine.queue.no_write_left_alone(op.deadline).await.map_err(StoreError::with_nothing_done)?;
        self.find_members(op, list, members).await
    }

    /// Queues the write, once it has a place.
    fn start_write(self: Rc<Self>, together: Together, found: Vec<FoundMember>) -> Option<ToAwait> {
        let Together { list, op, adds, members, done } = together;
        let identity = list.identity();
        let set = self.list_id(&list);
        // A compaction may have dropped expired items that the head still has, which a clock that is stepped back would
        // show.
        self.engine.heads.forget_expired(&set, op.now.as_nanos(), || {
            let taken: HashSet<_> = members.into_iter().collect();
            move |value: &[u8]| taken.contains(identity.member(value))
        });
        let reverse = self.reverse_of(&set);
        let queue = &self.engine.queue;
        let Some(changes) = SetWrite::add(identity, adds, found).into_changes(set, reverse) else {
            // Existing items may have been written just now. The barrier answers once they are as durable as the log
            // promises, or fails.
            queue.push_barrier(op.deadline, done);
            return None;
        };
        match queue.try_place(QueueShare::Adds, changes) {
            Ok(placed) => {
                queue.push(placed, op.deadline, done);
                None
            }
            Err(changes) => Some(Box::pin(self.write_later(op, changes, done))),
        }
    }

    async fn write_later(self: Rc<Self>, op: OpContext, changes: Changes, done: Done) {
        match self.engine.queue.place(QueueShare::Adds, changes, op.deadline).await {
            Ok(placed) => self.engine.queue.push(placed, op.deadline, done),
            Err(error) => done(Err(error)),
        }
    }
}

impl Drop for EmbeddedSession {
    fn drop(&mut self) {
        // The turns that reserved a set until its adds were completed have ended with the session.
        self.engine.queue.leave();
    }
}
