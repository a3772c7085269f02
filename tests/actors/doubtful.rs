//! The metadata actor on a journal that cannot report whether it stored a change.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use liststore::actors::MetadataHandle;
use liststore::domain::{Author, FeatureId, JobId, KeyId, Limit, Revision, Timestamp};
use liststore::metadata::change::Transition;
use liststore::metadata::jobs::Job;
use liststore::metadata::keys::change::KeyTransition;
use liststore::metadata::keys::erasures::ErasureEntry;
use liststore::metadata::keys::server_changes::ServerChangeEntry;
use liststore::metadata::keys::{AuditFilter, AuditPage};
use liststore::metadata::local::{Journal, LocalStore, State};
use liststore::metadata::memory::MemoryJournal;
use liststore::metadata::{Change, HistoryEntry, MetadataError, Page, Precondition};

use crate::definitions::{id, knows, new_feature, options};
use crate::faulty::Faults;
use crate::until;

/// A journal that stores a change, and cannot report it: like a disk whose last write failed after it was made. It can
/// be read again on demand.
#[derive(Default)]
struct DoubtfulJournal {
    kept: MemoryJournal,
    /// The whole stored state, which a store finds that opens it again.
    state: State,
    doubt: Arc<Doubt>,
}

#[derive(Default)]
struct Doubt {
    fails: AtomicBool,
    broken: AtomicBool,
    unreadable: AtomicBool,
    panics: AtomicBool,
    unsettled: AtomicBool,
    settles: AtomicUsize,
}

