//! Compares the notes about items in the metadata of a stopped data directory with its items.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::StartError;
use crate::definition::{Feature, FeatureVersion};
use crate::domain::index::{ENTRIES_MAX, IndexEntry, ShallowDocument};
use crate::domain::{Clock, FeatureId, FeatureKey, ListKey, SystemClock, Ttl};
use crate::items::OpContext;
use crate::items::embedded::{AtRest, OpenError};
use crate::metadata::embedded::Verified;
use crate::metadata::jobs::{Job, JobState, Target, TaskKind};

/// A deadline that never passes, because no caller waits.
const NO_DEADLINE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The result of a comparison: the amounts compared and each disagreement.
#[derive(Debug, Default)]
pub(super) struct Compared {
    pub indexes: usize,
    pub jobs: usize,
    pub problems: Vec<String>,
}

/// The items are from an earlier moment than the notes about them.
const OLDER_ITEMS: &str = "the items are older than the definitions and jobs: restore both parts from one backup, or \
                           repeat the purges and erasures since then";

/// Compares ready indexes with bags, finished jobs with the lists that they cleared, and the moments of both parts.
///
/// `stored` names the feature keys that have at least one list.
pub(super) fn compare(dir: &Path, notes: &Verified, stored: &BTreeSet<String>) -> Result<Compared, StartError> {
    let Verified { definitions, jobs, items_at, .. } = notes;
    let failed = |error: OpenError| StartError::Items(error.to_string());
    let items = AtRest::open(dir).map_err(failed)?;
    let op = OpContext::new(SystemClock.now(), Ttl::ENDLESS, Instant::now() + NO_DEADLINE);
    let mut compared = Compared::default();
    let is_older = items_at.is_some_and(|items_at| items.log_end() < items_at);
    if is_older {
        compared.problems.push(OLDER_ITEMS.to_owned());
    }
    for bags in definitions.iter().filter(|feature| feature.id.is_of_bags()) {
        indexes(&items, &op, bags, &mut compared).map_err(failed)?;
    }
    for job in jobs.iter().filter(|job| job.state == JobState::Done) {
        if !matches!(job.task.kind, TaskKind::Purge | TaskKind::DropIndex) {
            continue;
        }
        compared.jobs += 1;
        let keys = cleared(job, definitions).filter(|(_, is_for_ever)| *is_for_ever || is_older);
        for (key, _) in keys.filter(|(key, _)| stored.contains(key.as_str())) {
            let lists = items.count_entities(&op, &key).map_err(failed)?;
            if lists > 0 {
                let kind = job.task.kind.as_str();
                compared.problems.push(format!(
                    "the job {} ({kind}) is done, but {lists} lists of {key} still exist: purge the feature again",
                    job.id
                ));
            }
        }
    }
    Ok(compared)
}

/// The lists that a job cleared, and for each whether no definition leads to it. Without a definition, no later add is
/// possible.
fn cleared<'j>(job: &'j Job, definitions: &'j [Feature]) -> impl Iterator<Item = (FeatureKey, bool)> + 'j {
    let present = definitions.iter().find(|feature| feature.id == job.task.feature);
    let is_present = move |target: &Target| {
        let version = present.and_then(|feature| feature.version(&target.version));
        version.is_some_and(|version| version.generation == target.generation)
    };
    job.task.targets.iter().map(move |target| (job.task.key(target), !is_present(target)))
}

/// Looks up every bag of a type in each ready index.
fn indexes(items: &AtRest, op: &OpContext, bags: &Feature, compared: &mut Compared) -> Result<(), OpenError> {
    let all: Vec<_> = bags.versions.iter().filter_map(|version| Some((version, version.index.as_ref()?))).collect();
    let ready: Vec<_> = all.iter().filter(|(_, index)| index.is_ready).map(|(version, _)| *version).collect();
    let Some(default) = bags.versions.iter().find(|version| version.version.is_default()) else { return Ok(()) };
    compared.indexes += ready.len();
    if ready.is_empty() {
        return Ok(());
    }
    let (mut missing, mut count) = (vec![0_u64; all.len()], 0_u64);
    items.bags(op, &default.key(&bags.id), |entity, bag| {
        let Some(document) = ShallowDocument::parse(&bag.value) else { return Ok(()) };
        let entries: Result<Vec<_>, _> =
            all.iter().map(|(_, index)| index.spec.entries(&document, bag.timestamp)).collect();
        // No index holds a bag with too many entries.
        let Ok(entries) = entries else { return Ok(()) };
        if entries.iter().map(Vec::len).sum::<usize>() > ENTRIES_MAX {
            return Ok(());
        }
        count += 1;
        let value = Bytes::copy_from_slice(entity.as_str().as_bytes());
        for (place, ((version, index), entries)) in all.iter().zip(entries).enumerate() {
            if index.is_ready && !has_all(items, op, &bags.id, version, entries, &value)? {
                missing[place] += 1;
            }
        }
        Ok::<_, OpenError>(())
    })?;
    for ((version, _), missing) in all.iter().zip(missing).filter(|(_, missing)| *missing > 0) {
        let (entity_type, name) = (&bags.id.entity_type, &version.version);
        compared.problems.push(format!(
            "the index {name} of {entity_type} is ready but lacks {missing} of {count} bags: run `liststore index clean \
             {entity_type}` on the server"
        ));
    }
    Ok(())
}

/// Whether an index has all entries of a bag.
fn has_all(
    items: &AtRest,
    op: &OpContext,
    id: &FeatureId,
    version: &FeatureVersion,
    entries: Vec<IndexEntry>,
    value: &Bytes,
) -> Result<bool, OpenError> {
    for entry in entries {
        let list = ListKey::new(version.key(id), entry.values);
        if !items.has_item(op, &list, entry.place, value)? {
            return Ok(false);
        }
    }
    Ok(true)
}
