//! Cleans indexes: checks all bags of a type and all entries, adds missing entries, and removes entries without a bag.
//!
//! The bags come first, with all indexes of the cleaning. Then come the entries of one index after the other, which
//! are counted. Writes during the cleaning are as correct as without it.

use std::num::NonZeroU32;

use bytes::Bytes;
use futures_util::future::join_all;
use tokio::time::Instant;

use super::build::{Settle, longest_ttl, wait_for_catalog, wait_for_others};
use super::cleaner::{Repairer, changed};
use super::entries::entry_changes;
use super::finish::{finish_index, index_of, stored_bags};
use super::hold::{Held, Lost};
use super::insist::insist;
use super::jobs::Jobs;
use super::tempo::Tempo;
use crate::actors::{ListError, ListPool};
use crate::domain::{EntityId, FeatureKey, Item, ItemKey, ListKey, NewItem, Order, Timestamp, Ttl};
use crate::items::{Bounds, EntityPage, EntityPlace, EntryChange, ItemPage, Range, ReadBag, Swapped};
use crate::metadata::catalog::CatalogVersion;
use crate::metadata::jobs::{JobState, Target};

/// Bags, or lists of entries, of one part of a walk.
const PART: usize = 500;
/// Bags, or entries, that are checked at once.
const AT_ONCE: usize = 32;

/// Goes on with a cleaning to its end.
///
/// An index that is not ready has all bags once they were walked, and becomes ready: so does one whose build was
/// cancelled.
pub(super) async fn clean(
    held: &mut Held<'_>,
    jobs: &Jobs,
    lists: &ListPool,
    settle: Settle,
    tempo: &mut Tempo,
) -> Result<(), Lost> {
    let indexes = held.job.task.targets.len();
    held.job.progress.entries.resize(indexes, 0);
    let unready = unready(held, jobs).await?;
    if !unready.is_empty() {
        wait_for_others(held, jobs, settle).await?;
    }
    // The first target is the bags. Each of the following targets is an index.
    while held.job.progress.targets <= indexes {
        match held.job.progress.targets {
            0 => {
                bags(held, jobs, lists, tempo, &unready).await?;
                for target in &unready {
                    finish_index(held, jobs, target, JobState::Running).await?;
                }
            }
            index => entries(held, jobs, lists, tempo, index - 1).await?,
        }
        held.job.progress.targets += 1;
        held.reached(None);
        held.save_if_due().await?;
    }
    held.job.progress.targets = indexes;
    (held.job.state, held.job.holder) = (JobState::Done, None);
    held.save().await
}

/// The targets that are not ready.
async fn unready(held: &mut Held<'_>, jobs: &Jobs) -> Result<Vec<Target>, Lost> {
    let Some(bags) = stored_bags(held, jobs).await? else { return Ok(Vec::new()) };
    let is_unready = |target: &&Target| {
        let index = index_of(&bags, target).and_then(|version| version.index.as_ref());
        index.is_some_and(|index| !index.is_ready)
    };
    Ok(held.job.task.targets.iter().filter(is_unready).cloned().collect())
}

/// The bags of the type, and its existing indexes.
fn definitions(held: &Held<'_>, jobs: &Jobs) -> Option<(CatalogVersion, Vec<CatalogVersion>)> {
    let task = &held.job.task;
    let snapshot = jobs.metadata.catalog().snapshot()?;
    let (entity_type, name) = (task.feature.entity_type.as_str(), task.feature.name.as_str());
    let bags = snapshot.version(entity_type, name, "").ok()?.clone();
    let is_cleaned = |key: &FeatureKey| task.targets.iter().any(|target| task.key(target) == *key);
    let present = snapshot.versions_of(&task.feature).filter(|version| version.index.is_some());
    Some((bags, present.filter(|version| is_cleaned(&version.feature_key)).cloned().collect()))
}

