//! Makes backups of a running server's data directory: decides where they go, in which order the two
//! planes are copied, and that a half-made one is never taken for a whole one.
//!
//! It knows neither HTTP nor settings, and nothing of what the stores write.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, oneshot};

use crate::data_dir::{Part, note_copy};
use crate::domain::StoreId;
use crate::items::embedded::RealDisk;
use crate::items::{ItemBackup, ItemStore, StoreError};
use crate::metadata::{MetadataError, MetadataStore};

/// Why there is no backup.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BackupError {
    /// These stores are backed up in another way, which the text names.
    #[error("{0}")]
    Unsupported(&'static str),
    #[error("{} is not empty: name a directory that is empty, or not there yet", dir.display())]
    NotEmpty { dir: PathBuf },
    /// No backup can be made there: the text says why, and what to name instead.
    #[error("{0}")]
    UnfitDir(String),
    #[error("another backup is being made: wait until it is done")]
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
    /// Whether the definitions are in it. They are not where they live in a database of their own.
    pub definitions: bool,
    pub took: Duration,
}

/// What is backed up: which planes are kept in the data directory.
#[derive(Debug, Clone)]
pub struct Scope {
    pub data_dir: PathBuf,
    /// What to use instead where the items are elsewhere.
    pub items: Result<(), &'static str>,
    pub definitions: bool,
    /// Which store the data directory is, and which of its parts are copied.
    pub store: Option<(StoreId, Vec<Part>)>,
}

/// Makes backups, one at a time. Cheap to clone.
#[derive(Clone)]
pub struct Backups(Arc<Shared>);

struct Shared {
    scope: Scope,
    items: Arc<dyn ItemStore>,
    metadata: Arc<dyn MetadataStore>,
    /// Held while a backup is made.
    running: Arc<Mutex<()>>,
    stopping: AtomicBool,
}

impl Backups {
    pub fn new(scope: Scope, items: Arc<dyn ItemStore>, metadata: Arc<dyn MetadataStore>) -> Self {
        Self(Arc::new(Shared { scope, items, metadata, running: Arc::default(), stopping: AtomicBool::new(false) }))
    }

    /// Makes a backup in `dir`, an absolute path that leads nowhere yet or to an empty directory.
    ///
    /// It goes on to its end even if nobody waits for it any more.
    pub async fn make(&self, dir: PathBuf) -> Result<Backup, BackupError> {
        self.0.scope.items.map_err(BackupError::Unsupported)?;
        let turn = self.0.running.clone().try_lock_owned().map_err(|_| BackupError::Running)?;
        let shared = self.0.clone();
        let (answer, answered) = oneshot::channel();
        let work = move || {
            let made = shared.make(&dir);
            drop(turn);
            if let Err(unheard) = answer.send(made) {
                tracing::info!(?unheard, "nobody waits for this backup any more");
            }
        };
        let failed = |error: io::Error| BackupError::Failed(format!("cannot start a thread: {error}"));
        std::thread::Builder::new().name("backup".into()).spawn(work).map_err(failed)?;
        answered.await.map_err(|_| BackupError::Failed("the backup broke off; the log says why".to_owned()))?
    }

    /// Breaks off a backup that is being made, and returns once what there was of it is gone.
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
        let backup = Backup { dir: place.dir, items, definitions: self.scope.definitions, took: began.elapsed() };
        tracing::info!(dir = %backup.dir.display(), took = ?backup.took, "a backup was made");
        Ok(backup)
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Items first. An item says in its list's name to which generation of its feature it belongs,
    /// and a feature that is created again after its deletion takes the next generation. Were the
    /// definitions older than the items, they could lack a generation that items have: it would be
    /// given out a second time, and a new feature begin with old items. Newer ones do no harm: what
    /// they define anew is empty, and what they have deleted is not reached.
    fn fill(&self, partial: &Path) -> Result<ItemBackup, BackupError> {
        let items = self.items.backup(partial, &|| self.is_stopping())?;
        if self.scope.definitions {
            self.metadata.backup(partial)?;
        }
        if let Some((id, parts)) = &self.scope.store {
            note_copy(&RealDisk, partial, *id, parts).map_err(|error| BackupError::Failed(error.to_string()))?;
        }
        if self.is_stopping() { Err(BackupError::Stopping) } else { Ok(items) }
    }
}

/// Where a backup is made, and where it goes once it is whole.
struct TargetDir {
    dir: PathBuf,
    parent: PathBuf,
    partial: PathBuf,
}

impl TargetDir {
    fn prepare(dir: &Path, data_dir: &Path) -> Result<Self, BackupError> {
        let failed = |what: &str, path: &Path, error: &io::Error| {
            BackupError::Failed(format!("cannot {what} {}: {error}", path.display()))
        };
        // A link to an empty directory is as good as that directory; one that leads nowhere is not.
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
            io::ErrorKind::NotFound => BackupError::UnfitDir(format!("there is no directory {}", parent.display())),
            _ => failed("look at", parent, &error),
        })?;
        let dir = parent.join(name);
        let parent_metadata = fs::metadata(&parent).map_err(|error| failed("look at", &parent, &error))?;
        if !parent_metadata.is_dir() {
            return Err(BackupError::UnfitDir(format!("{} is no directory", parent.display())));
        }
        // By what the directories are: a path may lead into one by way of links and mounts.
        let same = |one: &fs::Metadata, other: &fs::Metadata| (one.dev(), one.ino()) == (other.dev(), other.ino());
        let data = fs::metadata(data_dir).map_err(|error| failed("look at", data_dir, &error))?;
        if dir.ancestors().any(|above| fs::metadata(above).is_ok_and(|above| same(&above, &data))) {
            let text = format!("{} is in the data directory: name one elsewhere", dir.display());
            return Err(BackupError::UnfitDir(text));
        }
        match fs::read_dir(&dir) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    return Err(BackupError::NotEmpty { dir });
                }
                let metadata = fs::metadata(&dir).map_err(|error| failed("look at", &dir, &error))?;
                if metadata.dev() != parent_metadata.dev() {
                    let text = format!("{} is where a file system is mounted: name a directory in it", dir.display());
                    return Err(BackupError::UnfitDir(text));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(BackupError::UnfitDir(format!("{} is no directory", dir.display())));
            }
            Err(error) => return Err(failed("read the directory", &dir, &error)),
        }
        let mut partial_name = name.to_owned();
        partial_name.push(".partial");
        let partial = parent.join(partial_name);
        DirBuilder::new().mode(0o700).create(&partial).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => BackupError::Failed(format!(
                "{} is there: a backup that broke off, or one that another server makes; remove it if nobody is at it",
                partial.display()
            )),
            _ => failed("create the directory", &partial, &error),
        })?;
        Ok(Self { parent, partial, dir })
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
