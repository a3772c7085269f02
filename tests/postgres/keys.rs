//! API keys that several servers share.

use liststore::access::NoKey;
use liststore::access::token::Secret;
use liststore::domain::{Author, Clock, KeyName, Limit, RateLimits, Revision, Role, Scope, SystemClock};
use liststore::metadata::keys::{AuditFilter, KeyChange};
use liststore::metadata::{AccessStore, Calls, MetadataStore};
use sqlx::Row;

use crate::postgres::Database;
use crate::servers::{Node, context, new_feature, run, store, until};

fn creation(secret: &Secret, name: &str) -> KeyChange {
    KeyChange::Create {
        id: secret.id,
        hash: secret.hash(),
        name: KeyName::new(name).unwrap(),
        roles: vec![Role::Reader],
        scopes: vec![Scope::all()],
        limits: RateLimits::default(),
        expires_at: None,
    }
}

fn holds(node: &Node, secret: &Secret) -> Result<(), NoKey> {
    node.handle.key_ring().verify(secret.expose().as_bytes(), SystemClock.now()).map(|_| ())
}

#[test]
fn a_key_change_on_one_server_reaches_the_other() {
    run(async {
        let database = Database::migrated().await;
        let (a, b) = (Node::start(&database.url).await, Node::start(&database.url).await);
        assert_eq!(b.handle.key_ring().is_configured(), Some(false));
        let secret = Secret::generate().unwrap();
        a.handle.change_key(creation(&secret, "feed"), Author::anonymous()).await.unwrap();
        assert_eq!(holds(&a, &secret), Ok(()));
        until("the other knows the key", || holds(&b, &secret).is_ok()).await;
        // Servers here poll once an hour: a visible change came by notification.
        b.handle.change_key(KeyChange::Revoke { id: secret.id }, Author::anonymous()).await.unwrap();
        assert_eq!(holds(&b, &secret), Err(NoKey::Revoked));
        until("the other knows of the revocation", || holds(&a, &secret) == Err(NoKey::Revoked)).await;
        // Changes of definitions are found next to those of keys, and vice versa.
        a.create("seen", 100).await.unwrap();
        until("it knows the feature", || b.known_ttl("seen") == Some(100)).await;
        assert_eq!(b.handle.key_ring().is_configured(), Some(true));
        a.stop().await;
        b.stop().await;
    });
}

#[test]
fn keys_are_valid_while_postgres_is_unavailable_and_a_revocation_is_refused() {
    run(async {
        let server = crate::postgres::Server::start();
        let database = Database::create_in(&server.url, "").await;
        liststore::metadata::postgres::migrate(&database.url, false).await.unwrap();
        let node = Node::start(&database.url).await;
        let secret = Secret::generate().unwrap();
        node.handle.change_key(creation(&secret, "feed"), Author::anonymous()).await.unwrap();
        server.kill();
        assert_eq!(holds(&node, &secret), Ok(()));
        let revoked = node.handle.change_key(KeyChange::Revoke { id: secret.id }, Author::anonymous()).await;
        assert!(revoked.is_err_and(|error| error.is_retryable()));
        assert_eq!(holds(&node, &secret), Ok(()));
        node.stop().await;
    });
}

/// The stored form of a key is not a key.
#[tokio::test]
async fn no_secret_is_in_the_database() {
    let database = Database::migrated().await;
    let (store, secret) = (store(&database.url), Secret::generate().unwrap());
    store.change_key(creation(&secret, "feed"), context()).await.unwrap();
    for table in ["api_key", "api_key_history"] {
        let query = sqlx::AssertSqlSafe(format!("SELECT coalesce(string_agg(t::text, ' '), '') FROM {table} t"));
        let row = sqlx::query(query).fetch_one(&mut database.connect().await).await.unwrap();
        let kept: String = row.get(0);
        assert!(kept.contains(secret.id.as_str()) && !kept.contains(&secret.expose()[16..]), "{table}");
    }
    store.close().await;
}

/// For any search: a trail of years would take longer than a call may.
#[tokio::test]
async fn a_page_of_the_audit_trail_reads_a_bounded_part_of_it() {
    const ENTRIES: u64 = 25_000;
    let database = Database::migrated().await;
    let store = store(&database.url);
    store.create_feature(new_feature("seen", 60), context()).await.unwrap();
    database
        .execute(&format!(
            "INSERT INTO list_feature_history (revision, changed_at_ns, changed_by, action, entity_type, name)
             SELECT n, n, 'ada', 'delete_feature', 'user', 'gone' FROM generate_series(2, {ENTRIES}) n"
        ))
        .await;
    database.execute(&format!("UPDATE metadata_revision SET revision = {ENTRIES}")).await;
    let filter = AuditFilter { target: Some("user.seen".to_owned()), ..AuditFilter::default() };
    let (mut pages, mut before, mut found) = (Vec::new(), None, 0);
    loop {
        let page = store.audit(&filter, before, Limit::DEFAULT).await.unwrap();
        found += page.entries.len();
        pages.push(page.next);
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert_eq!((pages, found), (vec![Some(Revision(15_001)), Some(Revision(5_001)), None], 1));
    let all = store.audit(&AuditFilter::default(), Some(Revision(15_001)), Limit::DEFAULT).await.unwrap();
    assert_eq!(all.next, Some(Revision(15_001 - Limit::DEFAULT.get() as u64)));
    store.close().await;
}
