//! Purges: clears every list of some generations, part by part, and then has the item store erase the bytes.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

use super::entries::entry_changes;
use super::hold::{Held, Lost};
use super::insist::{RETRY_MAX, RETRY_MIN, insist, pause};
use super::jobs::Jobs;
use crate::actors::{ListError, ListPool};
use crate::domain::{EntityId, FeatureId, FeatureKey, ListKey, Ttl};
use crate::items::{BagAfter, BagSwap, EntityPage, EntityPlace, Erased, ReadBag, Swapped};
use crate::metadata::catalog::CatalogVersion;
use crate::metadata::jobs::JobState;

/// Entities of one part of the walk.
const PART_ENTITIES: usize = 100;
/// Lists that are cleared at once.
const CLEARED_AT_ONCE: usize = 8;
/// The interval of progress reports while the item store erases.
const ERASE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Goes on with a purge to its end.
pub(super) async fn purge(held: &mut Held<'_>, jobs: &Jobs, lists: &ListPool) -> Result<(), Lost> {
    clear_all(held, jobs, lists).await?;
    let erased = erase(held, lists).await?;
    (held.job.state, held.job.holder) = (JobState::Done, None);
    held.job.progress.erased = Some(erased == Erased::Now);
    held.save().await
}

/// Removes the rest of an index to its end. The item store frees the space later: the bags still exist, and this is no
/// erasure.
pub(super) async fn drop_index(held: &mut Held<'_>, jobs: &Jobs, lists: &ListPool) -> Result<(), Lost> {
    clear_all(held, jobs, lists).await?;
    (held.job.state, held.job.holder) = (JobState::Done, None);
    held.save().await
}

async fn clear_all(held: &mut Held<'_>, jobs: &Jobs, lists: &ListPool) -> Result<(), Lost> {
    while let Some(target) = held.job.task.targets.get(held.job.progress.targets) {
        let key = held.job.task.key(target);
        clear(held, jobs, lists, &key).await?;
        held.job.progress.targets += 1;
        held.job.progress.place = None;
        held.save_if_due().await?;
    }
    Ok(())
}

/// Clears all lists of one generation.
async fn clear(held: &mut Held<'_>, jobs: &Jobs, lists: &ListPool, key: &FeatureKey) -> Result<(), Lost> {
    loop {
        let from = held.job.progress.place.clone().map(|(hash, after)| EntityPlace { hash, after });
        // Regardless of its TTL: the stored items must be removed.
        let read =
            async |deadline| lists.entities(key.clone(), Ttl::ENDLESS, from.clone(), PART_ENTITIES, deadline).await;
        let EntityPage { entities, next } = insist(held, read).await?;
        let held_feature = &held.job.task.feature.clone();
        let pace = held.job.task.lists_per_second.map(|rate| rate.get());
        let at_once = pace.map_or(CLEARED_AT_ONCE, |rate| CLEARED_AT_ONCE.min(rate as usize).max(1));
        for some in entities.chunks(at_once) {
            let began = Instant::now();
            let remove = async |deadline| {
                let indexes = indexes_of(held_feature, jobs, key);
                let list = |entity: &EntityId| ListKey::new(key.clone(), entity.clone());
                let removals = some.iter().map(|entity| remove(lists, &indexes, list(entity), deadline));
                join_all(removals).await.into_iter().collect::<Result<Vec<()>, _>>()
            };
            insist(held, remove).await?;
            held.job.progress.lists += some.len() as u64;
            held.save_if_due().await?;
            pause(some.len(), pace, began).await;
        }
        let Some(EntityPlace { hash, after }) = next else { return Ok(()) };
        held.job.progress.place = Some((hash, after));
        held.save_if_due().await?;
    }
}

/// The indexes that have entries of the bags of a key: none of other lists, nor of bags of a deleted generation.
fn indexes_of(feature: &FeatureId, jobs: &Jobs, key: &FeatureKey) -> Vec<CatalogVersion> {
    let snapshot = jobs.metadata.catalog().snapshot();
    let versions: Vec<_> = snapshot.iter().flat_map(|snapshot| snapshot.versions_of(feature)).cloned().collect();
    let is_present = versions.iter().any(|version| version.feature_key == *key && version.index.is_none());
    if is_present { versions.into_iter().filter(|version| version.index.is_some()).collect() } else { Vec::new() }
}

/// Clears a list. Where bags are found by indexes, a bag goes with its entries.
async fn remove(
    lists: &ListPool,
    indexes: &[CatalogVersion],
    list: ListKey,
    deadline: Instant,
) -> Result<(), ListError> {
    while !indexes.is_empty() {
        // Regardless of the TTL of bags.
        let ReadBag { bag, row } = lists.bag_to_swap(list.clone(), Ttl::ENDLESS, deadline).await?;
        let Some(bag) = bag else { break };
        // None comes, so that none can be too many.
        let entries = entry_changes(indexes.iter(), &list.entity_id, Some(&bag), None).unwrap_or_default();
        let swap = BagSwap { before: Some(bag.timestamp), row, after: BagAfter::Gone, entries, entered_in: None };
        if lists.swap_bag(list.clone(), Ttl::ENDLESS, swap, deadline).await? == Swapped::Done {
            return Ok(());
        }
    }
    lists.remove_all(list, Ttl::MAX, deadline).await
}

/// Has the item store free the removed bytes.
async fn erase(held: &mut Held<'_>, lists: &ListPool) -> Result<Erased, Lost> {
    let (mut delay, mut failing_since) = (RETRY_MIN, None);
    loop {
        let pool = lists.clone();
        let mut erasing = tokio::task::spawn_blocking(move || pool.erase_removed());
        let erased = loop {
            tokio::select! {
                erased = &mut erasing => break erased,
                () = sleep(ERASE_CHECK_INTERVAL) => held.save_if_due().await?,
            }
        };
        match erased {
            Ok(Ok(erased)) => return Ok(erased),
            Ok(Err(error)) => tracing::warn!(job = %held.job.id, %error, "cannot erase removed items: retrying"),
            Err(_) => tracing::warn!(job = %held.job.id, "erasing removed items was interrupted"),
        }
        held.problem(Some("the item store cannot erase now: retrying".to_owned())).await?;
        held.make_way(*failing_since.get_or_insert_with(Instant::now)).await?;
        sleep(delay).await;
        delay = (2 * delay).min(RETRY_MAX);
    }
}
