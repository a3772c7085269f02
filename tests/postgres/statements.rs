//! `.sqlx`, which builds use, matches the answers of a live Postgres.

use std::collections::BTreeMap;
use std::path::Path;

use sqlx::{AssertSqlSafe, Executor, SqlSafeStr};

use crate::postgres::Database;

fn texts(folder: &str, extension: &str) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap();
    entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect()
}

#[tokio::test]
async fn the_prepared_metadata_of_each_query_matches_postgres() {
    let database = Database::migrated().await;
    let mut connection = database.connect().await;
    let queries = texts("metadata_sql/queries", "sql");
    let mut known: BTreeMap<String, serde_json::Value> = texts(".sqlx", "json")
        .into_values()
        .map(|text| serde_json::from_str(&text).unwrap())
        .map(|mut known: serde_json::Value| (known["query"].as_str().unwrap().to_owned(), known["describe"].take()))
        .collect();
    assert!(queries.len() >= 19, "the walk found too little");
    for (file, query) in queries {
        let known = known.remove(&query).unwrap_or_else(|| panic!("{file} is not in .sqlx: run scripts/prepare-sqlx"));
        let described = (&mut connection).describe(AssertSqlSafe(query).into_sql_str()).await.unwrap();
        let live = serde_json::to_value(described).unwrap();
        assert_eq!(known, live, "{file} has changed since: run scripts/prepare-sqlx");
    }
    assert!(known.is_empty(), "left in .sqlx: {:?}; run scripts/prepare-sqlx", known.keys());
}

/// A file that no Rust source names would never be checked.
#[test]
fn every_query_file_is_used() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/metadata/postgres");
    let code = ["queries.rs", "key_queries.rs", "jobs.rs"]
        .map(|file| std::fs::read_to_string(folder.join(file)).unwrap())
        .concat();
    for file in texts("metadata_sql/queries", "sql").into_keys() {
        assert!(code.contains(&format!("\"metadata_sql/queries/{file}\"")), "{file} is not used");
    }
}
