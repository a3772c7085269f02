//! Erasures: the lists that there may be, and the audit trail.

use liststore::domain::{EntityType, Limit, Revision};
use liststore::metadata::keys::erasures::{Erasure, ErasureAction};
use liststore::metadata::keys::{AuditEntry, AuditFilter};
use liststore::metadata::{Calls, MetadataStore};
use serde_json::json;

use super::MetadataBackend;
use super::keys::audit_lines;
use super::sample::*;

pub fn erasure(entity: &str) -> Erasure {
    let details = json!({"lists_cleared": 2, "not_cleared": ["user#é|"]});
    Erasure { action: ErasureAction::EraseEntity, target: format!("entity:{entity}"), details }
}

/// Feature, version and generation.
async fn generations(store: &dyn MetadataStore, entity_type: &str) -> Vec<(String, String, u64)> {
    let found = store.generations(&EntityType::new(entity_type).unwrap()).await.unwrap();
    let names = found.into_iter().map(|last| (last.id.to_string(), last.version.to_string(), last.generation.as_u64()));
    names.collect()
}

pub async fn every_former_generation_is_listed(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    assert!(generations(&*store, "user").await.is_empty());
    let (again, gone) = (id("user", "seen"), id("user", "bought"));
    for feature in [&again, &again, &gone] {
        create(&*store, feature).await;
        store.create_version(feature, new_version("v"), by("creator")).await.unwrap();
        store.delete_feature(feature, ANY, by("deleter")).await.unwrap();
    }
    create(&*store, &again).await;
    for other in [id("users", "seen"), id("User", "seen"), id("use", "r")] {
        create(&*store, &other).await;
    }
    let expected = [("user.bought", "", 1), ("user.bought", "v", 1), ("user.seen", "", 3), ("user.seen", "v", 2)];
    let expected = expected.map(|(id, version, generation)| (id.to_owned(), version.to_owned(), generation));
    assert_eq!(generations(&*store, "user").await, expected);
    store.close().await;
}

pub async fn an_erasure_takes_a_revision_and_is_audited(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    create(&*store, &id("user", "seen")).await;
    let context = by("key:feed");
    let noted = store.note_erasure(erasure("user/u 1"), context.clone()).await.unwrap();
    assert_eq!((noted.revision, noted.at, &noted.by), (Revision(2), context.at, &context.by));
    assert_eq!(store.definitions().await.unwrap().revision, Revision(2));
    create(&*store, &id("user", "bought")).await;
    store.note_erasure(erasure("user/u 2"), by("local")).await.unwrap();
    let all = ["erase_entity entity:user/u 2", "create_feature user.bought", "erase_entity entity:user/u 1"];
    let filter = |target: &str| AuditFilter { target: Some(target.to_owned()), ..Default::default() };
    assert_eq!(audit_lines(&store, &AuditFilter::default()).await[..3], all);
    assert_eq!(audit_lines(&store, &filter("entity:user/u 1")).await, all[2..]);
    let by_action = AuditFilter { action: Some("erase_entity".to_owned()), ..Default::default() };
    assert_eq!(audit_lines(&store, &by_action).await, [all[0], all[2]]);
    let one = Limit::of_page(1).unwrap();
    let page = store.audit(&by_action, Some(Revision(4)), one).await.unwrap();
    assert_eq!(page.next, None);
    assert_eq!(page.entries, [AuditEntry::Erasure(noted)]);
    store.close().await;
}
