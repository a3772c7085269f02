//! Finds the items of members by their reverse entries: one lookup at each member's place in the reverse list, then
//! one at each item that an entry points to. It reads each list from its beginning to its end.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use liststore_contract::domain::Identity;

use crate::collect::members::{FoundMember, Present};
use crate::collect::turn::Turn;
use crate::error::ReadError;
use crate::list_id::ListId;
use crate::read::tables::{InMemory, View};
use crate::row::merge::Merge;
use crate::row::reverse::{self, Pointer};
use crate::row::seek::Start;

/// The cost of a lookup within a turn, in opened sources.
const SEARCH_STEP_COST: usize = 2;

/// A list, and its memory content.
pub struct Held {
    pub list: ListId,
    pub in_memory: InMemory,
}

/// A wanted member, and the place of its entry.
struct Wanted {
    place: u64,
    found: FoundMember,
}

/// An entry, and the members with its place: nearly always one.
struct Candidate {
    pointer: Pointer,
    wanted: Range<usize>,
    is_stale: bool,
}

/// Its input is fixed at construction.
pub struct MemberSearch {
    view: Arc<View>,
    identity: Identity,
    reverse: Held,
    items: Held,
    /// By place, descending; each member once.
    wanted: Vec<Wanted>,
    /// The index of each requested member among them.
    asked: Vec<usize>,
    /// First in the order of their places, then of the items that they point to.
    candidates: Vec<Candidate>,
    stage: Stage,
}

