//! The control plane's schema: the migrations that this build knows, and how far a database is.

use std::fmt;

use sqlx::migrate::{Migration, MigrationType};
use sqlx::{Connection, PgConnection, SqlSafeStr};

use super::error::{Failure, unavailable};
use super::options::BEGIN;
use super::queries;
use crate::metadata::MetadataError;

/// Where the applied migrations are listed.
pub(super) const MIGRATION_TABLE: &str = "liststore_schema_migration";
/// Postgres 13.
const SERVER_VERSION_MIN: i32 = 130_000;

/// All migrations, oldest first: number, what each brings, its file. Landed ones never change.
const MIGRATIONS: [(i64, &str, &str); 12] = [
    (
        1,
        "list features, their versions, generations and history",
        include_str!("../../../metadata_sql/migrations/0001_list_features.sql"),
    ),
    (
        2,
        "compatibility with older servers, and the form of history entries",
        include_str!("../../../metadata_sql/migrations/0002_compatibility.sql"),
    ),
    (
        3,
        "API keys and their history, and the users on whose behalf changes were made",
        include_str!("../../../metadata_sql/migrations/0003_api_keys.sql"),
    ),
    (4, "the audit trail of erasures", include_str!("../../../metadata_sql/migrations/0004_erasures.sql")),
    (5, "background jobs", include_str!("../../../metadata_sql/migrations/0005_jobs.sql")),
    (
        6,
        "the maximum number of items that a list shows",
        include_str!("../../../metadata_sql/migrations/0006_max_items.sql"),
    ),
    (7, "the identity of items", include_str!("../../../metadata_sql/migrations/0007_identity.sql")),
    (8, "entity types", include_str!("../../../metadata_sql/migrations/0008_bags.sql")),
    (9, "indexes of property bags", include_str!("../../../metadata_sql/migrations/0009_indexes.sql")),
    (10, "the buckets of lists", include_str!("../../../metadata_sql/migrations/0010_buckets.sql")),
    (11, "the audit trail of servers", include_str!("../../../metadata_sql/migrations/0011_servers.sql")),
    (
        12,
        "how far timestamps may be ahead",
        include_str!("../../../metadata_sql/migrations/0012_timestamp_ahead_max.sql"),
    ),
];

pub(super) fn migrations() -> Vec<Migration> {
    MIGRATIONS
        .into_iter()
        .map(|(version, description, sql)| {
            Migration::new(version, description.into(), MigrationType::Simple, sql.into_sql_str(), false)
        })
        .collect()
}

/// How a database's schema compares with the one that this build knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaState {
    Current {
        version: i64,
    },
    /// No migration has been applied.
    Missing {
        known: i64,
    },
    Older {
        found: i64,
        known: i64,
    },
    /// Newer, and made so that servers like this one can go on with it.
    NewerServed {
        found: i64,
        known: i64,
    },
    /// Newer, and of use to servers of the schema `served_from` and newer ones only.
    Newer {
        found: i64,
        known: i64,
        served_from: Option<i64>,
    },
    /// The migration of this number is not the one that this build knows.
    Foreign {
        version: i64,
    },
}

impl SchemaState {
    /// Whether this server can work with it.
    pub fn is_served(&self) -> bool {
        matches!(self, Self::Current { .. } | Self::NewerServed { .. })
    }

    /// Whether `liststore migrate` brings it to where it is served.
    pub fn awaits_migration(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::Older { .. })
    }
}

impl fmt::Display for SchemaState {
    /// What is there, and what helps.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Current { version } => write!(f, "the schema is up to date (version {version})"),
            Self::Missing { .. } => f.write_str("the schema is missing: run `liststore migrate`"),
            Self::Older { found, known } => {
                write!(f, "the schema is at version {found} but this server needs {known}: run `liststore migrate`")
            }
            Self::NewerServed { found, known } => {
                write!(f, "the schema is at version {found}, newer than this server's {known}, but compatible")
            }
            Self::Newer { found, known, served_from } => {
                write!(
                    f,
                    "the schema is at version {found}, newer than this server's {known}, and incompatible: run a newer \
                     liststore"
                )?;
                match served_from {
                    Some(needed) => write!(f, " that supports version {needed}"),
                    None => Ok(()),
                }
            }
            Self::Foreign { version } => write!(
                f,
                "migration {version} in this database differs from this server's: run the version of liststore that \
                 applied it, or use another database"
            ),
        }
    }
}

/// A database, as `liststore check` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    pub database: String,
    /// Such as `15.14`.
    pub server_version: String,
    pub schema: SchemaState,
    /// Such as `TLSv1.3`, of the connection as Postgres sees it; none where it is not encrypted.
    pub tls_version: Option<String>,
}

/// As [`inspect`], in a transaction of its own.
pub(super) async fn look(connection: &mut PgConnection) -> Result<Inspection, Failure> {
    let mut transaction = connection.begin_with(BEGIN).await?;
    let inspection = inspect(&mut transaction).await?;
    transaction.commit().await?;
    Ok(inspection)
}

/// Looks at a database. One that can never hold the schema is an error that says why.
pub(super) async fn inspect(transaction: &mut PgConnection) -> Result<Inspection, Failure> {
    let server = queries::server(transaction).await?;
    if server.server_version_number < SERVER_VERSION_MIN {
        let problem = format!("postgres {} is too old: 13 is the oldest supported", server.server_version);
        return Err(unavailable(problem).into());
    }
    if server.encoding != "UTF8" {
        let problem = format!(
            "the database \"{}\" has the encoding {}: create one with ENCODING 'UTF8'",
            server.database, server.encoding
        );
        return Err(unavailable(problem).into());
    }
    let applied = if server.has_migrations { queries::migrations(transaction).await? } else { Vec::new() };
    let served_from = if server.has_compatibility { Some(queries::served_from(transaction).await?) } else { None };
    Ok(Inspection {
        database: server.database,
        server_version: server.server_version,
        schema: compare(&applied, served_from),
        tls_version: server.tls_version,
    })
}

