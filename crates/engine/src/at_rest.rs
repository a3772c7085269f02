//! Reads a stopped store, such as a backup, as a session would: each list in the state of its last writes. Changes
//! nothing.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use liststore_contract::domain::{EntityId, FeatureKey, Identity, Item, ListKey, Timestamp};
use liststore_storage::{Bounds, EntityPlace, OpContext};

use super::collect::page::Finder;
use super::directory::Directory;
use super::disk::{LockGuard, RealDisk};
use super::error::OpenError;
use super::list_id::ListId;
use super::log::replay;
use super::memory::memtable::Memtable;
use super::options::{EmbeddedOptions, ListHash};
use super::read::Scan;
use super::read::entities::{Bags, Entities, EntityRead, WalkPart, WalkTarget};
use super::read::tables::View;
use super::row::seek::Start;

/// Lists that one part of a walk returns.
const PART: usize = 1_000;

/// A store without a running writer.
pub struct AtRest {
    _lock: Option<LockGuard>,
    view: Arc<View>,
    hash: ListHash,
    log_end: u64,
}

impl AtRest {
    /// Opens the store in a data directory. Refuses one that a server is using. Blocks on the disk.
    pub fn open(dir: &Path) -> Result<Self, OpenError> {
        let (dir, disk) = (dir.join("items"), &RealDisk);
        let hash = EmbeddedOptions::new(&dir).list_hash;
        let (lock, directory) = Directory::inspect(disk, &dir)?;
        let files = Arc::new(directory.open_runs(disk, hash)?);
        let active = Memtable::new(directory.manifest.log_start);
        let end = replay::read(disk, &dir, &directory.segments().0, directory.log(disk), hash, |record| {
            active.apply(&record.list, &record.change, record.oldest);
        })?;
        let view = Arc::new(View { active: Arc::new(active), frozen: None, files });
        Ok(Self { _lock: lock, view, hash, log_end: end.appended().as_u64() })
    }

    /// The end of the log, as [`LogMark`](liststore_contract::domain::LogMark) counts.
    pub fn log_end(&self) -> u64 {
        self.log_end
    }

    /// Passes on every bag of a type that an operation sees.
    pub fn bags<E: From<OpenError>>(
        &self,
        op: &OpContext,
        feature_key: &FeatureKey,
        mut each: impl FnMut(EntityId, Item) -> Result<(), E>,
    ) -> Result<(), E> {
        self.walk::<Bags, E>(op, feature_key, |(entity, bag)| each(entity, bag))
    }

    /// The number of entities with lists of a feature version that an operation sees.
    pub fn count_entities(&self, op: &OpContext, feature_key: &FeatureKey) -> Result<u64, OpenError> {
        let mut count = 0;
        self.walk::<Entities, OpenError>(op, feature_key, |_| {
            count += 1;
            Ok(())
        })?;
        Ok(count)
    }

    /// Whether a list has an item of this value at this moment.
    pub fn has_item(&self, op: &OpContext, list: &ListKey, at: Timestamp, value: &Bytes) -> Result<bool, OpenError> {
        let id = ListId::of(list, self.hash);
        let in_memory = self.view.in_memory(&id, at.as_nanos());
        let finder = Finder::new(op, &Bounds::of(Some(at), Some(at)), Identity::Item, std::slice::from_ref(value));
        let start = Start { ceiling: at.as_nanos(), below: None };
        let mut scan = Scan::new(Arc::clone(&self.view), in_memory, id, start, finder);
        loop {
            if let Some(found) = scan.turn()? {
                return Ok(found.iter().any(Option::is_some));
            }
        }
    }

    fn walk<T: WalkTarget, E: From<OpenError>>(
        &self,
        op: &OpContext,
        feature_key: &FeatureKey,
        mut each: impl FnMut(T::Of) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut from: Option<EntityPlace> = None;
        loop {
            let view = Arc::clone(&self.view);
            let mut read = EntityRead::<T>::new(view, op, self.hash, feature_key, from.as_ref(), PART);
            let WalkPart { found, next } = loop {
                if let Some(part) = read.turn().map_err(OpenError::from)? {
                    break part;
                }
            };
            found.into_iter().try_for_each(&mut each)?;
            let Some(place) = next else { return Ok(()) };
            from = Some(place);
        }
    }
}
