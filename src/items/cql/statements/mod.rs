//! All statements of operations: each is a line of a table, with the source of what it relies on in the databases'
//! manuals.
//!
//! The texts for ScyllaDB and Apache Cassandra differ in one thing: ScyllaDB is told how long it may work at a
//! statement, so that it does not go on without a waiting caller. Each statement binds the whole partition key, which
//! the driver needs to send it to a replica, and each write sets its timestamp.
//!
//! | files | what they own |
//! | --- | --- |
//! | `statement` | the labels of statements |
//! | `lists` | statements on lists of items |
//! | `sets`, `buckets`, `bags` | statements on sets, on directories of buckets, and on bags |

pub mod bags;
pub mod buckets;
pub mod lists;
pub mod sets;
mod statement;

use scylla::client::session::Session;
use scylla::errors::PrepareError;
use scylla::statement::prepared::PreparedStatement;

pub use statement::Statement;

use super::options::{Consistency, CqlOptions};

/// The condition that names a partition.
pub const LIST: &str = "feature_key = ? AND entity_id = ?";

/// The consistency levels of statements.
#[derive(Debug, Clone, Copy)]
pub struct Levels {
    pub read: Consistency,
    pub write: Consistency,
    pub one: Consistency,
}

impl Levels {
    pub fn of(options: &CqlOptions) -> Self {
        Self { read: options.read_consistency, write: options.write_consistency, one: Consistency::One }
    }
}

/// Declares a table of statements: a type of their texts, and one of them as a session prepared them, each at a level.
/// Those that stand apart have a text and are prepared elsewhere.
macro_rules! statements {
    (
        $texts:ident, $prepared:ident,
        { $($(#[$doc:meta])* $name:ident: $level:ident,)* },
        apart { $($(#[$apart_doc:meta])* $apart:ident,)* }
    ) => {
        /// The texts, for one keyspace. `{keyspace}` is quoted, so that its case is kept.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $texts {
            $($(#[$doc])* pub $name: String,)*
            $($(#[$apart_doc])* pub $apart: String,)*
        }

        #[cfg(test)]
        impl $texts {
            /// All of them.
            pub fn all(self) -> Vec<String> {
                vec![$(self.$name,)* $(self.$apart,)*]
            }
        }

        /// The statements as one session prepared them.
        #[derive(Debug)]
        pub struct $prepared {
            $(pub $name: scylla::statement::prepared::PreparedStatement,)*
        }

        impl $prepared {
            /// Prepares them at once: a session that opens has a caller that waits.
            async fn of(
                session: &scylla::client::session::Session,
                texts: &$texts,
                levels: $crate::items::cql::statements::Levels,
            ) -> Result<Self, scylla::errors::PrepareError> {
                let prepare = $crate::items::cql::statements::prepare;
                let ($($name,)*) = tokio::try_join!($(prepare(session, &texts.$name, levels.$level)),*)?;
                Ok(Self { $($name),* })
            }
        }
    };
}
use statements;

/// Prepares a statement, which may be repeated as all of this store may.
pub async fn prepare(
    session: &Session,
    text: &str,
    consistency: Consistency,
) -> Result<PreparedStatement, PrepareError> {
    let mut prepared = session.prepare(text).await?;
    prepared.set_consistency(consistency.of_driver());
    prepared.set_is_idempotent(true);
    // Our columns never change under a prepared statement, and resending their description with
    // every answer costs more than many an answer.
    prepared.set_use_cached_result_metadata(true);
    Ok(prepared)
}
