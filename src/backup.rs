//! Makes backups of a running server's data directory. It decides their place, and that both planes are of one moment.
//! An incomplete backup is never mistaken for a complete one.
//!
//! It depends on neither HTTP nor settings, nor the formats of the stores.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Gauge, Registry};
use tokio::sync::{Mutex, oneshot};

use crate::data_dir::{self, Part, note_copy};
use crate::domain::{Clock, StoreId, Timestamp};
use crate::items::embedded::RealDisk;
use crate::items::{FileBackup, ItemBackup, StoreError};
use crate::metadata::{Frozen, MetadataError, MetadataStore};

/// The place in the data directory for backups that a command reads, sends away and removes. Hard links need the same
/// file system.
pub const OUTGOING: &str = "outgoing";
/// The file in the data directory that has the time of the last complete backup, in nanoseconds since the Unix epoch.
const LAST: &str = data_dir::LAST_BACKUP;

/// Notes that a backup of this data directory was completed.
pub fn note_finished(data_dir: &Path, at: Timestamp) -> io::Result<()> {
    let partial = data_dir.join(format!("{LAST}.partial"));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
    file.write_all(at.as_nanos().to_string().as_bytes())?;
    file.sync_all()?;
    fs::rename(&partial, data_dir.join(LAST))
}

/// When the last backup of a data directory was completed, if there was one.
fn last_finished(data_dir: &Path) -> Option<Timestamp> {
    let nanos = fs::read_to_string(data_dir.join(LAST)).ok()?.trim().parse().ok()?;
    Timestamp::from_nanos(nanos).ok()
}

/// Shows the age of the last backup, which another process may have made.
struct BackupAge {
    gauge: Gauge,
    data_dir: PathBuf,
    clock: Arc<dyn Clock>,
    /// Without any backup, the age counts from here.
    started: Timestamp,
}

impl Collector for BackupAge {
    fn desc(&self) -> Vec<&Desc> {
        self.gauge.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let last = last_finished(&self.data_dir).unwrap_or(self.started);
        let nanos = self.clock.now().as_nanos().saturating_sub(last.as_nanos());
        self.gauge.set(Duration::from_nanos(nanos).as_secs_f64());
        self.gauge.collect()
    }
}

/// Why there is no backup.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BackupError {
    /// These stores are backed up in another way, which the text names.
    #[error("{0}")]
    Unsupported(&'static str),
    #[error("{} is not empty: name an empty or new directory", dir.display())]
    NotEmpty { dir: PathBuf },
    /// No backup can be made there: the text states the reason and the remedy.
    #[error("{0}")]
    UnfitDir(String),
    #[error("another backup is in progress: wait until it finishes")]
    Running,
    #[error("the server is stopping")]
    Stopping,
    #[error("{0}")]
    Failed(String),
}

impl From<StoreError> for BackupError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable { reason, .. } | StoreError::Internal { reason, .. } => Self::Failed(reason),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<MetadataError> for BackupError {
    fn from(error: MetadataError) -> Self {
        match error {
            MetadataError::Unavailable { reason, .. } => Self::Failed(reason),
            error => Self::Failed(error.to_string()),
        }
    }
}

/// A backup that was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Backup {
    pub dir: PathBuf,
    pub items: ItemBackup,
    /// Whether it includes the definitions. It does not if they are in a separate database.
    pub definitions: bool,
    pub took: Duration,
}

/// The content of backups: the planes that are stored in the data directory.
#[derive(Debug, Clone)]
pub struct BackupScope {
    pub data_dir: PathBuf,
    pub definitions: bool,
    /// Which store the data directory is, and which of its parts are copied.
    pub store: Option<(StoreId, Vec<Part>)>,
}

/// Makes backups, one at a time. Cheap to clone.
#[derive(Clone)]
pub struct Backups(Arc<Shared>);

