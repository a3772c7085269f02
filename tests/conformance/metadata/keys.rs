//! API keys, and the audit trail of everything.

use std::sync::Arc;

use liststore::domain::{Author, KeyId, KeyName, Limit, RateLimits, Revision, Role, Scope, SecretHash, Timestamp};
use liststore::metadata::keys::{AuditEntry, AuditFilter, KeyChange};
use liststore::metadata::{Calls, ChangeContext, MetadataError, MetadataStore};

use super::MetadataBackend;
use super::sample::{id, new_feature};

/// All changes here are made at one moment.
fn context() -> ChangeContext {
    ChangeContext { by: Author::new("somebody").unwrap(), at: at(5_000_000) }
}

pub fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos).unwrap()
}

pub fn key_id(last: char) -> KeyId {
    KeyId::new(&format!("00000000000{last}")).unwrap()
}

pub fn creation(last: char, name: &str) -> KeyChange {
    KeyChange::Create {
        id: key_id(last),
        hash: SecretHash::new([1; 32]),
        name: KeyName::new(name).unwrap(),
        roles: vec![Role::Reader, Role::Editor],
        scopes: vec![Scope::parse("user.*").unwrap()],
        limits: RateLimits::default(),
        expires_at: Some(at(4_000_000_000_000_000_000)),
    }
}

fn rotation(last: char) -> KeyChange {
    let (id, hash, previous_until) = (key_id(last), SecretHash::new([2; 32]), at(9));
    KeyChange::Rotate { id, hash, previous_until, expires_at: None, expires_by: None }
}

fn by(name: &str, other: Option<&str>) -> ChangeContext {
    let other = other.map(|other| Author::new(other).unwrap());
    ChangeContext { by: Author::new(name).unwrap().on_behalf_of(other.as_ref()), ..context() }
}

pub async fn audit_lines(store: &Arc<dyn MetadataStore>, filter: &AuditFilter) -> Vec<String> {
    let page = store.audit(filter, None, Limit::DEFAULT).await.unwrap();
    page.entries.iter().map(|entry| format!("{} {}", entry.action(), entry.target())).collect()
}

pub async fn a_key_is_created_rotated_and_revoked(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    assert_eq!(store.keys(None).await.unwrap().unwrap().keys, []);
    let made = store.change_key(creation('a', "feed"), context()).await.unwrap();
    assert_eq!((made.revision, made.created_at, made.roles.len()), (Revision(1), context().at, 2));
    assert_eq!(store.keys(Some(Revision(0))).await.unwrap().unwrap().keys, [made]);
    assert!(store.keys(Some(Revision(1))).await.unwrap().is_none(), "nothing has changed");
    let rotated = store.change_key(rotation('a'), context()).await.unwrap();
    assert_eq!(rotated.hash, SecretHash::new([2; 32]));
    assert_eq!(rotated.previous.map(|previous| previous.hash), Some(SecretHash::new([1; 32])));
    let revoked = store.change_key(KeyChange::Revoke { id: key_id('a') }, context()).await.unwrap();
    assert_eq!((revoked.revision, revoked.revoked_at), (Revision(3), Some(context().at)));
    let keys = store.keys(None).await.unwrap().unwrap();
    assert_eq!((keys.revision, keys.keys), (Revision(3), vec![revoked]));
    store.close().await;
}

pub async fn taken_names_and_missing_keys_are_reported(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    store.change_key(creation('a', "feed"), context()).await.unwrap();
    let again = store.change_key(creation('b', "feed"), context()).await;
    assert!(matches!(again, Err(MetadataError::KeyExists(_))), "{again:?}");
    let unknown = store.change_key(rotation('c'), context()).await;
    assert!(matches!(unknown, Err(MetadataError::KeyNotFound(_))), "{unknown:?}");
    let revocation = KeyChange::Revoke { id: key_id('a') };
    for _ in 0..2 {
        assert_eq!(store.change_key(revocation.clone(), context()).await.unwrap().revision, Revision(2));
    }
    let revoked = store.change_key(rotation('a'), context()).await;
    assert!(matches!(revoked, Err(MetadataError::KeyRevoked(_))), "{revoked:?}");
    assert_eq!(store.definitions().await.unwrap().revision, Revision(2), "what was refused takes no revision");
    store.close().await;
}

pub async fn uses_are_stored_and_never_go_back(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    store.change_key(creation('a', "feed"), context()).await.unwrap();
    for (nanos, expected) in [(5, 5), (9, 9), (7, 9)] {
        store.note_uses(&[(key_id('a'), at(nanos)), (key_id('z'), at(nanos))]).await.unwrap();
        let keys = store.keys(None).await.unwrap().unwrap();
        assert_eq!((keys.revision, keys.keys[0].last_used_at), (Revision(1), Some(at(expected))));
    }
    let rotated = store.change_key(rotation('a'), context()).await.unwrap();
    assert_eq!(rotated.last_used_at, Some(at(9)));
    store.close().await;
}

pub async fn the_audit_trail_has_everything_in_one_order(backend: &dyn MetadataBackend) {
    let store = backend.open().await;
    store.create_feature(new_feature(&id("user", "seen")), by("alice", None)).await.unwrap();
    store.change_key(creation('a', "feed"), by("local", None)).await.unwrap();
    store.create_feature(new_feature(&id("user", "bought")), by("key:feed", Some("alice"))).await.unwrap();
    store.change_key(KeyChange::Revoke { id: key_id('a') }, by("local", Some("bob"))).await.unwrap();
    let all = ["revoke_key key:feed", "create_feature user.bought", "create_key key:feed", "create_feature user.seen"];
    assert_eq!(audit_lines(&store, &AuditFilter::default()).await, all);
    for (filter, expected) in [
        (AuditFilter { by: Some("alice".into()), ..Default::default() }, &[all[1], all[3]][..]),
        (AuditFilter { by: Some("bob".into()), ..Default::default() }, &all[..1]),
        (AuditFilter { by: Some("\0".into()), ..Default::default() }, &[]),
        (AuditFilter { target: Some("key:feed".into()), ..Default::default() }, &[all[0], all[2]]),
        (AuditFilter { target: Some("user.seen".into()), ..Default::default() }, &all[3..]),
        (AuditFilter { action: Some("create_key".into()), ..Default::default() }, &all[2..3]),
        (AuditFilter { since: Some(context().at), until: Some(context().at), ..Default::default() }, &all[..]),
        (AuditFilter { until: Some(at(1)), ..Default::default() }, &[]),
    ] {
        assert_eq!(audit_lines(&store, &filter).await, expected, "{filter:?}");
    }
    let three = Limit::of_page(3).unwrap();
    let page = store.audit(&AuditFilter::default(), None, three).await.unwrap();
    assert_eq!((page.entries.len(), page.next), (3, page.entries.last().map(AuditEntry::revision)));
    let rest = store.audit(&AuditFilter::default(), page.next, three).await.unwrap();
    assert_eq!((rest.entries.len(), rest.next), (1, None));
    let history = page.entries[1].by();
    assert_eq!((history.as_str(), history.behalf()), ("key:feed", Some("alice")));
    store.close().await;
}
