//! The embedded metadata store with untrusted files and failing disks.

mod audit;
mod together;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use redb::backends::FileBackend;
use redb::{Builder, StorageBackend, TableDefinition};

use super::*;
use crate::definition::Feature;
use crate::definition::{GivenProperties, VersionProperties};
use crate::domain::{
    Author, Description, EntityType, FeatureId, FeatureName, Labels, Limit, Owner, Timestamp, Ttl, ValueType,
};
use crate::metadata::{Calls, ChangeContext, Definitions, Frozen, MetadataStore, NewFeature, Precondition};

fn id() -> FeatureId {
    FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new("f").unwrap() }
}

fn context() -> ChangeContext {
    ChangeContext { by: Author::anonymous(), at: Timestamp::MIN }
}

fn ttl(secs: u64) -> Ttl {
    Ttl::from_secs(secs).unwrap()
}

fn new_feature() -> NewFeature {
    NewFeature {
        id: id(),
        value_type: ValueType::String,
        properties: VersionProperties { ttl: ttl(1), ..VersionProperties::default() },
        description: Description::default(),
        owner: Owner::default(),
        labels: Labels::new(BTreeMap::new()).unwrap(),
    }
}

async fn set_ttl(store: &impl MetadataStore, secs: u64) -> Result<Feature, MetadataError> {
    let patch = GivenProperties { ttl: Some(ttl(secs)), ..GivenProperties::default() }.into();
    store.update_feature(&id(), patch, Precondition::None, context()).await
}

async fn revisions(store: &impl MetadataStore) -> Vec<u64> {
    let page = store.history(&id(), None, Limit::of_page(1_000).unwrap()).await.unwrap().unwrap();
    page.entries.iter().rev().map(|entry| entry.revision.0).collect()
}

fn refusal(dir: &Path) -> String {
    open(dir).err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn a_second_opener_is_told_that_the_file_is_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path()).unwrap();
    assert!(matches!(open(dir.path()), Err(OpenError::Locked { .. })));
    drop(first);
    open(dir.path()).unwrap();
}

#[test]
fn foreign_and_newer_files_are_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(FILE_NAME);

    for garbage in [b"some text, longer than the magic number of any file format".to_vec(), vec![0xff; 40_000]] {
        fs::write(&file, &garbage).unwrap();
        assert!(refusal(dir.path()).contains("is not a metadata file of liststore"), "{}", refusal(dir.path()));
        assert_eq!(fs::read(&file).unwrap(), garbage);
    }
    fs::remove_file(&file).unwrap();

    let other = Database::create(&file).unwrap();
    let transaction = other.begin_write().unwrap();
    transaction.open_table(TableDefinition::<u64, u64>::new("theirs")).unwrap();
    transaction.commit().unwrap();
    drop(other);
    assert!(refusal(dir.path()).contains("is not a metadata file of liststore"), "{}", refusal(dir.path()));
    fs::remove_file(&file).unwrap();

    drop(open(dir.path()).unwrap());
    let ours = Database::create(&file).unwrap();
    let transaction = ours.begin_write().unwrap();
    transaction
        .open_table(TableDefinition::<&str, u64>::new("meta"))
        .unwrap()
        .insert("format", format::FORMATS.present() + 1)
        .unwrap();
    transaction.commit().unwrap();
    drop(ours);
    assert!(
        refusal(dir.path()).contains("newer liststore (format 2, this version supports 1)"),
        "{}",
        refusal(dir.path())
    );
}

#[tokio::test]
async fn a_broken_record_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    store.create_feature(new_feature(), context()).await.unwrap();
    drop(store);
    let database = Database::create(dir.path().join(FILE_NAME)).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction
        .open_table(TableDefinition::<&str, &[u8]>::new("features"))
        .unwrap()
        .insert("user\0f", b"{}".as_slice())
        .unwrap();
    transaction.commit().unwrap();
    drop(database);
    let refusal = refusal(dir.path());
    assert!(refusal.contains("is damaged: inconsistent metadata: features.record of user.f"), "{refusal}");
}

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

const PLENTY: i64 = i64::MAX;

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

