//! The audit trail of everything, where its table is whole and where it is not.

use std::sync::atomic::AtomicBool;

use redb::ReadableDatabase;
use serde_json::json;

use super::*;
use crate::domain::Revision;
use crate::metadata::keys::erasures::{Erasure, ErasureAction};
use crate::metadata::keys::server_changes::{ServerAction, ServerChange};
use crate::metadata::keys::{AccessStore, AuditFilter};

/// All of the trail that a filter finds, page by page, none of which looks at more than so many entries.
fn walked(database: &Database, filter: &AuditFilter, most: usize) -> (Vec<u64>, usize) {
    let (mut found, mut before, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = trail::read(database, filter, before, Limit::of_page(5).unwrap(), most).unwrap();
        found.extend(page.entries.iter().map(|entry| entry.revision().0));
        pages += 1;
        let Some(next) = page.next else { return (found, pages) };
        // Revisions follow each other: so many were looked at, and the one that told that there are more.
        let looked_at = before.map_or(next.0, |before: Revision| before.0 - next.0);
        assert!(before.is_none() || looked_at <= most as u64, "{looked_at} entries for a page");
        assert!(before.is_none_or(|before| next < before));
        before = Some(next);
    }
}

#[tokio::test]
async fn a_page_of_the_audit_trail_costs_what_a_page_costs_and_the_trail_is_made_up_where_it_is_missing() {
    const CHANGES: u64 = 400;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(FILE_NAME);
    let store = open(dir.path()).unwrap();
    store.create_feature(new_feature(), context()).await.unwrap();
    for change in 2..=CHANGES {
        if change % 100 == 0 {
            let target = format!("entity:user/u-{change}");
            let erasure = Erasure { action: ErasureAction::EraseEntity, target, details: json!({}) };
            store.note_erasure(erasure, context()).await.unwrap();
        } else if change % 100 == 50 {
            let (action, target) = (ServerAction::ChangeLog, "log".to_owned());
            let noted = ServerChange { action, target, before: None, after: Some(json!({"access": "off"})) };
            store.note_server_change(noted, context()).await.unwrap();
        } else {
            set_ttl(&store, change).await.unwrap();
        }
    }
    store.close().await;
    drop(store);
    let rare = AuditFilter { action: Some("erase_entity".to_owned()), ..AuditFilter::default() };
    let none = AuditFilter { by: Some("nobody".to_owned()), ..AuditFilter::default() };
    let expected = [400, 300, 200, 100];
    let database = Database::open(&file).unwrap();
    for most in [7, 20, 10_000] {
        let (found, pages) = walked(&database, &rare, most);
        assert_eq!((found, pages), (expected.to_vec(), (CHANGES as usize).div_ceil(most)));
        assert_eq!(walked(&database, &none, most).0, [0; 0]);
        assert_eq!(walked(&database, &AuditFilter::default(), most).0, (1..=CHANGES).rev().collect::<Vec<_>>());
    }
    for known in [0, 349] {
        forget_places_after(&database, known);
        for completed in [false, true] {
            if completed {
                trail::complete(&database).unwrap();
            }
            assert_eq!(is_whole(&database), completed);
            assert_eq!(walked(&database, &rare, 20).0, expected, "{known}");
            assert_eq!(walked(&database, &AuditFilter::default(), 1_000).0.len() as u64, CHANGES);
        }
    }
}

/// As a release leaves it that does not know the table: without it, or without what that release did itself.
fn forget_places_after(database: &Database, known: u64) {
    let writing = database.begin_write().unwrap();
    if known == 0 {
        assert!(writing.delete_table(place::PLACES).unwrap());
    } else {
        writing.open_table(place::PLACES).unwrap().retain(|revision, _| revision <= known).unwrap();
    }
    writing.open_table(tables::META).unwrap().insert("trail", known).unwrap();
    writing.commit().unwrap();
}

