//! Rows that other hands have broken, past the tables' own constraints.

use liststore::domain::{Limit, Revision};
use liststore::metadata::{Calls, MetadataError, MetadataStore};

use crate::postgres::Database;
use crate::servers::{Node, context, id, new_feature, run, store, until};

/// Takes the tables' own constraints away.
const UNCONSTRAINED: &str = "DO $$ DECLARE c record; BEGIN \
    FOR c IN SELECT conrelid::regclass AS t, conname FROM pg_constraint WHERE contype = 'c' AND conrelid <> 0 \
    AND connamespace = 'public'::regnamespace LOOP \
    EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', c.t, c.conname); END LOOP; END $$";

async fn broken_by(damage: &str) -> Result<(), MetadataError> {
    let database = Database::migrated().await;
    let store = store(&database.url);
    store.create_feature(new_feature("seen", 60), context()).await.unwrap();
    database.execute(UNCONSTRAINED).await;
    database.execute(damage).await;
    store.feature(&id("seen")).await?;
    store.history(&id("seen"), None, Limit::DEFAULT).await?;
    store.changes(Revision(0)).await?;
    store.delete_feature(&id("seen"), Default::default(), context()).await?;
    store.create_feature(new_feature("seen", 60), context()).await?;
    Ok(())
}

#[tokio::test]
async fn an_intact_database_is_consistent() {
    broken_by("SELECT 1").await.unwrap();
}

/// Another member of a definition.
fn set(path: &str, value: &str) -> String {
    format!("list_feature SET definition = jsonb_set(definition, '{path}', '{value}')")
}

#[tokio::test]
async fn a_broken_row_is_named() {
    for (damage, table, column, key) in [
        (set("{value_type}", "\"colour\""), "list_feature", "definition", "user.seen"),
        (set("{versions,0,ttl}", "\"0s\""), "list_feature", "definition", "user.seen"),
        (set("{versions,0,generation}", "0"), "list_feature", "definition", "user.seen"),
        (set("{versions,0,version}", "\"v1\""), "list_feature", "definition", "user.seen"),
        (set("{versions}", "[]"), "list_feature", "definition", "user.seen"),
        (set("{labels}", "{\"a\": 1}"), "list_feature", "definition", "user.seen"),
        (set("{revision}", "-1"), "list_feature", "definition", "user.seen"),
        (set("{format}", "2"), "list_feature", "definition", "user.seen"),
        (set("{name}", "\"other\""), "list_feature", "name", "user.seen"),
        ("list_feature SET definition = '[]'".to_owned(), "list_feature", "definition", "user.seen"),
        ("list_feature_history SET action = 'dance'".to_owned(), "list_feature_history", "action", "1"),
        ("list_feature_history SET changed_by = ''".to_owned(), "list_feature_history", "changed_by", "1"),
        (
            "list_feature_generation SET last_generation = 0".to_owned(),
            "list_feature_generation",
            "last_generation",
            "user.seen \"\"",
        ),
        ("metadata_revision SET revision = -7".to_owned(), "metadata_revision", "revision", "the only row"),
    ] {
        match broken_by(&format!("UPDATE {damage}")).await {
            Err(MetadataError::DatabaseInconsistency { table: t, column: c, key: k }) => {
                assert_eq!((t, c, k.as_str()), (table, column, key), "{damage}");
            }
            other => panic!("{damage}: {other:?}"),
        }
    }
}

/// The running server continues with its definitions, and reports the error.
#[test]
fn a_broken_row_leaves_the_catalog_unchanged() {
    run(async {
        let database = Database::migrated().await;
        let node = Node::start(&database.url).await;
        node.create("seen", 60).await.unwrap();
        database.execute(UNCONSTRAINED).await;
        database.execute(&format!("UPDATE {}", set("{value_type}", "\"colour\""))).await;
        database.cut_connections().await;
        let reported =
            || node.handle.unavailable_reason().is_some_and(|reason| reason.contains("list_feature.definition"));
        until("it says what is wrong", reported).await;
        assert_eq!(node.known_ttl("seen"), Some(60));
        database.execute(&format!("UPDATE {}", set("{value_type}", "\"string\""))).await;
        until("it has recovered", || node.handle.unavailable_reason().is_none()).await;
        node.stop().await;
    });
}
