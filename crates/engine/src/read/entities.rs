//! The entities with lists of a feature version, and the bags of a type: a walk over all lists, in their order, part by
//! part and turn by turn. Each part uses a new view of the store, so a walk holds nothing between its parts. Flushes
//! and compactions in between do not change its results.

use std::collections::BinaryHeap;
use std::sync::Arc;

use liststore_contract::domain::{EntityId, FeatureKey, Item};
use liststore_storage::{Bounds, Count, EntityPlace, ItemPage, OpContext, Range};

use super::tables::View;
use crate::collect::page::{self, Collect, Counter, Next, PageBuilder};
use crate::collect::turn::Turn;
use crate::error::ReadError;
use crate::files::{PARTITIONS, Scan, partition_of};
use crate::list_id::ListId;
use crate::memory::memtable::Memtable;
use crate::options::ListHash;
use crate::row::merge::Merge;
use crate::row::reverse;
use crate::row::seek::Start;

/// The largest number of lists of any feature that one part checks.
const LISTS_MAX: usize = 10_000;
/// The size of the items that one part returns, not counting the last one.
const BYTES_MAX: usize = 4 << 20;
/// Memtable lists that one part includes.
const PENDING_MAX: usize = 2_000;
/// The cost of searching a part of the memtable: as much as starting to read this many sources.
const PART_COST: usize = 8;

/// The data that a walk returns of each list.
pub trait WalkTarget {
    type Collector: Collect;
    type Of;

    fn collector(op: &OpContext) -> Self::Collector;

    /// `None` for a list without visible items.
    fn of(entity: EntityId, found: <Self::Collector as Collect>::Found) -> Option<Self::Of>;

    /// Its memory in addition to the entity's name.
    fn bytes(found: &Self::Of) -> usize;
}

/// Its entity.
pub struct Entities;

impl WalkTarget for Entities {
    type Collector = Counter;
    type Of = EntityId;

    fn collector(op: &OpContext) -> Counter {
        Counter::new(op, &Bounds::ALL, 1)
    }

    fn of(entity: EntityId, found: Count) -> Option<EntityId> {
        (found.items > 0).then_some(entity)
    }

    fn bytes(_: &EntityId) -> usize {
        0
    }
}

/// Its newest item, as of a bag.
pub struct Bags;

impl WalkTarget for Bags {
    type Collector = PageBuilder;
    type Of = (EntityId, Item);

    fn collector(op: &OpContext) -> PageBuilder {
        PageBuilder::new(op, &Range::NEWEST)
    }

    fn of(entity: EntityId, mut found: ItemPage) -> Option<(EntityId, Item)> {
        found.items.pop().map(|bag| (entity, bag))
    }

    fn bytes((_, bag): &(EntityId, Item)) -> usize {
        bag.value.len()
    }
}

/// The result of one part of the walk.
pub struct WalkPart<T> {
    pub found: Vec<T>,
    /// Where the walk continues. `None` at its end.
    pub next: Option<EntityPlace>,
}

/// One part of the walk.
pub struct EntityRead<T: WalkTarget> {
    view: Arc<View>,
    op: OpContext,
    hash: ListHash,
    /// The prefix of the bytes of the feature version's lists.
    prefix: Vec<u8>,
    limit: usize,
    /// The last checked list.
    place: ListId,
    lists_scanned: usize,
    found: Vec<T::Of>,
    found_bytes: usize,
    stage: Stage<T::Collector>,
}

enum Stage<C> {
    /// This many parts of the memtable were searched.
    Begun(usize, Nearest),
    Lists(Lists),
    /// Checks whether any item of the list is visible.
    Reading(Lists, Merge<'static>, C),
}

/// Whether it is an entity's list of the feature version with this prefix, and not an accompanying one.
fn is_of(prefix: &[u8], list: &ListId) -> bool {
    list.bytes().starts_with(prefix) && !reverse::is_reverse(list.bytes())
}

impl<T: WalkTarget> EntityRead<T> {
    pub fn new(
        view: Arc<View>,
        op: &OpContext,
        hash: ListHash,
        feature_key: &FeatureKey,
        from: Option<&EntityPlace>,
        limit: usize,
    ) -> Self {
        let prefix = [feature_key.as_str().as_bytes(), b"\0"].concat();
        let place = match from {
            Some(EntityPlace { after: Some(entity), .. }) => {
                ListId::from_bytes(&[&prefix, entity.as_str().as_bytes()].concat(), hash)
            }
            from => ListId::before(from.map_or(0, |from| from.hash)),
        };
        let (found, stage) = (Vec::new(), Stage::Begun(0, Nearest::default()));
        Self { view, op: *op, hash, prefix, limit, place, lists_scanned: 0, found, found_bytes: 0, stage }
    }

