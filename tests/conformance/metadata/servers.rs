//! The audit trail of servers: pools, logs, jobs and backups.

use liststore::domain::{Limit, Revision};
use liststore::metadata::keys::server_changes::{ServerAction, ServerChange};
use liststore::metadata::keys::{AuditEntry, AuditFilter};
use liststore_contract::operations::{cancel_job, create_backup, pause_job, resize_pool, resume_job, update_job};
use liststore_contract::row::Row;
use serde_json::json;

use super::MetadataBackend;
use super::keys::audit_lines;
use super::sample::*;

static JOB_COMMANDS: [&Row; 4] = [&update_job::ROW, &pause_job::ROW, &resume_job::ROW, &cancel_job::ROW];

pub fn server_change(operation: &'static Row, target: &str) -> ServerChange {
    let action = ServerAction::of(operation);
    let after = json!({"server": "é", "actors": 4, "filter": null});
    ServerChange { action, target: target.to_owned(), before: Some(json!({"actors": 2})), after: Some(after) }
}

pub async fn a_change_of_a_server_takes_a_revision_and_is_audited(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    create(&*store, &id("user", "seen")).await;
    let context = by("key:ops");
    let change = server_change(&resize_pool::ROW, "pool");
    let noted = store.note_server_change(change.clone(), context.clone()).await.unwrap();
    assert_eq!((noted.revision, noted.at, &noted.by, &noted.change), (Revision(2), context.at, &context.by, &change));
    assert_eq!(store.definitions().await.unwrap().revision, Revision(2));
    create(&*store, &id("user", "bought")).await;
    let nothing = ServerChange { before: None, after: None, ..server_change(&create_backup::ROW, "backup") };
    store.note_server_change(nothing, by("local")).await.unwrap();
    let all = ["create_backup backup", "create_feature user.bought", "resize_pool pool", "create_feature user.seen"];
    assert_eq!(audit_lines(&store, &AuditFilter::default()).await, all);
    let of = |target: &str| AuditFilter { target: Some(target.to_owned()), ..Default::default() };
    assert_eq!(audit_lines(&store, &of("pool")).await, ["resize_pool pool"]);
    assert_eq!(audit_lines(&store, &of("user.seen")).await, ["create_feature user.seen"]);
    let by_action = AuditFilter { action: Some("resize_pool".to_owned()), ..Default::default() };
    let page = store.audit(&by_action, Some(Revision(4)), Limit::of_page(1).unwrap()).await.unwrap();
    assert_eq!((page.next, page.entries), (None, vec![AuditEntry::Server(noted)]));
    // The store stores and returns the name of each operation.
    for operation in JOB_COMMANDS {
        store.note_server_change(server_change(operation, "job:1"), by("local")).await.unwrap();
    }
    let names = JOB_COMMANDS.iter().rev().map(|operation| format!("{} job:1", operation.name));
    assert_eq!(audit_lines(&store, &of("job:1")).await, names.collect::<Vec<_>>());
    store.close().await;
}