fn compare(applied: &[(i64, Vec<u8>)], served_from: Option<i64>) -> SchemaState {
    let known = migrations();
    let newest = known.last().map_or(0, |migration| migration.version);
    for (version, checksum) in applied {
        match known.iter().find(|migration| migration.version == *version) {
            Some(migration) if *migration.checksum != **checksum => return SchemaState::Foreign { version: *version },
            None if *version < newest => return SchemaState::Foreign { version: *version },
            _ => {}
        }
    }
    match applied.last() {
        None => SchemaState::Missing { known: newest },
        Some((found, _)) if *found > newest => match served_from {
            Some(needed) if needed <= newest => SchemaState::NewerServed { found: *found, known: newest },
            served_from => SchemaState::Newer { found: *found, known: newest, served_from },
        },
        Some((found, _)) if *found < newest => SchemaState::Older { found: *found, known: newest },
        Some((found, _)) => SchemaState::Current { version: *found },
    }
}

/// Refuses a database with whose schema this build cannot work.
pub(super) async fn require_served(connection: &mut PgConnection) -> Result<(), MetadataError> {
    let state = look(connection).await.map_err(Failure::into_error)?.schema;
    if state.is_served() { Ok(()) } else { Err(unavailable(state.to_string())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The SHA-384 of every migration that has landed. A landed migration never changes: databases
    /// remember its checksum, and a changed one would never reach them. Add a new one instead.
    const LANDED: [(i64, &str); 12] = [
        (1, "77eee43905eee3f1bf15a49c3b871f27fb9da2666a10cfd66921dd60de87bc543b19ba6e918693ee326bdac5c98d3fd4"),
        (2, "0c2c9e73f743664815eb8c078e5c1e88b230531ff985a91de19933c0b64ae9df779eabab269cdf3e99f1dd1e89494311"),
        (3, "a295ca3c42a6dab98790e32a6b64c458104c01ffbc79fd6fef005d8d2787333156f9054c708ff2b524c68a63fd8775ab"),
        (4, "144242a944f761eb102d7b11bd1a06f117fb70f3e9e999a64623ab4a730619c813c7618f697a2bc0875ec3d6071de2f0"),
        (5, "c90376974d17072bf29a44e6219bc619846f627187cb3637576f9bb530240b28c672052c33415dd94dd1bf9f7d227860"),
        (6, "f4eef781b40f8f27d26c0787dbc90dcf138343b5b1ec376e6ac7dcd7332849f1d7624be1960398aa45e90473bc5b73e3"),
        (7, "c2bca6698893c1a6841fc690849c4a434687ae85295d80d39685e49dc9e7cc105e994642219f6e81e02f5b5fa58ec40c"),
        (8, "042406e367ae27121eaa226882270ced2f262488d075e59b1ed5a75bbea2622d7f16310152df735fb5e4957f78734ca8"),
        (9, "a9e347e0fd9d0152a14a691d4244fc634bed5d78aa6c6ab2d7b45f2b0dc2a8fe4b1a15949759bdfcbbbb0d891c61cfb0"),
        (10, "e8c42a0ac948486f052c72b1b24cb0888b30da7b77f931e123295b79e251d1ef9480abb0271d8ab1103cd56b9be1d956"),
        (11, "9dca92560c4263703d0cc51019fc8540d60974296847ba126c54b4b12eca9119081894fb53cbf48e75d29dbe98dfc8b8"),
        (12, "acfd6063e45983059eeca5674cf3a9b046ddea99ea23c98bbf07feeb6d93056258fc6b2f664e229b5023dea11a9ef5f6"),
    ];

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn landed_migrations_never_change() {
        let known: Vec<_> = migrations().into_iter().map(|m| (m.version, hex(&m.checksum))).collect();
        let landed: Vec<_> = LANDED.into_iter().map(|(version, checksum)| (version, checksum.to_owned())).collect();
        assert_eq!(known, landed);
    }

    #[test]
    fn every_migration_file_is_known_by_its_number() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/metadata_sql/migrations");
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
            .collect();
        let mut known: Vec<_> = MIGRATIONS.into_iter().map(|(_, _, sql)| sql.to_owned()).collect();
        files.sort();
        known.sort();
        assert_eq!(files, known);
        let numbers: Vec<_> = MIGRATIONS.into_iter().map(|(number, _, _)| number).collect();
        assert_eq!(numbers, (1..=numbers.len() as i64).collect::<Vec<_>>());
    }

    #[test]
    fn a_schema_is_told_apart_by_its_migrations() {
        let known: Vec<_> = migrations().into_iter().map(|m| (m.version, m.checksum.to_vec())).collect();
        let newest = known.len() as i64;
        assert_eq!(compare(&[], None), SchemaState::Missing { known: newest });
        assert_eq!(compare(&known[..1], None), SchemaState::Older { found: 1, known: newest });
        assert_eq!(compare(&known, Some(1)), SchemaState::Current { version: newest });
        let newer: Vec<_> = known.iter().cloned().chain([(newest + 1, vec![1])]).collect();
        for (served_from, served) in [(None, false), (Some(1), true), (Some(newest), true), (Some(newest + 1), false)] {
            let state = compare(&newer, served_from);
            assert_eq!(state.is_served(), served, "{state:?}");
        }
        assert_eq!(compare(&[(1, vec![0])], Some(1)), SchemaState::Foreign { version: 1 });
    }
}
