//! Builds an index: enters all bags of a type that are older than it, part by part, while bags are created and deleted.
//!
//! Each writer of a bag enters it into all existing indexes, built or not. So only the bags without a write since
//! remain. The build adds the entries of each of these if the bag is unchanged since its read.

use std::cell::Cell;
use std::ops::Range;
use std::time::Duration;

use futures_util::future::try_join;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use tokio::time::{Instant, sleep};

use super::entries::entry_changes;
use super::finish::{CHECK_INTERVAL, Finished, finish_index, index_of, stored_bags};
use super::hold::{Held, Lost};
use super::insist::insist;
use super::jobs::Jobs;
use super::tempo::Tempo;
use crate::actors::{ListError, ListPool};
use crate::domain::index::TooManyEntries;
use crate::domain::{EntityId, Item, ListKey, NewItem, Ttl};
use crate::items::{BagEntries, BagSwaps, EntityPlace, EntryChange, Swapped};
use crate::metadata::catalog::CatalogVersion;
use crate::metadata::jobs::JobState;

/// Bags of one part of the walk. Even a store that reads and enters bags one by one processes this many in a few
/// seconds.
const PART_BAGS: usize = 4_096;
const PART_ONE_BY_ONE: usize = 500;
/// Bags that are read and entered at once where a store does so one by one.
const ONES_AT_ONCE: usize = 16;
/// With a rate, a part is the bags of this many seconds. The work within a part is repeated after a pause or a
/// restart.
const PART_SECONDS: usize = 4;
/// Bags that are entered together, and the number of concurrent groups: some are read while others are written.
const TOGETHER: usize = 512;
const AT_ONCE: usize = 4;
/// With this many entries, the read bags are entered before others are read. An index of arrays can have hundreds for
/// each bag.
const ENTRIES_TOGETHER: usize = 8_192;

/// The time until all servers that share a metadata store have a change, or detect that they may lack it
/// ([`MetadataHandle::is_in_step`]), and have ended their earlier work.
///
/// [`MetadataHandle::is_in_step`]: crate::actors::MetadataHandle::is_in_step
#[derive(Debug, Clone, Copy)]
pub struct Settle(pub Duration);

/// The definitions that an index is built by.
struct Built {
    bags: CatalogVersion,
    /// All versions of the bags, the index among them: a bag has a bound of entries in all indexes together.
    versions: Vec<CatalogVersion>,
    index: CatalogVersion,
    /// No bag lives longer than this, regardless of its TTL when it was written.
    ttl_max: Ttl,
}

/// Bags of a part of the walk.
enum Part {
    /// As they were read: together, where a store reads many in one go.
    Read(Vec<(EntityId, Item)>),
    /// Each bag is read when it is entered, because reading a whole part at once would delay callers.
    Named(Vec<EntityId>),
}

impl Part {
    fn len(&self) -> usize {
        match self {
            Self::Read(bags) => bags.len(),
            Self::Named(entities) => entities.len(),
        }
    }
}

/// The outcome of one bag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entered {
    /// With this many entries in the index.
    Done(u64),
    /// It has too many entries.
    LeftOut,
    /// The bag was deleted.
    Gone,
}