fn at_once(pace: Option<NonZeroU32>, tempo: &mut Tempo) -> usize {
    tempo.step(pace).min(AT_ONCE)
}

/// Adds the missing entries of all bags to the indexes. The walk waits while this server does not have one of
/// `awaited`.
async fn bags(
    held: &mut Held<'_>,
    jobs: &Jobs,
    lists: &ListPool,
    tempo: &mut Tempo,
    awaited: &[Target],
) -> Result<(), Lost> {
    let pace = held.job.task.lists_per_second;
    let Some(ttl_max) = longest_ttl(held, jobs).await? else { return Ok(()) };
    let mut waits_since = None;
    loop {
        let Some((bags, indexes)) = definitions(held, jobs) else {
            // The catalog may be behind the metadata store. An index must not become ready before the bags are walked.
            if stored_bags(held, jobs).await?.is_none() {
                return Ok(());
            }
            wait_for_catalog(held, jobs, *waits_since.get_or_insert_with(Instant::now)).await?;
            continue;
        };
        let is_known = |target: &Target| indexes.iter().any(|index| index.feature_key == held.job.task.key(target));
        if let Some(unknown) = awaited.iter().find(|target| !is_known(target)) {
            let stored = stored_bags(held, jobs).await?;
            if stored.is_some_and(|bags| index_of(&bags, unknown).is_some()) {
                wait_for_catalog(held, jobs, *waits_since.get_or_insert_with(Instant::now)).await?;
                continue;
            }
        }
        let from = held.job.progress.place.clone().map(|(hash, after)| EntityPlace { hash, after });
        let key = &bags.feature_key;
        // Stored bags that the present TTL hides, too: a longer TTL shows them again.
        let read = async |deadline| lists.entities(key.clone(), Ttl::ENDLESS, from.clone(), PART, deadline).await;
        let EntityPage { entities, next } = insist(held, read).await?;
        let mut left = entities.as_slice();
        while !left.is_empty() {
            let began = Instant::now();
            let some;
            (some, left) = left.split_at(at_once(pace, tempo).min(left.len()));
            let add_all = async |deadline| {
                let added = some.iter().map(|entity| {
                    let bag = ListKey::new(bags.feature_key.clone(), entity.clone());
                    add_missing(lists, &indexes, bag, ttl_max, deadline)
                });
                join_all(added).await.into_iter().sum::<Result<u64, ListError>>()
            };
            held.job.progress.added += insist(held, add_all).await?;
            held.job.progress.lists += some.len() as u64;
            held.save_if_due().await?;
            tempo.rest(some.len(), pace, began).await;
        }
        let Some(EntityPlace { hash, after }) = next else { return Ok(()) };
        held.reached(Some((hash, after)));
        held.save_if_due().await?;
    }
}

/// Adds the entries of a bag that are not there. Returns how many these were.
async fn add_missing(
    lists: &ListPool,
    indexes: &[CatalogVersion],
    bag_list: ListKey,
    ttl_max: Ttl,
    deadline: Instant,
) -> Result<u64, ListError> {
    loop {
        let ReadBag { bag, row } = lists.bag_to_swap(bag_list.clone(), Ttl::ENDLESS, deadline).await?;
        let Some(bag) = bag else { return Ok(0) };
        // The entry has no separate expiry: an entry that outlives its bag is removed when a query or a cleaning
        // encounters it.
        let expires_at = ttl_max.expiry_of(bag.timestamp);
        let current = NewItem { timestamp: bag.timestamp, value: bag.value.clone(), expires_at };
        // A bag with too many entries is older than its index, and has none.
        let mut entries = entry_changes(indexes.iter(), &bag_list.entity_id, None, Some(&current)).unwrap_or_default();
        for EntryChange { list, added, .. } in &mut entries {
            let mut missing = Vec::new();
            for entry in added.drain(..) {
                let at_place = Bounds::of(Some(entry.timestamp), Some(entry.timestamp));
                let wanted = vec![entry.value.clone()];
                let found = lists.contains(list.clone(), Ttl::ENDLESS, at_place, wanted, deadline).await?;
                if found.iter().all(Option::is_none) {
                    missing.push(entry);
                }
            }
            *added = missing;
        }
        entries.retain(|change| !change.added.is_empty());
        let count = entries.iter().map(|change| change.added.len() as u64).sum();
        let read = ReadBag { bag: Some(bag), row };
        if entries.is_empty() || changed(lists, &bag_list, read, entries, deadline).await? == Swapped::Done {
            return Ok(count);
        }
    }
}

