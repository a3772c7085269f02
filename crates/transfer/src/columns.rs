//! The contents of a table's columns, for any file format.

use crate::domain::ValueType;

/// The type of a column's cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Json,
    Bytes,
    Int64,
    UInt64,
    Double,
    Bool,
    /// Nanoseconds since the Unix epoch, in UTC.
    Timestamp,
}

impl From<ValueType> for Kind {
    fn from(value_type: ValueType) -> Self {
        match value_type {
            ValueType::String => Self::Text,
            ValueType::Int64 => Self::Int64,
            ValueType::Double => Self::Double,
            ValueType::Bool => Self::Bool,
            ValueType::Bytes => Self::Bytes,
            ValueType::Json => Self::Json,
        }
    }
}

/// A column, or several that belong together.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "only Parquet files have them in their schema"))]
pub(super) enum Field {
    One {
        name: String,
        kind: Kind,
        /// Whether a row may have nothing in it.
        optional: bool,
    },
    /// A list of structs: the `LIST` of the specification's "LogicalTypes.md", three levels deep.
    List { name: String, members: Vec<(&'static str, Kind)> },
}

impl Field {
    pub fn required(name: &str, kind: Kind) -> Self {
        Self::One { name: name.to_owned(), kind, optional: false }
    }
}
