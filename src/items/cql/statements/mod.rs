//! All statements of operations: each is a line of a table, with its source in the databases' manuals.
//!
//! The texts for ScyllaDB and Apache Cassandra differ in one thing: statements for ScyllaDB have a time limit, so that
//! it does not work without a waiting caller. Each statement binds the whole partition key, which the driver needs to
//! send it to a replica, and each write sets its timestamp.
//!
//! | files | content |
//! | --- | --- |
//! | `statement` | the labels of statements |
//! | `query` | a statement with its values |
//! | `lists` | statements on lists of items |
//! | `sets`, `buckets`, `bags` | statements on sets, on directories of buckets, and on bags |

pub mod bags;
pub mod buckets;
pub mod lists;
mod query;
pub mod sets;
mod statement;

use scylla::client::session::Session;
use scylla::errors::PrepareError;
use scylla::statement::prepared::PreparedStatement;

pub use query::{EntryItem, Query, Value, Writes};
pub use statement::Statement;

use self::bags::BagStatement;
use self::buckets::BucketStatement;
use self::lists::ListStatement;
use self::sets::SetStatement;

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

/// Declares a table of statements: their names, their texts, and the statements as a session prepared them, each at a
/// consistency level. A statement that stands apart has a text and is prepared elsewhere.
macro_rules! statements {
    (
        $table:ident $name:ident, $texts:ident, $prepared:ident,
        { $($(#[$doc:meta])* $variant:ident $field:ident: $level:ident as $label:ident,)* },
        apart { $($(#[$apart_doc:meta])* $apart_variant:ident $apart:ident as $apart_label:ident,)* }
    ) => {
        /// The names of the statements.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
            $($(#[$apart_doc])* $apart_variant,)*
        }

        impl $name {
            pub fn label(self) -> $crate::items::cql::statements::Statement {
                match self {
                    $(Self::$variant => $crate::items::cql::statements::Statement::$label,)*
                    $(Self::$apart_variant => $crate::items::cql::statements::Statement::$apart_label,)*
                }
            }
        }

        impl From<$name> for $crate::items::cql::statements::Name {
            fn from(name: $name) -> Self {
                Self::$table(name)
            }
        }

        /// The texts, for one keyspace. `{keyspace}` is quoted, so that its case is kept.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $texts {
            $(pub $field: String,)*
            $(pub $apart: String,)*
        }

        #[cfg(test)]
        impl $texts {
            /// All of them.
            pub fn all(self) -> Vec<String> {
                vec![$(self.$field,)* $(self.$apart,)*]
            }
        }

        /// The statements as one session prepared them.
        #[derive(Debug)]
        pub struct $prepared {
            $($field: scylla::statement::prepared::PreparedStatement,)*
        }

        impl $prepared {
            /// Prepares them at once: a session that opens has a caller that waits.
            async fn of(
                session: &scylla::client::session::Session,
                texts: &$texts,
                levels: $crate::items::cql::statements::Levels,
            ) -> Result<Self, scylla::errors::PrepareError> {
                let prepare = $crate::items::cql::statements::prepare;
                let ($($field,)*) = tokio::try_join!($(prepare(session, &texts.$field, levels.$level)),*)?;
                Ok(Self { $($field),* })
            }

            /// The statement of a name. `None` for a statement without a table.
            pub fn named(&self, name: $name) -> Option<&scylla::statement::prepared::PreparedStatement> {
                match name {
                    $($name::$variant => Some(&self.$field),)*
                    $($name::$apart_variant => None,)*
                }
            }
        }
    };
}
use statements;

/// The name of a statement in one of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    List(ListStatement),
    Set(SetStatement),
    Bag(BagStatement),
    Bucket(BucketStatement),
}

impl Name {
    pub fn label(self) -> Statement {
        match self {
            Self::List(name) => name.label(),
            Self::Set(name) => name.label(),
            Self::Bag(name) => name.label(),
            Self::Bucket(name) => name.label(),
        }
    }
}

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