struct Shared {
    scope: BackupScope,
    /// Or why there are no backups, and what to do instead.
    items: Result<Arc<dyn FileBackup>, &'static str>,
    metadata: Arc<dyn MetadataStore>,
    clock: Arc<dyn Clock>,
    /// Held while a backup is made.
    running: Arc<Mutex<()>>,
    stopping: AtomicBool,
}

impl Backups {
    pub fn new(
        scope: BackupScope,
        items: Result<Arc<dyn FileBackup>, &'static str>,
        metadata: Arc<dyn MetadataStore>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let (running, stopping) = (Arc::default(), AtomicBool::new(false));
        Self(Arc::new(Shared { scope, items, metadata, clock, running, stopping }))
    }

    /// Registers the age of the last backup, if there is anything to back up.
    pub fn register(&self, registry: &Registry) -> prometheus::Result<()> {
        let Shared { scope, items, clock, .. } = &*self.0;
        if items.is_err() {
            return Ok(());
        }
        let help = "Time since the last complete backup, or since the start of a server without one.";
        registry.register(Box::new(BackupAge {
            gauge: Gauge::new("liststore_backup_age_seconds", help)?,
            data_dir: scope.data_dir.clone(),
            clock: Arc::clone(clock),
            started: clock.now(),
        }))
    }

    /// Makes a backup in `dir`, an absolute path that leads nowhere yet or to an empty directory.
    ///
    /// It runs to its end even if its caller stops waiting.
    pub async fn make(&self, dir: PathBuf) -> Result<Backup, BackupError> {
        self.0.items()?;
        let turn = self.0.running.clone().try_lock_owned().map_err(|_| BackupError::Running)?;
        let shared = self.0.clone();
        let (answer, answered) = oneshot::channel();
        let work = move || {
            let made = shared.make(&dir);
            drop(turn);
            if let Err(unheard) = answer.send(made) {
                tracing::info!(?unheard, "the caller of this backup is gone");
            }
        };
        let failed = |error: io::Error| BackupError::Failed(format!("cannot start a thread: {error}"));
        std::thread::Builder::new().name("backup".into()).spawn(work).map_err(failed)?;
        answered.await.map_err(|_| BackupError::Failed("the backup was interrupted; see the log".to_owned()))?
    }

    /// Cancels a running backup, and returns once its files are removed.
    pub async fn stop(&self) {
        self.0.stopping.store(true, Ordering::Release);
        drop(self.0.running.lock().await);
    }
}

impl Shared {
    fn make(&self, dir: &Path) -> Result<Backup, BackupError> {
        let began = Instant::now();
        let place = TargetDir::prepare(dir, &self.scope.data_dir)?;
        let made = self.fill(&place.partial).and_then(|items| place.complete().map(|()| items));
        let items = match made {
            Ok(items) => items,
            Err(error) => {
                place.discard();
                return Err(if self.is_stopping() { BackupError::Stopping } else { error });
            }
        };
        // An outgoing one is complete once it has left: its command notes that.
        if !place.is_outgoing
            && let Err(error) = note_finished(&self.scope.data_dir, self.clock.now())
        {
            tracing::warn!(%error, "cannot note the time of this backup");
        }
        let backup = Backup { dir: place.dir, items, definitions: self.scope.definitions, took: began.elapsed() };
        tracing::info!(dir = %backup.dir.display(), took = ?backup.took, "backup finished");
        Ok(backup)
    }

