//! A loss of power after a failed sync.

use std::sync::{Arc, Mutex, MutexGuard};

use redb::StorageBackend;

use super::damage::state_text;
use super::*;

/// A file in which a failed sync drops its writes. They stay readable until the power is lost. All handles share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Forgetful(Arc<Mutex<Forgetting>>);

#[derive(Debug, Default)]
pub(super) struct Forgetting {
    pub(super) durable: Vec<u8>,
    pub(super) present: Vec<u8>,
    pub(super) unsynced: Vec<(usize, Vec<u8>)>,
    /// All writes since this was cleared.
    pub(super) written: Vec<(usize, Vec<u8>)>,
    pub(super) syncs: u64,
    /// The number of syncs that succeed before one fails.
    syncs_left: Option<u64>,
}

impl Forgetting {
    pub(super) fn put(bytes: &mut Vec<u8>, at: usize, written: &[u8]) {
        bytes.resize(bytes.len().max(at + written.len()), 0);
        bytes[at..at + written.len()].copy_from_slice(written);
    }
}

impl Forgetful {
    pub(super) fn holding(bytes: Vec<u8>) -> Self {
        let (durable, present) = (bytes.clone(), bytes);
        Self(Arc::new(Mutex::new(Forgetting { durable, present, ..Forgetting::default() })))
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, Forgetting> {
        self.0.lock().unwrap()
    }

    pub(super) fn fail_sync_after(&self, syncs: u64) {
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

    pub(super) fn open(&self) -> Result<LocalStore<RedbJournal>, JournalError> {
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
async fn changes_acknowledged_after_a_failed_sync_survive_a_loss_of_power() {
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
        let expected = state_text(&store).await;
        drop(store);
        let (restarted, failed) = (file.open(), file.has_failed());
        let restarted = restarted.or_else(|_| file.open()).unwrap();
        assert_eq!(state_text(&restarted).await, expected);
        // Killed instead of closed.
        file.lose_power();
        let found = file.open().or_else(|_| file.open());
        let found = found.unwrap_or_else(|error| panic!("after {syncs} syncs: {error:?}"));
        assert_eq!(state_text(&found).await, expected, "after {syncs} syncs");
        assert!(acknowledged == 5 || file.has_failed());
        drop(restarted);
        if !failed {
            assert!(syncs > 10, "{syncs}");
            break;
        }
    }
}