fn is_whole(database: &Database) -> bool {
    place::is_whole(&database.begin_read().unwrap().open_table(tables::META).unwrap()).unwrap()
}

/// Takes all room that the file has without growing.
fn take_all_room(path: &Path) {
    let (left, len) = (Arc::new(AtomicI64::new(PLENTY)), fs::metadata(path).unwrap().len());
    for piece in [64 << 10, 4 << 10, 1] {
        let fill = |database: &Database, n: u64| -> Result<(), redb::Error> {
            let writing = database.begin_write()?;
            writing
                .open_table(TableDefinition::<(u64, u64), &[u8]>::new("ballast"))?
                .insert((piece as u64, n), vec![1; piece].as_slice())?;
            Ok(writing.commit()?)
        };
        let database = FailingFile::open(path, &left, len).unwrap();
        assert!((0..10_000).any(|n| fill(&database, n).is_err()), "the file never was full");
    }
}

#[tokio::test]
async fn a_full_disk_keeps_no_server_from_starting_and_the_audit_trail_is_told_without_its_table() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE_NAME);
    let store = open(dir.path()).unwrap();
    store.create_feature(new_feature(), context()).await.unwrap();
    for secs in 2..=300 {
        set_ttl(&store, secs).await.unwrap();
    }
    drop(store);
    let database = Database::open(&path).unwrap();
    forget_places_after(&database, 0);
    drop(database);
    take_all_room(&path);

    let (left, len) = (Arc::new(AtomicI64::new(PLENTY)), fs::metadata(&path).unwrap().len());
    let is_full = Arc::new(AtomicBool::new(true));
    let opener = {
        let (path, is_full) = (path.clone(), Arc::clone(&is_full));
        move || FailingFile::open(&path, &left, if is_full.load(Ordering::SeqCst) { len } else { u64::MAX })
    };
    let store = open_with(opener);
    let trail = async || {
        let filter = AuditFilter::default();
        let page = store.audit(&filter, None, Limit::of_page(1_000).unwrap()).await.unwrap();
        page.entries.iter().rev().map(|entry| entry.revision().0).collect::<Vec<_>>()
    };
    assert_eq!(trail().await, (1..=300).collect::<Vec<_>>());
    assert_eq!(revisions(&store).await, (1..=300).collect::<Vec<_>>());
    let refused = set_ttl(&store, 301).await.unwrap_err();
    assert!(matches!(refused, MetadataError::Unavailable { .. }), "{refused:?}");
    // The file is opened anew by the next change, which makes up for the table as a start does.
    is_full.store(false, Ordering::SeqCst);
    set_ttl(&store, 301).await.unwrap();
    assert_eq!(trail().await, (1..=301).collect::<Vec<_>>());
    drop(store);
    assert!(is_whole(&Database::open(&path).unwrap()));
}

#[tokio::test]
async fn changes_that_are_made_beside_a_table_that_lacks_some_do_not_pass_for_all() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE_NAME);
    let (state, database) = {
        let store = open(dir.path()).unwrap();
        store.create_feature(new_feature(), context()).await.unwrap();
        set_ttl(&store, 2).await.unwrap();
        drop(store);
        let database = Database::open(&path).unwrap();
        forget_places_after(&database, 1);
        (journal::read_state(&database).unwrap(), database)
    };
    // As it goes on where there was no room for what is missing.
    let store = LocalStore::new(state, RedbJournal::of(database));
    set_ttl(&store, 3).await.unwrap();
    drop(store);
    let database = Database::open(&path).unwrap();
    assert!(!is_whole(&database));
    assert_eq!(walked(&database, &AuditFilter::default(), 10).0, [3, 2, 1]);
    drop(database);
    drop(open(dir.path()).unwrap());
    let database = Database::open(&path).unwrap();
    assert!(is_whole(&database));
    assert_eq!(walked(&database, &AuditFilter::default(), 10).0, [3, 2, 1]);
}