enum Stage {
    Begun,
    /// The next lookup is at the place of this member.
    Entries(Merge<'static>, usize),
    /// The next lookup is at the item of this candidate.
    Items(Merge<'static>, usize),
    Done,
}

impl MemberSearch {
    /// Both lists must be held as of one moment.
    pub fn new(view: Arc<View>, identity: Identity, reverse: Held, items: Held, members: &[Bytes]) -> Self {
        let members = members.iter().enumerate();
        let mut by_place: Vec<_> = members.map(|(i, member)| (reverse::place_of(member), member, i)).collect();
        by_place.sort_unstable_by(|a, b| b.cmp(a));
        let mut wanted: Vec<Wanted> = Vec::with_capacity(by_place.len());
        let mut asked = vec![0; by_place.len()];
        for (place, member, i) in by_place {
            if wanted.last().is_none_or(|last| last.found.member != *member) {
                wanted.push(Wanted {
                    place,
                    found: FoundMember { member: member.clone(), present: None, stale: Vec::new() },
                });
            }
            asked[i] = wanted.len() - 1;
        }
        Self { view, identity, reverse, items, wanted, asked, candidates: Vec::new(), stage: Stage::Begun }
    }

    /// Continues for a turn. `None` if that was not enough. Must not be called again after any other result. The
    /// results are in the order of the members.
    pub fn turn(&mut self) -> Result<Option<Vec<FoundMember>>, ReadError> {
        let mut turn = Turn::new();
        while turn.spend(&[]) {
            turn.opened(SEARCH_STEP_COST);
            self.stage = match std::mem::replace(&mut self.stage, Stage::Done) {
                Stage::Begun => match self.wanted.first() {
                    Some(first) => {
                        let merge = self.open(&self.reverse, &at(first.place), &mut turn)?;
                        Stage::Entries(merge, 0)
                    }
                    None => Stage::Done,
                },
                Stage::Entries(mut merge, i) if i < self.wanted.len() => {
                    let next = self.read_entries(&mut merge, i)?;
                    Stage::Entries(merge, next)
                }
                Stage::Entries(..) => {
                    self.candidates.sort_by_cached_key(|candidate| candidate.pointer.start());
                    match self.candidates.first() {
                        Some(first) => {
                            let merge = self.open(&self.items, &first.pointer.start(), &mut turn)?;
                            Stage::Items(merge, 0)
                        }
                        None => Stage::Done,
                    }
                }
                Stage::Items(mut merge, i) if i < self.candidates.len() => {
                    let next = self.read_item(&mut merge, i)?;
                    Stage::Items(merge, next)
                }
                Stage::Items(..) | Stage::Done => return Ok(Some(self.finish())),
            };
        }
        Ok(None)
    }

    fn open(&self, held: &Held, start: &Start, turn: &mut Turn) -> Result<Merge<'static>, ReadError> {
        let merge = self.view.merge(&held.list, start, &held.in_memory)?;
        turn.opened(merge.sources());
        Ok(merge)
    }

    /// Takes the entries at the place of a member. Returns the next member with another place.
    fn read_entries(&mut self, merge: &mut Merge<'_>, i: usize) -> Result<usize, ReadError> {
        let Self { wanted, candidates, .. } = self;
        let place = wanted[i].place;
        let next = i + wanted[i..].iter().take_while(|other| other.place == place).count();
        merge.seek(&at(place))?;
        while let Some((entry, source)) = merge.current().filter(|(entry, _)| entry.timestamp == place) {
            if let Some(pointer) = Pointer::decode(source.value()).filter(|_| !entry.deleted) {
                candidates.push(Candidate { pointer, wanted: i..next, is_stale: true });
            }
            merge.advance()?;
        }
        Ok(next)
    }

    /// Reads the items that a candidate may point to. Returns the next candidate that points elsewhere.
    fn read_item(&mut self, merge: &mut Merge<'_>, i: usize) -> Result<usize, ReadError> {
        let Self { identity, wanted, candidates, .. } = self;
        let pointer = candidates[i].pointer;
        let next = i + candidates[i..].iter().take_while(|other| other.pointer == pointer).count();
        merge.seek(&pointer.start())?;
        while let Some((entry, source)) = merge.current()
            && entry.timestamp == pointer.timestamp
            && pointer.means(entry.timestamp, &source.row().digest())
        {
            let member = identity.member(source.value());
            for candidate in candidates[i..next].iter_mut().filter(|_| !entry.deleted) {
                let wanted = &mut wanted[candidate.wanted.clone()];
                let place = wanted.first().map(|first| first.place);
                match wanted.iter_mut().find(|wanted| wanted.found.member == member) {
                    Some(wanted) => {
                        wanted.found.present =
                            Some(Present::new(entry.timestamp, entry.expires_at, source.row().value_bytes()));
                        candidate.is_stale = false;
                    }
                    // The item of another member, which was not requested.
                    None => candidate.is_stale &= place != Some(reverse::place_of(member)),
                }
            }
            merge.advance()?;
        }
        Ok(next)
    }

    fn finish(&mut self) -> Vec<FoundMember> {
        for Candidate { pointer, wanted, .. } in self.candidates.drain(..).filter(|candidate| candidate.is_stale) {
            // One of several members is enough to remove it.
            self.wanted[wanted.start].found.stale.push(pointer);
        }
        self.asked.iter().map(|i| self.wanted[*i].found.clone()).collect()
    }
}

/// The start of a place's entries.
fn at(place: u64) -> Start {
    Start { ceiling: place, below: None }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;
    use crate::collect::set_write::SetWrite;
    use crate::log::Position;
    use crate::memory::memtable::Memtable;
    use crate::options::ListHash;
    use crate::read::tables::{Files, no_files};
    use crate::row::work;
    use liststore_contract::domain::{Keep, NewItem, Timestamp, Ttl};
    use liststore_storage::OpContext;

    const IDENTITY: Identity = Identity::Value(Keep::Newest);

    /// A set in memory, to which members are added as a session adds them.
    struct Set {
        view: Arc<View>,
        set: ListId,
        reverse: ListId,
    }

    impl Set {
        fn new() -> Self {
            let set = ListId::from_bytes(b"set", ListHash::Token);
            let reverse = reverse::list_of(&set, ListHash::Token);
            let active = Arc::new(Memtable::new(Position::start_of(1)));
            let view = View { active, frozen: None, files: Arc::new(Files::new(no_files())) };
            Self { view: Arc::new(view), set, reverse }
        }

        fn find(&self, members: &[Bytes]) -> Vec<FoundMember> {
            let held = |list: &ListId| Held { list: list.clone(), in_memory: self.view.in_memory(list, u64::MAX) };
            let (view, reverse, items) = (Arc::clone(&self.view), held(&self.reverse), held(&self.set));
            let mut search = MemberSearch::new(view, IDENTITY, reverse, items, members);
            loop {
                if let Some(found) = search.turn().unwrap() {
                    return found;
                }
            }
        }

        fn add(&self, members: impl Iterator<Item = (u64, Bytes)>) {
            let item = |(nanos, value)| NewItem {
                timestamp: Timestamp::from_nanos(nanos).unwrap(),
                value,
                expires_at: u64::MAX,
            };
            let items: Vec<_> = members.map(item).collect();
            let values: Vec<_> = items.iter().map(|item| item.value.clone()).collect();
            let op = OpContext::new(Timestamp::MIN, Ttl::MAX, Instant::now() + Duration::from_secs(600));
            let write = SetWrite::add(IDENTITY, vec![(op, items)], self.find(&values));
            for change in write.into_changes(self.set.clone(), self.reverse.clone()).unwrap().as_slice() {
                self.view.active.apply(&change.list, &change.change, change.oldest);
            }
        }
    }

    fn name(n: u64) -> Bytes {
        format!("member-{n}").into()
    }

    /// Counts walked items, independently of the machine. (Merging rows is excluded, because adds to any list cost
    /// that.)
    #[test]
    fn finding_members_in_memory_costs_about_the_same_in_long_sets() {
        let mut walked = Vec::new();
        for members in [100_u64, 100_000] {
            let set = Set::new();
            for first in (0..members).step_by(10) {
                set.add((first..first + 10).map(|n| (1_000 * n, name(n))));
            }
            let new: Vec<_> = (0..100).map(|n| name(members + n)).collect();
            let there: Vec<_> = (0..100).map(|n| name(n * members / 100)).collect();
            for (members, are_there) in [(&new, false), (&there, true)] {
                for member in members {
                    let (found, items) = work::walked_by(|| set.find(std::slice::from_ref(member)));
                    assert_eq!(found[0].present.is_some(), are_there);
                    walked.push(items);
                }
            }
        }
        let mean = |part: usize| walked[100 * part..][..100].iter().sum::<u64>() / 100;
        let [short_new, short_there, long_new, long_there] = [0, 1, 2, 3].map(mean);
        // A few rows more, and in each of them the items between two bookmarks.
        assert!(long_new <= short_new + 300 && long_there <= short_there + 600, "{long_new}, {long_there}");
    }

    /// Members that share a place, and items that share a timestamp, are distinguished.
    #[test]
    fn each_of_many_members_of_one_moment_is_found() {
        let set = Set::new();
        set.add((0..2_000).map(|n| (7, name(n))));
        let asked: Vec<_> = (0..3_000).map(|n| name(n * 7 % 3_000)).collect();
        let found = set.find(&asked);
        for (asked, found) in asked.iter().zip(found) {
            let exists = std::str::from_utf8(&asked[7..]).unwrap().parse::<u64>().unwrap() < 2_000;
            assert_eq!(found.present.map(|present| present.value().clone()), exists.then(|| asked.clone()));
        }
    }
}