/// Goes on with an index to its end.
pub(super) async fn build(
    held: &mut Held<'_>,
    jobs: &Jobs,
    lists: &ListPool,
    settle: Settle,
    tempo: &mut Tempo,
) -> Result<(), Lost> {
    let Some(target) = held.job.task.targets.first().cloned() else { return give_up(held).await };
    wait_for_others(held, jobs, settle).await?;
    held.job.progress.entries.resize(1, 0);
    let Some(ttl_max) = longest_ttl(held, jobs).await? else { return give_up(held).await };
    let pace = held.job.task.lists_per_second;
    let one_by_one = lists.bag_swaps() == BagSwaps::Journaled;
    let part_max = if one_by_one { PART_ONE_BY_ONE } else { PART_BAGS };
    let part_len = pace.map_or(part_max, |pace| part_max.min((pace.get() as usize).saturating_mul(PART_SECONDS)));
    let mut ahead = None;
    loop {
        let Some(built) = definitions(held, jobs, ttl_max).await? else { return give_up(held).await };
        let read = async |from: Option<EntityPlace>, deadline| {
            // Stored bags that the present TTL hides, too: a longer TTL shows them again.
            let (feature_key, ttl) = (built.bags.feature_key.clone(), Ttl::ENDLESS);
            if one_by_one {
                let page = lists.entities(feature_key, ttl, from, part_len, deadline).await?;
                return Ok((Part::Named(page.entities), page.next));
            }
            let page = lists.bags(feature_key, ttl, from, part_len, deadline).await?;
            Ok((Part::Read(page.bags), page.next))
        };
        let (part, next) = match ahead.take() {
            Some(read) => read,
            None => {
                let from = held.job.progress.place.clone().map(|(hash, after)| EntityPlace { hash, after });
                insist(held, async |deadline| read(from.clone(), deadline).await).await?
            }
        };
        let mut left = 0..part.len();
        while !left.is_empty() {
            // If it was dropped since, another job clears it.
            if definitions(held, jobs, ttl_max).await?.is_none() {
                return give_up(held).await;
            }
            let began = Instant::now();
            let step = Cell::new(tempo.step(pace).min(left.len()));
            let enter = async |deadline| {
                let some = left.start..left.start + step.get();
                // Bags that are entered as a whole leave time to read the next part.
                let is_whole = some.len() == part.len();
                let next = next.clone().filter(|_| is_whole);
                let read_ahead = async { if next.is_some() { read(next, deadline).await.map(Some) } else { Ok(None) } };
                let done = try_join(enter_all(lists, &built, &part, some, deadline), read_ahead).await;
                if done.is_err() {
                    // It may have been too much for the time that there is.
                    step.set((step.get() / 2).max(1));
                }
                done
            };
            let entered;
            (entered, ahead) = insist(held, enter).await?;
            let count = entered.len();
            left.start += count;
            let progress = &mut held.job.progress;
            for entered in entered {
                match entered {
                    Entered::Done(entries) => progress.entries[0] += entries,
                    Entered::LeftOut => progress.left_out += 1,
                    Entered::Gone => continue,
                }
                progress.lists += 1;
            }
            held.save_if_due().await?;
            tempo.rest(count, pace, began).await;
        }
        let Some(EntityPlace { hash, after }) = next else {
            return match finish_index(held, jobs, &target, JobState::Done).await? {
                Finished::Ready => Ok(()),
                Finished::Gone => give_up(held).await,
            };
        };
        held.reached(Some((hash, after)));
        held.save_if_due().await?;
    }
}

/// The entries that the index needs for a bag.
fn entries_of(built: &Built, entity: &EntityId, bag: &Item) -> Result<Vec<EntryChange>, TooManyEntries> {
    let expires_at = built.ttl_max.expiry_of(bag.timestamp);
    let current = NewItem { timestamp: bag.timestamp, value: bag.value.clone(), expires_at };
    let mut entries = entry_changes(built.versions.iter(), entity, None, Some(&current))?;
    entries.retain(|change| change.list.feature_key == built.index.feature_key);
    Ok(entries)
}

fn count_of(entries: &[EntryChange]) -> u64 {
    entries.iter().map(|change| change.added.len() as u64).sum()
}

/// Enters some bags of a part.
async fn enter_all(
    lists: &ListPool,
    built: &Built,
    part: &Part,
    some: Range<usize>,
    deadline: Instant,
) -> Result<Vec<Entered>, ListError> {
    let bags = match part {
        Part::Read(bags) => &bags[some],
        Part::Named(entities) => {
            let ones = stream::iter(&entities[some]).map(|entity| enter(lists, built, entity, deadline));
            return ones.buffered(ONES_AT_ONCE).try_collect().await;
        }
    };
    let together = stream::iter(bags.chunks(TOGETHER)).map(|some| enter_together(lists, built, some, deadline));
    Ok(together.buffered(AT_ONCE).try_collect::<Vec<_>>().await?.concat())
}

/// Enters bags as they were read. A bag that has changed since is entered in its current state.
async fn enter_together(
    lists: &ListPool,
    built: &Built,
    bags: &[(EntityId, Item)],
    deadline: Instant,
) -> Result<Vec<Entered>, ListError> {
    let mut entered = Vec::with_capacity(bags.len());
    while entered.len() < bags.len() {
        let (mut entering, mut places, mut count) = (Vec::new(), Vec::new(), 0);
        for (entity, bag) in &bags[entered.len()..] {
            let Ok(entries) = entries_of(built, entity, bag) else {
                entered.push(Entered::LeftOut);
                continue;
            };
            entered.push(Entered::Done(count_of(&entries)));
            if !entries.is_empty() {
                count += entries.len();
                let list = ListKey::new(built.bags.feature_key.clone(), entity.clone());
                entering.push(BagEntries { bag: list, stamp: bag.timestamp, entries });
                places.push(entered.len() - 1);
            }
            if count >= ENTRIES_TOGETHER {
                break;
            }
        }
        let swapped = lists.enter_bags(entering, Ttl::ENDLESS, deadline).await?;
        for (place, _) in places.into_iter().zip(swapped).filter(|(_, swapped)| *swapped == Swapped::Lost) {
            entered[place] = enter(lists, built, &bags[place].0, deadline).await?;
        }
    }
    Ok(entered)
}

