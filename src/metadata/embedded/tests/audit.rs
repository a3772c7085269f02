//! The complete audit trail.

use liststore_contract::operations::change_log;
use serde_json::json;

use super::*;
use crate::domain::Revision;
use crate::metadata::keys::erasures::{Erasure, ErasureAction};
use crate::metadata::keys::server_changes::{ServerAction, ServerChange};
use crate::metadata::keys::{AccessStore, AuditFilter};

/// All entries that a filter finds, page by page. Each page examines a bounded number of entries.
fn walked(database: &Database, filter: &AuditFilter, most: usize) -> (Vec<u64>, usize) {
    let (mut found, mut before, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = trail::read(database, filter, before, Limit::of_page(5).unwrap(), most).unwrap();
        found.extend(page.entries.iter().map(|entry| entry.revision().0));
        pages += 1;
        let Some(next) = page.next else { return (found, pages) };
        // Revisions are consecutive: the page examined these entries, and one more that showed that more follow.
        let scanned = before.map_or(next.0, |before: Revision| before.0 - next.0);
        assert!(before.is_none() || scanned <= most as u64, "{scanned} entries for a page");
        assert!(before.is_none_or(|before| next < before));
        before = Some(next);
    }
}

#[tokio::test]
async fn a_page_of_the_audit_trail_reads_only_its_entries() {
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
            let (action, target) = (ServerAction::of(&change_log::ROW), "log".to_owned());
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
}
