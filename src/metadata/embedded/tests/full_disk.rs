//! A disk without space.

use std::fs::OpenOptions;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use redb::backends::FileBackend;
use redb::{Builder, StorageBackend};

use super::*;

/// A file on a failing disk: writes, growth and syncs succeed `left` times, then fail until there is space.
#[derive(Debug)]
struct FailingFile {
    file: FileBackend,
    left: Arc<AtomicI64>,
}

impl FailingFile {
    fn spend(&self) -> io::Result<()> {
        if self.left.fetch_sub(1, Ordering::SeqCst) > 0 { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
    }
}

impl StorageBackend for FailingFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.spend().and_then(|()| self.file.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.spend().and_then(|()| self.file.sync_data())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.spend().and_then(|()| self.file.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}

pub(super) const PLENTY: i64 = i64::MAX;

impl FailingFile {
    fn open(path: &Path, left: &Arc<AtomicI64>) -> Result<Database, JournalError> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let file = Self { file: FileBackend::new(file)?, left: Arc::clone(left) };
        Ok(Builder::new().create_with_backend(file)?)
    }
}

fn open_with(opener: impl Fn() -> Result<Database, JournalError> + Send + 'static) -> LocalStore<RedbJournal> {
    let opener = move || opener().map(|database| Opened { database, is_verified: false });
    let (state, journal) = RedbJournal::open(Box::new(opener), Belonging::Any, LogMark::default()).unwrap();
    LocalStore::new(state, journal)
}

pub(super) fn open_on_failing_disk(path: PathBuf, left: &Arc<AtomicI64>) -> LocalStore<RedbJournal> {
    let left = Arc::clone(left);
    open_with(move || FailingFile::open(&path, &left))
}

/// The disk fills up at each of a change's file operations in turn. The change is then complete or absent. The store
/// reports which as soon as there is space, and recovers automatically.
#[tokio::test]
async fn a_disk_that_fills_up_at_any_point_loses_nothing() {
    for point in 0.. {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE_NAME);
        let left = Arc::new(AtomicI64::new(PLENTY));
        let store = open_on_failing_disk(path.clone(), &left);
        store.create_feature(new_feature(), context()).await.unwrap();
        set_ttl(&store, 2).await.unwrap();

        left.store(point, Ordering::SeqCst);
        let outcome = set_ttl(&store, 3).await;
        if outcome.is_ok() {
            assert!(point > 2, "the disk never failed during a change");
            break;
        }
        let error = outcome.unwrap_err();
        assert!(matches!(error, MetadataError::Unavailable { .. }), "{error:?}");
        // Reads still return the acknowledged state. No change succeeds while the disk is full.
        assert_eq!(store.feature(&id()).await.unwrap().unwrap().properties().ttl, ttl(2));
        let again = set_ttl(&store, 4).await.unwrap_err();
        assert!(!again.outcome_unknown(), "nothing was begun: {again:?}");

        left.store(PLENTY, Ordering::SeqCst);
        let Definitions { revision, features } = store.definitions().await.unwrap();
        let has_landed = features[0].properties().ttl == ttl(3);
        assert!(has_landed || features[0].properties().ttl == ttl(2), "{:?}", features[0].properties().ttl);
        assert!(!has_landed || error.outcome_unknown(), "a change that was refused for certain is there");
        assert_eq!(revision.0, 2 + u64::from(has_landed));

        assert_eq!(set_ttl(&store, 5).await.unwrap().revision.0, revision.0 + 1);
        let expected: Vec<_> = (1..=revision.0 + 1).collect();
        assert_eq!(revisions(&store).await, expected, "the disk was full from operation {point} on");
        drop(store);
        let reopened = open_on_failing_disk(path, &left);
        assert_eq!(reopened.feature(&id()).await.unwrap().unwrap().properties().ttl, ttl(5));
        assert_eq!(revisions(&reopened).await, expected);
    }
}