/// Enters a bag as it is now.
async fn enter(lists: &ListPool, built: &Built, entity: &EntityId, deadline: Instant) -> Result<Entered, ListError> {
    let list = ListKey::new(built.bags.feature_key.clone(), entity.clone());
    let ttl = Ttl::ENDLESS;
    loop {
        let Some(bag) = lists.bag(list.clone(), ttl, deadline).await? else { return Ok(Entered::Gone) };
        let Ok(entries) = entries_of(built, entity, &bag) else { return Ok(Entered::LeftOut) };
        if entries.is_empty() {
            return Ok(Entered::Done(0));
        }
        let count = count_of(&entries);
        let entries = BagEntries { bag: list.clone(), stamp: bag.timestamp, entries };
        if lists.enter_bags(vec![entries], ttl, deadline).await? == [Swapped::Done] {
            return Ok(Entered::Done(count));
        }
    }
}

/// Other servers may not have the index yet, and write bags without it. A server that adopts the job before its walk
/// has begun waits again, so no two clocks are compared.
pub(super) async fn wait_for_others(held: &mut Held<'_>, jobs: &Jobs, Settle(time): Settle) -> Result<(), Lost> {
    let began = Instant::now();
    let has_begun = held.job.progress.place.is_some() || held.job.progress.lists > 0;
    while jobs.metadata.is_shared() && !has_begun && began.elapsed() < time {
        sleep(CHECK_INTERVAL).await;
        held.save_if_due().await?;
    }
    Ok(())
}

/// The longest TTL that the bags ever had; `None` if their type was deleted.
pub(super) async fn longest_ttl(held: &mut Held<'_>, jobs: &Jobs) -> Result<Option<Ttl>, Lost> {
    Ok(stored_bags(held, jobs).await?.map(|bags| bags.ttl_max))
}

/// The definitions as they are now; none if the index is gone, or another one has its name.
async fn definitions(held: &mut Held<'_>, jobs: &Jobs, ttl_max: Ttl) -> Result<Option<Built>, Lost> {
    let since = Instant::now();
    loop {
        if let Some(built) = shown(held, jobs, ttl_max) {
            return Ok(Some(built));
        }
        // The catalog may be older than the index: a build that is given up is never made again.
        let bags = stored_bags(held, jobs).await?;
        let target = held.job.task.targets.first();
        if target.and_then(|target| index_of(bags.as_ref()?, target)).is_none() {
            return Ok(None);
        }
        wait_for_catalog(held, jobs, since).await?;
    }
}

/// Waits a little for the catalog to follow the metadata store, which it has not done since a moment.
pub(super) async fn wait_for_catalog(held: &mut Held<'_>, jobs: &Jobs, since: Instant) -> Result<(), Lost> {
    jobs.metadata.read_news();
    held.problem(Some("this server has not loaded the index yet".to_owned())).await?;
    held.make_way(since).await?;
    sleep(CHECK_INTERVAL).await;
    Ok(())
}

/// The definitions as the catalog shows them, if it shows the index.
fn shown(held: &Held<'_>, jobs: &Jobs, ttl_max: Ttl) -> Option<Built> {
    let task = &held.job.task;
    let target = task.targets.first()?;
    let key = task.key(target);
    let snapshot = jobs.metadata.catalog().snapshot()?;
    let versions: Vec<_> = snapshot.versions_of(&task.feature).cloned().collect();
    let index = versions.iter().find(|version| version.feature_key == key)?.clone();
    let bags = snapshot.version(task.feature.entity_type.as_str(), task.feature.name.as_str(), "").ok()?.clone();
    Some(Built { bags, versions, index, ttl_max })
}

/// The index was deleted during the build.
async fn give_up(held: &mut Held<'_>) -> Result<(), Lost> {
    (held.job.state, held.job.holder) = (JobState::Cancelled, None);
    held.save().await
}