fn open_on_failing_disk(path: PathBuf, left: &Arc<AtomicI64>) -> LocalStore<RedbJournal> {
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

#[tokio::test]
async fn a_backup_of_a_store_in_use_holds_all_that_was_acknowledged() {
    let (dir, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(dir.path()).unwrap();
    store.create_feature(new_feature(), context()).await.unwrap();
    for secs in 2..60 {
        set_ttl(&store, secs).await.unwrap();
    }
    let Frozen { snapshot, changes } = store.freeze().unwrap();
    drop(changes);
    snapshot.write(to.path()).unwrap();
    set_ttl(&store, 100).await.unwrap();
    let found = verify(to.path()).unwrap().unwrap();
    assert_eq!((found.features, found.changes), (1, 59));
    let restored = open(to.path()).unwrap();
    assert_eq!(restored.feature(&id()).await.unwrap().unwrap().properties().ttl, ttl(59));
    assert_eq!(revisions(&restored).await, (1..=59).collect::<Vec<_>>());
    // It continues the revisions of the backup.
    assert_eq!(set_ttl(&restored, 3).await.unwrap().revision.0, 60);
}

#[tokio::test]
async fn a_damaged_file_is_found_out_or_reads_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(FILE_NAME);
    let store = open(dir.path()).unwrap();
    store.create_feature(new_feature(), context()).await.unwrap();
    for secs in 2..40 {
        set_ttl(&store, secs).await.unwrap();
    }
    assert!(matches!(verify(dir.path()), Err(OpenError::Locked { .. })));
    let truth = told(&store).await;
    drop(store);
    assert!(verify(tempfile::tempdir().unwrap().path()).unwrap().is_none());
    let whole = fs::read(&file).unwrap();
    let mut found_out = 0;
    for at in (0..whole.len()).step_by(2_039) {
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        fs::write(&file, &bytes).unwrap();
        match verify(dir.path()) {
            Ok(found) => assert_eq!(found.map(|found| (found.features, found.changes)), Some((1, 39)), "byte {at}"),
            Err(OpenError::Damaged { path, .. } | OpenError::Foreign { path }) => {
                assert_eq!(path, file);
                found_out += 1;
            }
            Err(other) => panic!("byte {at}: {other}"),
        }
        assert_eq!(fs::read(&file).unwrap(), bytes, "looking has changed the file");
        if let Ok(told) = opened_with(&bytes).await {
            assert_eq!(told, truth, "byte {at}");
        }
    }
    assert!(found_out > 3, "{found_out}");
}

/// Two features, one of them deleted and created again, with some history. The last change affects the definition that
/// a reader would notice.
async fn change_much(store: &impl MetadataStore) {
    store.create_feature(new_feature(), context()).await.unwrap();
    for secs in 2..8 {
        set_ttl(store, secs).await.unwrap();
    }
    store.delete_feature(&id(), Precondition::None, context()).await.unwrap();
    store.create_feature(new_feature(), context()).await.unwrap();
    set_ttl(store, 77).await.unwrap();
}

/// All reports of a store after [`change_much`].
async fn told(store: &impl MetadataStore) -> String {
    let history = store.history(&id(), None, Limit::of_page(1_000).unwrap()).await.unwrap().unwrap();
    let Definitions { revision, features, .. } = store.definitions().await.unwrap();
    format!("{revision:?} {features:?} {:?}", history.entries)
}

/// Opens a file with these bytes. Returns its content, or the reason of the refusal.
async fn opened_with(bytes: &[u8]) -> Result<String, String> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(FILE_NAME), bytes).unwrap();
    match open(dir.path()) {
        Ok(store) => Ok(told(&store).await),
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains(FILE_NAME), "{text}");
            Err(text)
        }
    }
}

/// The files of a closed store and of a killed one.
async fn files() -> ([Vec<u8>; 2], String) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(FILE_NAME);
    let store = open(dir.path()).unwrap();
    change_much(&store).await;
    store.settle().await.unwrap();
    let told = told(&store).await;
    let killed = fs::read(&file).unwrap();
    drop(store);
    ([killed, fs::read(&file).unwrap()], told)
}

/// redb verifies its checksums only when it repairs a file. So a flipped bit, for example in the generation of a
/// version, would have shown a list of another time.
#[tokio::test]
async fn damage_anywhere_is_refused_or_harmless() {
    let (files, truth) = files().await;
    for whole in files {
        assert_eq!(opened_with(&whole).await.unwrap(), truth);
        let used = (0..whole.len()).filter(|at| whole[*at] != 0);
        // The whole header, which names the last transaction, and a part of the rest, much of which is unused pages.
        let (header, rest): (Vec<usize>, Vec<usize>) = used.partition(|at| *at < 512);
        let mut refused = 0;
        for at in header.into_iter().chain(rest.into_iter().step_by(499)) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            match opened_with(&bytes).await {
                Ok(told) => assert_eq!(told, truth, "a bit of byte {at}"),
                Err(_) => refused += 1,
            }
        }
        for len in (1..whole.len()).step_by(4_096 * 7) {
            match opened_with(&whole[..len]).await {
                Ok(told) => assert_eq!(told, truth, "cut at {len}"),
                Err(_) => refused += 1,
            }
        }
        assert!(refused > 50, "{refused}");
    }
}