impl Journal for DoubtfulJournal {
    fn append(&mut self, transitions: &[Transition]) -> Result<(), MetadataError> {
        self.kept.append(transitions)?;
        for transition in transitions {
            let before = self.state.features.get(&transition.id).unwrap();
            self.state.apply(before.as_ref(), transition);
        }
        assert!(!self.doubt.panics.swap(false, SeqCst), "injected panic");
        if self.doubt.fails.swap(false, SeqCst) {
            self.doubt.broken.store(true, SeqCst);
            return Err(MetadataError::Unavailable { reason: "doubtful".into(), outcome_unknown: true });
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), MetadataError> {
        self.doubt.settles.fetch_add(1, SeqCst);
        if self.doubt.unsettled.swap(false, SeqCst) {
            return Err(MetadataError::Unavailable { reason: "unsettled".into(), outcome_unknown: false });
        }
        self.kept.settle()
    }

    fn release(&mut self) {
        self.doubt.broken.store(true, SeqCst);
    }

    fn recover(&mut self) -> Result<Option<State>, MetadataError> {
        if self.doubt.broken.load(SeqCst) && self.doubt.unreadable.load(SeqCst) {
            return Err(MetadataError::Unavailable { reason: "unreadable".into(), outcome_unknown: false });
        }
        Ok(self.doubt.broken.swap(false, SeqCst).then(|| self.state.clone()))
    }

    fn append_key(&mut self, transition: &KeyTransition) -> Result<(), MetadataError> {
        self.kept.append_key(transition)
    }

    fn append_erasure(&mut self, entry: &ErasureEntry, job: Option<&Job>) -> Result<(), MetadataError> {
        self.kept.append_erasure(entry, job)
    }

    fn append_server_change(&mut self, entry: &ServerChangeEntry) -> Result<(), MetadataError> {
        self.kept.append_server_change(entry)
    }

    fn jobs(&self) -> Result<Vec<Job>, MetadataError> {
        self.kept.jobs()
    }

    fn keep_job(&mut self, job: &Job) -> Result<(), MetadataError> {
        self.kept.keep_job(job)
    }

    fn forget_job(&mut self, id: JobId) -> Result<(), MetadataError> {
        self.kept.forget_job(id)
    }

    fn note_uses(&mut self, uses: &[(KeyId, Timestamp)]) -> Result<(), MetadataError> {
        self.kept.note_uses(uses)
    }

    fn audit(
        &self,
        filter: &AuditFilter,
        before: Option<Revision>,
        page_size: Limit,
    ) -> Result<AuditPage, MetadataError> {
        self.kept.audit(filter, before, page_size)
    }

    fn history(
        &self,
        id: &FeatureId,
        before: Option<Revision>,
        page_size: Limit,
    ) -> Result<Option<Page<HistoryEntry>>, MetadataError> {
        self.kept.history(id, before, page_size)
    }
}

/// A created feature that no list operation found, and a deleted one that still accepted adds: the store had the change
/// after its journal recovered, and the catalog did not.
#[actix::test]
async fn the_catalog_follows_a_change_of_unknown_outcome() {
    for unreadable_at_first in [false, true] {
        let doubt = Arc::new(Doubt::default());
        let journal = DoubtfulJournal { doubt: Arc::clone(&doubt), ..Default::default() };
        let store = Arc::new(LocalStore::new(State::default(), journal));
        let clock = Arc::new(Faults::default());
        let handle = MetadataHandle::start(store, clock, options()).await.unwrap();
        until("the catalog is loaded", || handle.catalog().snapshot().is_some()).await;

        doubt.unreadable.store(unreadable_at_first, SeqCst);
        doubt.fails.store(true, SeqCst);
        let created = handle.apply(Change::CreateFeature(new_feature("seen")), Author::anonymous()).await;
        assert!(created.is_err_and(|error| error.outcome_unknown()));
        if unreadable_at_first {
            until("that it is behind shows", || handle.unavailable_reason().is_some_and(|why| *why == "unreadable"))
                .await;
            assert!(!knows(&handle, "seen"));
            doubt.unreadable.store(false, SeqCst);
        }
        until("the creation is known", || knows(&handle, "seen")).await;

        doubt.unreadable.store(unreadable_at_first, SeqCst);
        doubt.fails.store(true, SeqCst);
        let deleted = handle
            .apply(Change::DeleteFeature { id: id("seen"), condition: Precondition::None }, Author::anonymous())
            .await;
        assert!(deleted.is_err_and(|error| error.outcome_unknown()));
        doubt.unreadable.store(false, SeqCst);
        until("the deletion is known", || !knows(&handle, "seen")).await;
        until("no trouble is left", || handle.unavailable_reason().is_none()).await;
        handle.stop(Duration::from_secs(60)).await;
    }
}

async fn started_doubtful() -> (MetadataHandle, Arc<Doubt>) {
    let doubt = Arc::new(Doubt::default());
    let journal = DoubtfulJournal { doubt: Arc::clone(&doubt), ..Default::default() };
    let store = Arc::new(LocalStore::new(State::default(), journal));
    let handle = MetadataHandle::start(store, Arc::new(Faults::default()), options()).await.unwrap();
    until("the catalog is loaded", || handle.catalog().snapshot().is_some()).await;
    (handle, doubt)
}

/// The journal has it, and the state in memory does not.
#[actix::test]
async fn a_panicked_change_is_followed_by_a_read() {
    let (handle, doubt) = started_doubtful().await;
    doubt.panics.store(true, SeqCst);
    let created = handle.apply(Change::CreateFeature(new_feature("seen")), Author::anonymous()).await;
    assert!(created.is_err_and(|error| error.outcome_unknown()));
    until("the creation is known", || knows(&handle, "seen")).await;
    let again = handle.apply(Change::CreateFeature(new_feature("seen")), Author::anonymous()).await;
    assert!(matches!(again, Err(MetadataError::FeatureExists(_))), "{again:?}");
    handle.stop(Duration::from_secs(60)).await;
}

#[actix::test]
async fn a_store_that_cannot_settle_is_retried() {
    let (handle, doubt) = started_doubtful().await;
    until("it settles at the start", || doubt.settles.load(SeqCst) == 1).await;
    doubt.unsettled.store(true, SeqCst);
    handle.apply(Change::CreateFeature(new_feature("seen")), Author::anonymous()).await.unwrap();
    until("it is asked again", || doubt.settles.load(SeqCst) == 3).await;
    until("no trouble is left", || handle.unavailable_reason().is_none()).await;
    handle.stop(Duration::from_secs(60)).await;
    assert_eq!(doubt.settles.load(SeqCst), 4, "and at the end");
}