    /// Continues for a turn. `None` if that was not enough. Must not be called again after any other result.
    pub fn turn(&mut self) -> Result<Option<WalkPart<T::Of>>, ReadError> {
        let mut turn = Turn::new();
        loop {
            if !turn.spend(&[]) {
                return Ok(None);
            }
            // Only an error, after which there are no more turns, leaves this value.
            self.stage = match std::mem::replace(&mut self.stage, Stage::Begun(0, Nearest::default())) {
                Stage::Begun(part, mut nearest) if part < Memtable::PARTS => {
                    for pending in [Some(&self.view.active), self.view.frozen.as_ref()].into_iter().flatten() {
                        pending.visit(part, |list| {
                            if *list > self.place && is_of(&self.prefix, list) {
                                nearest.offer(list);
                            }
                        });
                    }
                    turn.opened(PART_COST);
                    Stage::Begun(part + 1, nearest)
                }
                Stage::Begun(_, nearest) => {
                    let partition = partition_of(self.place.hash());
                    Stage::Lists(Lists::open(&self.view, partition, &self.place, self.hash, nearest, &mut turn)?)
                }
                Stage::Lists(lists) if self.is_full() || lists.ends_at(&self.place) => {
                    let place = EntityPlace { hash: self.place.hash(), after: self.entity_of(&self.place) };
                    return Ok(Some(self.page(Some(place))));
                }
                Stage::Lists(mut lists) => {
                    let Some(list) = lists.next(&self.view, &self.place, self.hash, &mut turn)? else {
                        return Ok(Some(self.page(None)));
                    };
                    // Not between the lists of one hash, because a place must not reveal other features' entities.
                    if self.lists_scanned >= LISTS_MAX && list.hash() > self.place.hash() {
                        return Ok(Some(self.page(Some(EntityPlace { hash: list.hash(), after: None }))));
                    }
                    turn.opened(1);
                    self.lists_scanned += 1;
                    let ours = is_of(&self.prefix, &list);
                    lists.pass(&list)?;
                    self.place = list;
                    if ours {
                        let in_memory = self.view.in_memory(&self.place, u64::MAX);
                        let merge = self.view.merge(&self.place, &Start::NEWEST, &in_memory)?;
                        turn.opened(merge.sources());
                        Stage::Reading(lists, merge, T::collector(&self.op))
                    } else {
                        Stage::Lists(lists)
                    }
                }
                Stage::Reading(lists, mut merge, mut collector) => {
                    if page::collect_from(&mut merge, &mut collector, &mut turn)? == Next::Wanted {
                        self.stage = Stage::Reading(lists, merge, collector);
                        return Ok(None);
                    }
                    let found = self.entity_of(&self.place).and_then(|entity| T::of(entity, collector.finish()));
                    self.found_bytes += found.as_ref().map_or(0, T::bytes);
                    self.found.extend(found);
                    Stage::Lists(lists)
                }
            };
        }
    }

    fn entity_of(&self, list: &ListId) -> Option<EntityId> {
        let entity = list.bytes().strip_prefix(self.prefix.as_slice())?;
        EntityId::new(std::str::from_utf8(entity).ok()?).ok()
    }

    fn is_full(&self) -> bool {
        self.found.len() >= self.limit || self.found_bytes >= BYTES_MAX
    }

    fn page(&mut self, next: Option<EntityPlace>) -> WalkPart<T::Of> {
        WalkPart { found: std::mem::take(&mut self.found), next }
    }
}

/// The first ones of the offered lists.
#[derive(Default)]
struct Nearest {
    /// The last one on top.
    lists: BinaryHeap<ListId>,
    left_out: bool,
}

impl Nearest {
    fn offer(&mut self, list: &ListId) {
        if self.lists.len() < PENDING_MAX {
            self.lists.push(list.clone());
            return;
        }
        self.left_out = true;
        if let Some(mut last) = self.lists.peek_mut()
            && list < &*last
        {
            *last = list.clone();
        }
    }
}

/// The lists after a place.
struct Lists {
    /// The lists of the memtables, the first one last.
    pending: Vec<ListId>,
    /// Later lists of the memtables were left out.
    known_to: Option<ListId>,
    /// The files of this partition.
    partition: usize,
    scans: Vec<Scan>,
}

impl Lists {
    fn open(
        view: &View,
        partition: usize,
        place: &ListId,
        hash: ListHash,
        Nearest { lists, left_out }: Nearest,
        turn: &mut Turn,
    ) -> Result<Self, ReadError> {
        let mut pending = lists.into_sorted_vec();
        pending.dedup();
        let known_to = pending.last().cloned().filter(|_| left_out);
        pending.reverse();
        let mut lists = Self { pending, known_to, partition, scans: Vec::new() };
        lists.scan(view, place, hash, turn)?;
        Ok(lists)
    }

    fn scan(&mut self, view: &View, place: &ListId, hash: ListHash, turn: &mut Turn) -> Result<(), ReadError> {
        let runs = view.files.partition(self.partition);
        self.scans = runs.iter().map(|run| run.scan_behind(place, hash)).collect::<Result<_, _>>()?;
        turn.opened(runs.len());
        Ok(())
    }

    /// Whether the part must end at a place, which is a list of the feature version.
    fn ends_at(&self, place: &ListId) -> bool {
        self.known_to.as_ref() == Some(place)
    }

    /// The next list, of any feature.
    fn next(
        &mut self,
        view: &View,
        place: &ListId,
        hash: ListHash,
        turn: &mut Turn,
    ) -> Result<Option<ListId>, ReadError> {
        loop {
            let pending = self.pending.last();
            let here = pending.filter(|list| partition_of(list.hash()) == self.partition);
            if let Some(next) = self.scans.iter().filter_map(Scan::list).chain(here).min() {
                return Ok(Some(next.clone()));
            }
            if self.partition + 1 >= PARTITIONS {
                return Ok(None);
            }
            self.partition += 1;
            self.scan(view, place, hash, turn)?;
        }
    }

    /// Continues after a list.
    fn pass(&mut self, list: &ListId) -> Result<(), ReadError> {
        for scan in self.scans.iter_mut().filter(|scan| scan.list() == Some(list)) {
            scan.skip_list()?;
        }
        self.pending.pop_if(|pending| pending == list);
        Ok(())
    }
}