/// A file in which a failed sync drops its writes. They stay readable until the power is lost. All handles share it.
#[derive(Debug, Clone, Default)]
struct Forgetful(Arc<Mutex<Forgetting>>);

#[derive(Debug, Default)]
struct Forgetting {
    durable: Vec<u8>,
    present: Vec<u8>,
    unsynced: Vec<(usize, Vec<u8>)>,
    /// All writes since this was cleared.
    written: Vec<(usize, Vec<u8>)>,
    syncs: u64,
    /// The number of syncs that succeed before one fails.
    syncs_left: Option<u64>,
}

impl Forgetting {
    fn put(bytes: &mut Vec<u8>, at: usize, written: &[u8]) {
        bytes.resize(bytes.len().max(at + written.len()), 0);
        bytes[at..at + written.len()].copy_from_slice(written);
    }
}

impl Forgetful {
    fn holding(bytes: Vec<u8>) -> Self {
        let (durable, present) = (bytes.clone(), bytes);
        Self(Arc::new(Mutex::new(Forgetting { durable, present, ..Forgetting::default() })))
    }

    fn inner(&self) -> MutexGuard<'_, Forgetting> {
        self.0.lock().unwrap()
    }

    fn fail_sync_after(&self, syncs: u64) {
        self.inner().syncs_left = Some(syncs);
    }

    fn has_failed(&self) -> bool {
        self.inner().syncs_left.is_none()
    }

    fn lose_power(&self) {
        let mut inner = self.inner();
        inner.unsynced.clear();
        inner.present = inner.durable.clone();
    }

    fn open(&self) -> Result<LocalStore<RedbJournal>, JournalError> {
        let file = self.clone();
        let (state, journal) = RedbJournal::open(
            Box::new(move || trust::open_in_place(file.clone())),
            Belonging::Any,
            LogMark::default(),
        )?;
        Ok(LocalStore::new(state, journal))
    }
}

impl StorageBackend for Forgetful {
    fn len(&self) -> io::Result<u64> {
        Ok(self.inner().present.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let inner = self.inner();
        let at = usize::try_from(offset).unwrap();
        let bytes = inner.present.get(at..at + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    /// Lengths are durable at once, because no test concerns them.
    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut inner = self.inner();
        let len = usize::try_from(len).unwrap();
        inner.present.resize(len, 0);
        inner.durable.resize(len, 0);
        inner.unsynced.retain(|(at, bytes)| at + bytes.len() <= len);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let inner = &mut *self.inner();
        inner.syncs += 1;
        let unsynced = std::mem::take(&mut inner.unsynced);
        match &mut inner.syncs_left {
            Some(0) => {
                inner.syncs_left = None;
                return Err(io::Error::other("the sync failed"));
            }
            Some(left) => *left -= 1,
            None => {}
        }
        unsynced.iter().for_each(|(at, bytes)| Forgetting::put(&mut inner.durable, *at, bytes));
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let inner = &mut *self.inner();
        let at = usize::try_from(offset).unwrap();
        Forgetting::put(&mut inner.present, at, data);
        inner.unsynced.push((at, data.to_vec()));
        inner.written.push((at, data.to_vec()));
        Ok(())
    }
}

/// One sync fails, the first or any later one, while the file is created, opened or changed. The store recovers or
/// restarts, and then the power is lost.
#[tokio::test]
async fn what_was_acknowledged_after_a_failed_sync_outlives_a_loss_of_power() {
    for syncs in 0.. {
        let mut file = Forgetful::default();
        file.fail_sync_after(syncs);
        let store = file.open().unwrap_or_else(|_| {
            // It has no name yet, and is created again.
            file = Forgetful::default();
            file.open().unwrap()
        });
        let mut acknowledged = 0;
        while store.create_feature(new_feature(), context()).await.is_err() {
            assert!(file.has_failed());
            // It may exist nevertheless.
            if store.feature(&id()).await.unwrap().is_some() {
                break;
            }
        }
        for secs in 2..6 {
            if set_ttl(&store, secs).await.is_ok() {
                acknowledged = secs;
            }
        }
        let told = told(&store).await;
        drop(store);
        let (restarted, failed) = (file.open(), file.has_failed());
        let restarted = restarted.or_else(|_| file.open()).unwrap();
        assert_eq!(super::tests::told(&restarted).await, told);
        // Killed instead of closed.
        file.lose_power();
        let found = file.open().or_else(|_| file.open());
        let found = found.unwrap_or_else(|error| panic!("after {syncs} syncs: {error:?}"));
        assert_eq!(super::tests::told(&found).await, told, "after {syncs} syncs");
        assert!(acknowledged == 5 || file.has_failed());
        drop(restarted);
        if !failed {
            assert!(syncs > 10, "{syncs}");
            break;
        }
    }
}