    fn items(&self) -> Result<&Arc<dyn FileBackup>, BackupError> {
        self.items.as_ref().map_err(|reason| BackupError::Unsupported(reason))
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Copies both planes as of one moment: changes of definitions, jobs and receipts wait until it is decided which
    /// items the copy holds.
    ///
    /// Older items would contradict a finished job, a ready index or a receipt. Newer items could belong
    /// to a generation that the definitions lack: it would be given out a second time, to a feature that begins with
    /// old items.
    fn fill(&self, partial: &Path) -> Result<ItemBackup, BackupError> {
        let items = self.items()?;
        let mut frozen = if self.scope.definitions { Some(self.metadata.freeze()?) } else { None };
        let mut written = Ok(());
        let mut fixed = || {
            if let Some(Frozen { snapshot, changes }) = frozen.take() {
                drop(changes);
                written = snapshot.write(partial);
            }
        };
        let items = items.backup(partial, &|| self.is_stopping(), &mut fixed)?;
        written?;
        if let Some((id, parts)) = &self.scope.store {
            note_copy(&RealDisk, partial, *id, parts).map_err(|error| BackupError::Failed(error.to_string()))?;
        }
        if self.is_stopping() { Err(BackupError::Stopping) } else { Ok(items) }
    }
}

/// Where a backup is made, and its final place.
struct TargetDir {
    dir: PathBuf,
    parent: PathBuf,
    partial: PathBuf,
    is_outgoing: bool,
}

impl TargetDir {
    fn prepare(dir: &Path, data_dir: &Path) -> Result<Self, BackupError> {
        let failed = |what: &str, path: &Path, error: &io::Error| {
            BackupError::Failed(format!("cannot {what} {}: {error}", path.display()))
        };
        // A link to an empty directory is as good as that directory. A broken link is not.
        let dir = match fs::canonicalize(dir) {
            Ok(dir) => dir,
            Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(dir).is_err() => {
                dir.to_owned()
            }
            Err(error) => return Err(failed("look at", dir, &error)),
        };
        let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else {
            return Err(BackupError::NotEmpty { dir });
        };
        let parent = fs::canonicalize(parent).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                BackupError::UnfitDir(format!("the directory {} does not exist", parent.display()))
            }
            _ => failed("look at", parent, &error),
        })?;
        let dir = parent.join(name);
        let parent_metadata = fs::metadata(&parent).map_err(|error| failed("look at", &parent, &error))?;
        if !parent_metadata.is_dir() {
            return Err(BackupError::UnfitDir(format!("{} is not a directory", parent.display())));
        }
        // Compares directories by identity: a path can lead into one through links and mounts.
        let same = |one: &fs::Metadata, other: &fs::Metadata| (one.dev(), one.ino()) == (other.dev(), other.ino());
        let data = fs::metadata(data_dir).map_err(|error| failed("look at", data_dir, &error))?;
        let is_data = |dir: &Path| fs::metadata(dir).is_ok_and(|dir| same(&dir, &data));
        let is_outgoing =
            parent.file_name().is_some_and(|name| name == OUTGOING) && parent.parent().is_some_and(is_data);
        if !is_outgoing && dir.ancestors().any(|above| fs::metadata(above).is_ok_and(|above| same(&above, &data))) {
            let text = format!("{} is in the data directory: name a directory elsewhere", dir.display());
            return Err(BackupError::UnfitDir(text));
        }
        match fs::read_dir(&dir) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    return Err(BackupError::NotEmpty { dir });
                }
                let metadata = fs::metadata(&dir).map_err(|error| failed("look at", &dir, &error))?;
                if metadata.dev() != parent_metadata.dev() {
                    let text = format!("{} is a mount point: name a directory below it", dir.display());
                    return Err(BackupError::UnfitDir(text));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(BackupError::UnfitDir(format!("{} is not a directory", dir.display())));
            }
            Err(error) => return Err(failed("read the directory", &dir, &error)),
        }
        let mut partial_name = name.to_owned();
        partial_name.push(".partial");
        let partial = parent.join(partial_name);
        DirBuilder::new().mode(0o700).create(&partial).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => BackupError::Failed(format!(
                "{} exists: it belongs to an interrupted backup or to a backup of another server; remove it if no \
                 backup is running",
                partial.display()
            )),
            _ => failed("create the directory", &partial, &error),
        })?;
        Ok(Self { parent, partial, dir, is_outgoing })
    }

    /// Gives a whole backup its name, durably.
    fn complete(&self) -> Result<(), BackupError> {
        let synced = |dir: &Path| File::open(dir).and_then(|dir| dir.sync_all());
        synced(&self.partial)
            .and_then(|()| fs::rename(&self.partial, &self.dir))
            .and_then(|()| synced(&self.parent))
            .map_err(|error| BackupError::Failed(format!("cannot complete {}: {error}", self.dir.display())))
    }

    fn discard(&self) {
        if let Err(error) = fs::remove_dir_all(&self.partial) {
            tracing::warn!(dir = %self.partial.display(), %error, "cannot remove an incomplete backup");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Author, EntityType, FeatureId, ManualClock, Timestamp};
    use crate::metadata::embedded::{RedbJournal, open};
    use crate::metadata::local::LocalStore;
    use crate::metadata::{Calls, ChangeContext, NewFeature};

    fn create(metadata: &impl Calls, name: &str) {
        let new = NewFeature::of_bags(EntityType::new(name).unwrap(), None);
        let context = ChangeContext { by: Author::anonymous(), at: Timestamp::MIN };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(metadata.create_feature(new, context)).unwrap();
    }

    /// Items that are copied while a definition is created.
    struct Items(Arc<LocalStore<RedbJournal>>);

    impl FileBackup for Items {
        fn backup(
            &self,
            _: &Path,
            _: &(dyn Fn() -> bool + Sync),
            fixed: &mut dyn FnMut(),
        ) -> Result<ItemBackup, StoreError> {
            let (metadata, is_created) = (Arc::clone(&self.0), Arc::new(AtomicBool::new(false)));
            let created = Arc::clone(&is_created);
            let creation = std::thread::spawn(move || {
                create(&*metadata, "meanwhile");
                created.store(true, Ordering::Release);
            });
            assert!(!is_created.load(Ordering::Acquire), "it waits until the items are fixed");
            fixed();
            creation.join().unwrap();
            assert!(is_created.load(Ordering::Acquire));
            Ok(ItemBackup { data_files: 0, data_bytes: 0, copied_files: 0, log_segments: 0, log_bytes: 0 })
        }
    }

    #[tokio::test]
    async fn definitions_and_jobs_are_copied_as_of_the_moment_of_the_items() {
        let dir = tempfile::tempdir().unwrap();
        let (data_dir, to) = (dir.path().join("data"), dir.path().join("backup"));
        let metadata = Arc::new(open(&data_dir).unwrap());
        let before = Arc::clone(&metadata);
        std::thread::spawn(move || create(&*before, "before")).join().unwrap();
        let scope = BackupScope { data_dir, definitions: true, store: None };
        let clock = Arc::new(ManualClock::at(Timestamp::from_nanos(1_000_000_000).unwrap()));
        let items = Arc::new(Items(Arc::clone(&metadata)));
        let backups = Backups::new(scope, Ok(items), Arc::clone(&metadata) as _, Arc::clone(&clock) as _);
        let registry = Registry::new();
        backups.register(&registry).unwrap();
        let age = || registry.gather()[0].get_metric()[0].get_gauge().get_value();
        clock.set(Timestamp::from_nanos(61_000_000_000).unwrap());
        assert!((age() - 60.0).abs() < 1e-6, "no backup since the start: {}", age());
        backups.make(to.clone()).await.unwrap();
        assert!(age().abs() < 1e-6, "{}", age());
        clock.set(Timestamp::from_nanos(66_000_000_000).unwrap());
        assert!((age() - 5.0).abs() < 1e-6, "{}", age());
        let restored = open(&to).unwrap();
        for (name, is_restored) in [("before", true), ("meanwhile", false)] {
            let id = FeatureId::of_bags(EntityType::new(name).unwrap());
            assert_eq!(restored.feature(&id).await.unwrap().is_some(), is_restored, "{name}");
            assert!(metadata.feature(&id).await.unwrap().is_some(), "{name}");
        }
    }
}
