//! The common part of reads of one query, and the part of one answer that each of them gets.

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::domain::{ListKey, Timestamp, Ttl};
use crate::items::{ItemPage, OpContext, Range, StoreError};

/// The common part of identical reads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Query {
    pub list: ListKey,
    pub ttl: Ttl,
    pub range: Range,
}

/// The answer to a request.
#[derive(Debug, Clone)]
pub struct FetchedPage {
    pub page: ItemPage,
    /// The timestamp of the item because of which `page.more` is set.
    pub next: Option<Timestamp>,
    /// The stored expiry of each of the items, and of that next one, in nanoseconds since the Unix epoch. Empty if the
    /// database drops expired items.
    pub expiries: Vec<u64>,
}

impl FetchedPage {
    /// The answer for a caller at another moment.
    fn visible_at(mut self, now: Timestamp, ttl: Ttl) -> ItemPage {
        let oldest = ttl.visible_from(now);
        let is_over = |expiry: Option<&u64>| expiry.is_some_and(|expiry| *expiry <= now.as_nanos());
        if self.expiries.iter().any(|expiry| is_over(Some(expiry))) {
            let next = self.page.items.len();
            self.page.more &= !is_over(self.expiries.get(next));
            let mut expiries = self.expiries.iter();
            self.page.items.retain(|_| !is_over(expiries.next()));
        }
        let items = &mut self.page.items;
        if items.last().is_some_and(|last| last.timestamp < oldest) {
            items.truncate(items.partition_point(|item| item.timestamp >= oldest));
        }
        self.page.more &= self.next.is_some_and(|next| next >= oldest);
        self.page
    }
}

/// A read that waits for its answer.
#[derive(Debug)]
pub struct Member {
    pub now: Timestamp,
    pub deadline: Instant,
    pub answer: oneshot::Sender<Result<ItemPage, StoreError>>,
}

/// The operation that serves all of these: as early as the earliest, and until the last deadline.
pub fn joint(members: &[Member], ttl: Ttl) -> Option<OpContext> {
    let now = members.iter().map(|member| member.now).min()?;
    let deadline = members.iter().map(|member| member.deadline).max()?;
    Some(OpContext::new(now, ttl, deadline))
}

/// Answers each read with its visible items; the last read without a copy.
pub fn deliver(mut members: Vec<Member>, ttl: Ttl, outcome: Result<FetchedPage, StoreError>) {
    let Some(last) = members.pop() else {
        return;
    };
    let give = |member: Member, outcome: Result<FetchedPage, StoreError>| {
        let now = member.now;
        // A caller that has left needs no answer.
        let _ = member.answer.send(outcome.map(|answer| answer.visible_at(now, ttl)));
    };
    members.into_iter().for_each(|member| give(member, outcome.clone()));
    give(last, outcome);
}