/// Removes the entries of an index that no bag has, and counts the others.
async fn entries(
    held: &mut Held<'_>,
    jobs: &Jobs,
    lists: &ListPool,
    tempo: &mut Tempo,
    index: usize,
) -> Result<(), Lost> {
    let Some(key) = held.job.task.targets.get(index).map(|target| held.job.task.key(target)) else { return Ok(()) };
    loop {
        let found = definitions(held, jobs).and_then(|(_, all)| all.into_iter().find(|one| one.feature_key == key));
        // If it was dropped since, another job clears it. The key of the job distinguishes lists of no kind from
        // others.
        let Some(CatalogVersion { feature_key: key, .. }) = found else { return Ok(()) };
        let from = held.job.progress.place.clone().map(|(hash, after)| EntityPlace { hash, after });
        let read = async |deadline| lists.entities(key.clone(), Ttl::ENDLESS, from.clone(), PART, deadline).await;
        let EntityPage { entities, next } = insist(held, read).await?;
        for values in entities {
            let list = ListKey::new(key.clone(), values);
            entries_of(held, jobs, lists, tempo, &list, index).await?;
        }
        let Some(EntityPlace { hash, after }) = next else { return Ok(()) };
        held.reached(Some((hash, after)));
        held.save_if_due().await?;
    }
}

/// The entries of one list.
async fn entries_of(
    held: &mut Held<'_>,
    jobs: &Jobs,
    lists: &ListPool,
    tempo: &mut Tempo,
    list: &ListKey,
    index: usize,
) -> Result<(), Lost> {
    let pace = held.job.task.lists_per_second;
    let repairer = Repairer { metadata: jobs.metadata.clone(), lists: lists.clone() };
    let mut after: Option<ItemKey> = None;
    loop {
        let range = Range {
            min_timestamp: Timestamp::MIN,
            max_timestamp: Timestamp::MAX,
            after,
            limit: at_once(pace, tempo),
            value_bytes_max: usize::MAX,
            order: Order::Newest,
        };
        let began = Instant::now();
        let read = async |deadline| Ok(lists.get(list, Ttl::ENDLESS, range, deadline).await?.0);
        let ItemPage { items, more } = insist(held, read).await?;
        let Some(last) = items.last().map(Item::key) else { return Ok(()) };
        let check = async |_deadline| {
            let checked = items.iter().map(async |entry| match entity_of(&entry.value) {
                Some(entity) => repairer.entry(list, entry.timestamp, &entity).await,
                None => Ok(false),
            });
            join_all(checked).await.into_iter().collect::<Result<Vec<bool>, ListError>>()
        };
        let removed = insist(held, check).await?;
        let gone = removed.iter().filter(|removed| **removed).count();
        held.job.progress.removed += gone as u64;
        held.job.progress.entries[index] += (items.len() - gone) as u64;
        held.job.progress.lists += items.len() as u64;
        held.save_if_due().await?;
        tempo.rest(items.len(), pace, began).await;
        if !more {
            return Ok(());
        }
        after = Some(last);
    }
}

/// The entity whose bag an entry is of.
fn entity_of(value: &Bytes) -> Option<EntityId> {
    std::str::from_utf8(value).ok().and_then(|text| EntityId::new(text).ok())
}
