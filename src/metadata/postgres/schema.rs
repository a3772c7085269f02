//! The control plane's schema: the migrations of this build, and the state of a database.

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

/// All migrations, oldest first: number, effect, file. Landed ones never change.
const MIGRATIONS: [(i64, &str, &str); 1] = [(
    1,
    "definitions, API keys, jobs, and the audit trail",
    include_str!("../../../metadata_sql/migrations/0001_control_plane.sql"),
)];

pub(super) fn migrations() -> Vec<Migration> {
    MIGRATIONS.into_iter().map(migration).collect()
}

fn migration((version, description, sql): (i64, &'static str, &'static str)) -> Migration {
    Migration::new(version, description.into(), MigrationType::Simple, sql.into_sql_str(), false)
}

/// How a database's schema compares with this build's schema.
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
    /// Newer, and compatible with servers like this one.
    NewerServed {
        found: i64,
        known: i64,
    },
    /// Newer, and compatible only with servers of the schema `served_from` and newer ones.
    Newer {
        found: i64,
        known: i64,
        served_from: Option<i64>,
    },
    /// The migration with this number differs from this build's.
    Foreign {
        version: i64,
    },
}

impl SchemaState {
    /// Whether this server can work with it.
    pub fn is_served(&self) -> bool {
        matches!(self, Self::Current { .. } | Self::NewerServed { .. })
    }

    /// Whether `liststore migrate` makes it compatible.
    pub fn awaits_migration(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::Older { .. })
    }
}

impl fmt::Display for SchemaState {
    /// Writes the state and the remedy.
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
    /// Such as `TLSv1.3`, as Postgres reports it; `None` without encryption.
    pub tls_version: Option<String>,
}

/// As [`inspect`], in a separate transaction.
pub(super) async fn inspect_separately(connection: &mut PgConnection) -> Result<Inspection, Failure> {
    let mut transaction = connection.begin_with(BEGIN).await?;
    let inspection = inspect(&mut transaction).await?;
    transaction.commit().await?;
    Ok(inspection)
}

/// Reads the state of a database. A database that can never hold the schema is an error with the reason.
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
        schema: compare(&migrations(), &applied, served_from),
        tls_version: server.tls_version,
    })
}

fn compare(known: &[Migration], applied: &[(i64, Vec<u8>)], served_from: Option<i64>) -> SchemaState {
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

/// Refuses a database with an incompatible schema.
pub(super) async fn require_served(connection: &mut PgConnection) -> Result<(), MetadataError> {
    let state = inspect_separately(connection).await.map_err(Failure::into_error)?.schema;
    if state.is_served() { Ok(()) } else { Err(unavailable(state.to_string())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The SHA-384 of every landed migration. A landed migration never changes, because databases store its checksum,
    /// and a changed one would never reach them. Add a new one instead.
    const LANDED: [(i64, &str); 1] =
        [(1, "59e9302157cab24ba0dea426dfae6e171a706e5f113c46381df49356d30f7a8f814ebc2d346cfaeb64f152fe68ce3449")];

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn released_migrations_never_change() {
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
    fn a_schema_is_recognized_by_its_migrations() {
        let known = [(1, "one", "SELECT 1"), (2, "two", "SELECT 2")].map(migration);
        let applied = known.clone().map(|migration| (migration.version, migration.checksum.to_vec()));
        let compare = |applied: &[_], served_from| compare(&known, applied, served_from);
        assert_eq!(compare(&[], None), SchemaState::Missing { known: 2 });
        assert_eq!(compare(&applied[..1], Some(1)), SchemaState::Older { found: 1, known: 2 });
        assert_eq!(compare(&applied, Some(1)), SchemaState::Current { version: 2 });
        let newer: Vec<_> = applied.iter().cloned().chain([(3, vec![1])]).collect();
        for (served_from, served) in [(None, false), (Some(1), true), (Some(2), true), (Some(3), false)] {
            let state = compare(&newer, served_from);
            assert_eq!(state.is_served(), served, "{state:?}");
        }
        assert_eq!(compare(&[(1, vec![0])], Some(1)), SchemaState::Foreign { version: 1 });
    }
}
