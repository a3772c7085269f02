//! The set operations of a session: it finds members by reverse entries, and writes both together.

pub mod adds;
pub mod search;

use bytes::Bytes;
use hashbrown::HashSet;
use liststore_contract::domain::{Identity, Item, ListKey};
use liststore_storage::{OpContext, Removal, StoreError};
use tokio::time::Instant;

use super::collect::members::{FoundMember, MemberFinder};
use super::collect::page::Newest;
use super::collect::set_write::SetWrite;
use super::list_id::{BorrowedListId, ListId};
use super::log::queue::QueueShare;
use super::memory::member_index::{IndexBuilder, MemberIndex, Worth};
use super::read::Scan;
use super::read::removal::Taken;
use super::read::tables::InMemory;
use super::row::reverse;
use super::row::seek::Start;
use super::session::{EmbeddedSession, ReadInput};
use search::{Held, MemberSearch};

/// The largest number of members of a set in memory that are looked up on the arbiter itself.
const INLINE_MEMBERS_MAX: usize = 64;

impl EmbeddedSession {
    pub(crate) fn reverse_of(&self, set: &ListId) -> ListId {
        reverse::list_of(set, self.engine.options.list_hash)
    }

    /// Finds the stored items of some members, in their order.
    pub(crate) async fn find_members(
        &self,
        op: &OpContext,
        list: &ListKey,
        members: &[Bytes],
    ) -> Result<Vec<FoundMember>, StoreError> {
        if let Some(found) = self.find_in_memory(list, members) {
            return Ok(found);
        }
        let set = self.list_id(list);
        if let Some(worth) = self.engine.heads.members_due(&set, members.len()) {
            self.index_members(op, list.identity(), &set, worth).await;
            if let Some(found) = self.find_in_memory(list, members) {
                return Ok(found);
            }
        }
        self.engine.metrics.member_misses.inc();
        self.search_members(op, list, set, members).await
    }

    /// Does the same, if the set's table is in memory.
    pub(crate) fn find_in_memory(&self, list: &ListKey, members: &[Bytes]) -> Option<Vec<FoundMember>> {
        let find = |index: &MemberIndex| members.iter().map(|member| index.find(member)).collect::<Vec<_>>();
        let presents =
            self.engine.heads.members(BorrowedListId::of(list.borrowed(), self.engine.options.list_hash), find)?;
        self.engine.metrics.member_hits.inc();
        let found = |(member, present): (&Bytes, _)| FoundMember { member: member.clone(), present, stale: Vec::new() };
        Some(members.iter().zip(presents).map(found).collect())
    }

    /// Reads a worthwhile part of a set to build its table. If that fails, or takes too long, members are found without
    /// it.
    async fn index_members(&self, op: &OpContext, identity: Identity, set: &ListId, worth: Worth) {
        let now = Instant::now();
        let op = OpContext { deadline: now + op.deadline.saturating_duration_since(now) / 4, ..*op };
        let ReadInput { seen, view, in_memory, inline } = self.prepare_read(set, u64::MAX);
        let mut scan = Scan::new(view, in_memory, set.clone(), Start::NEWEST, IndexBuilder::new(identity, worth));
        if let Ok(Some(index)) = self.read(&op, inline, move || scan.turn().transpose()).await {
            self.engine.heads.keep_members(set, seen, index);
        }
    }

    /// Finds members by their reverse entries.
    async fn search_members(
        &self,
        op: &OpContext,
        list: &ListKey,
        set: ListId,
        members: &[Bytes],
    ) -> Result<Vec<FoundMember>, StoreError> {
        let engine = &self.engine;
        let reverse = self.reverse_of(&set);
        // Both as of one moment: between two changes of the set an entry and its item both exist.
        let (view, items, entries) = engine.heads.between_changes_of(&[&set, &reverse], || {
            let view = engine.tables.view();
            let (items, entries) = (view.in_memory(&set, u64::MAX), view.in_memory(&reverse, u64::MAX));
            (view, items, entries)
        });
        let in_memory = |list: &ListId, held: &InMemory| held.hides_files || !view.has_files_for(list);
        let inline = members.len() <= INLINE_MEMBERS_MAX && in_memory(&set, &items) && in_memory(&reverse, &entries);
        let (reverse, items) = (Held { list: reverse, in_memory: entries }, Held { list: set, in_memory: items });
        let mut search = MemberSearch::new(view, list.identity(), reverse, items, members);
        self.read(op, inline, move || search.turn().transpose()).await
    }

    /// The items of found members that an operation sees.
    async fn shown(
        &self,
        op: &OpContext,
        list: &ListKey,
        found: Vec<FoundMember>,
    ) -> Result<Vec<Option<Item>>, StoreError> {
        let present = |found: FoundMember| found.present.and_then(|present| present.seen_by(op));
        let mut seen: Vec<_> = found.into_iter().map(present).collect();
        if let Some(max_items) = op.max_items
            && seen.iter().any(Option::is_some)
        {
            // Only reading the newest items shows which of them are among them.
            let identity = list.identity();
            let member = |item: &Item| item.value.slice_ref(identity.member(&item.value));
            let finder = MemberFinder::new(identity, seen.iter().flatten().map(member));
            let shown = self.scan_from(op, list, Start::NEWEST, Newest::new(op, max_items, finder)).await?;
            seen.iter_mut().filter(|item| item.is_some()).zip(shown).for_each(|(item, shown)| {
                *item = shown.and_then(|shown| shown.seen_by(op));
            });
        }
        Ok(seen)
    }

    pub(crate) async fn look_up(
        &self,
        op: &OpContext,
        list: &ListKey,
        members: &[Bytes],
    ) -> Result<Vec<Option<Item>>, StoreError> {
        let found = self.find_members(op, list, members).await?;
        self.shown(op, list, found).await
    }

    /// Removes the items of some members. Returns the number of visible ones.
    pub(crate) async fn remove_members(
        &self,
        op: &OpContext,
        list: &ListKey,
        removal: &Removal,
        members: &[Bytes],
    ) -> Result<u64, StoreError> {
        let once: HashSet<_> = members.iter().cloned().collect();
        let once = Vec::from_iter(once);
        let found = self.find_members(op, list, &once).await?;
        let set = self.list_id(list);
        let mut write = SetWrite::default();
        write.delete(&found);
        let removed = self.shown(op, list, found).await?.iter().flatten().count() as u64;
        if let Some(changes) = write.into_changes(set.clone(), self.reverse_of(&set)) {
            self.write(op, QueueShare::Removals, changes).await?;
        }
        let taken = Taken::by(removal, list.identity());
        self.engine.heads.forget_removed(&set, |entry, value| taken.takes(entry, value));
        self.engine.heads.forget_some_members(&set, &once);
        Ok(removed)
    }
}
