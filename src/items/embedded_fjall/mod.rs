//! The embedded item store on fjall: a row an item, and an index row each by value.
//!
//! This folder owns what lies in `<data directory>/items`. All writes go through one committer
//! thread ([`committer`]), since the engine's back-pressure sleeps on whoever writes; reads run on
//! a bounded number of blocking threads, since they may touch the disk. Nothing here may block the
//! arbiter that a session lives in.

use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use prometheus::Registry;

use super::{ItemSession, ItemStore, StoreError};
use crate::domain::Clock;

mod committer;
mod directory;
mod engine;
mod filter;
mod keys;
mod metrics;
mod session;
#[cfg(test)]
mod tests;

use committer::Committer;
use directory::Directory;
use metrics::Metrics;
use session::{Session, Shared};

/// When an acknowledged write is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fsync {
    /// Before it is acknowledged: one fsync for all writes that wait together.
    Group,
    /// At most this long after it is acknowledged. It survives a crash of the process at once; a
    /// machine that loses power may lose this much.
    Interval(Duration),
}

/// How the store is opened.
#[derive(Clone)]
pub struct Options {
    /// The data directory; the store keeps to `items` in it.
    pub dir: PathBuf,
    pub fsync: Fsync,
    /// For the engine's cache and its write buffers together.
    pub cache_bytes: u64,
    /// Tells which rows have expired and may be reclaimed. What a read shows is decided by the
    /// operation's own `now`.
    pub clock: Arc<dyn Clock>,
}

/// Why the store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{} is in use by another server: each needs a data directory of its own", path.display())]
    Locked { path: PathBuf },
    #[error(
        "{} was written by a newer liststore (format {found}, this one knows {}): start that one",
        path.display(),
        directory::FORMAT
    )]
    Newer { path: PathBuf, found: u32 },
    #[error("{} holds files that are not of this item store: move them away, or choose another data directory", path.display())]
    Foreign { path: PathBuf },
    #[error("cannot open {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("cannot open the engine in {}: {reason}", path.display())]
    Engine { path: PathBuf, reason: String },
    #[error("cannot register metrics: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// The store; its sessions share it.
pub struct FjallStore {
    shared: Arc<Shared>,
}

/// Opens the store, and makes it where there is none. Blocks on the disk, for seconds after a
/// crash: for the start only.
pub fn open(options: Options, registry: &Registry) -> Result<FjallStore, OpenError> {
    let metrics = Metrics::register(registry)?;
    let directory = Directory::open(&options.dir)?;
    let path = directory.engine_path();
    let engine_options = engine::Options { path: path.clone(), cache_bytes: options.cache_bytes, clock: options.clock };
    let engine = engine::Engine::open(&engine_options)
        .map_err(|error| OpenError::Engine { path: path.clone(), reason: error.to_string() })?;
    directory.finish()?;
    let (shared, writes) = Shared::new(engine);
    let shared = Arc::new(shared);
    Committer { shared: Arc::clone(&shared), writes, directory, engine_options, fsync: options.fsync, metrics }
        .start()
        .map_err(|source| OpenError::Io { path, source })?;
    Ok(FjallStore { shared })
}

#[async_trait(?Send)]
impl ItemStore for FjallStore {
    async fn open_session(&self) -> Result<Rc<dyn ItemSession>, StoreError> {
        Ok(Rc::new(Session::new(Arc::clone(&self.shared))))
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.shared.close().await;
        Ok(())
    }

    fn read_only(&self) -> Option<String> {
        self.shared.read_only()
    }
}
