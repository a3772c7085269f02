//! A statement with its values, and where its partition and its time stand among them.

use scylla::frame::response::result::ColumnType;
use scylla::serialize::SerializationError;
use scylla::serialize::value::SerializeValue;
use scylla::serialize::writers::{CellWriter, WrittenCellProof};
use scylla::statement::Consistency;
use scylla::statement::bound::BoundStatement;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::CqlDuration;
use uuid::Uuid;

use crate::items::cql::statements::Statement;

/// A value of a statement.
#[derive(Debug, Clone)]
pub enum Value<'a> {
    Text(&'a str),
    Texts(&'a [String]),
    Bytes(&'a [u8]),
    Int(i32),
    Long(i64),
    Id(Uuid),
    Time(CqlDuration),
}

macro_rules! from {
    ($($of:ty => $value:ident),*) => {
        $(impl<'a> From<$of> for Value<'a> {
            fn from(value: $of) -> Self {
                Self::$value(value)
            }
        })*
    };
}
from!(&'a str => Text, &'a [String] => Texts, &'a [u8] => Bytes, i32 => Int, i64 => Long, Uuid => Id);

impl SerializeValue for Value<'_> {
    fn serialize<'b>(
        &self,
        of: &ColumnType<'_>,
        writer: CellWriter<'b>,
    ) -> Result<WrittenCellProof<'b>, SerializationError> {
        match self {
            Self::Text(value) => value.serialize(of, writer),
            Self::Texts(value) => value.serialize(of, writer),
            Self::Bytes(value) => value.serialize(of, writer),
            Self::Int(value) => value.serialize(of, writer),
            Self::Long(value) => value.serialize(of, writer),
            Self::Id(value) => value.serialize(of, writer),
            Self::Time(value) => value.serialize(of, writer),
        }
    }
}

/// Which values a statement has besides its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// The partition before them, and the time that is left behind them.
    OfPartition,
    /// A write timestamp, the time that is left, and the partition, all before them.
    Deletion(i64),
    /// The time that is left behind them.
    Timed,
    /// None.
    Plain,
}

/// A statement with its values.
#[derive(Debug, Clone)]
pub struct Query<'a> {
    pub statement: Statement,
    pub prepared: &'a PreparedStatement,
    values: Vec<Value<'a>>,
    shape: Shape,
    consistency: Option<Consistency>,
}

impl<'a> Query<'a> {
    fn new(statement: Statement, prepared: &'a PreparedStatement, values: Vec<Value<'a>>, shape: Shape) -> Self {
        Self { statement, prepared, values, shape, consistency: None }
    }

    /// A read of the partition of a call.
    pub fn read<const N: usize>(statement: Statement, prepared: &'a PreparedStatement, values: [Value<'a>; N]) -> Self {
        Self::new(statement, prepared, values.into(), Shape::OfPartition)
    }

    /// A deletion in the partition of a call, or of it, with a write timestamp.
    pub fn deletion<const N: usize>(
        statement: Statement,
        prepared: &'a PreparedStatement,
        timestamp: i64,
        values: [Value<'a>; N],
    ) -> Self {
        Self::new(statement, prepared, values.into(), Shape::Deletion(timestamp))
    }

    /// A read that names its partitions by itself.
    pub fn timed<const N: usize>(
        statement: Statement,
        prepared: &'a PreparedStatement,
        values: [Value<'a>; N],
    ) -> Self {
        Self::new(statement, prepared, values.into(), Shape::Timed)
    }

    /// A statement that takes no time.
    pub fn plain<const N: usize>(
        statement: Statement,
        prepared: &'a PreparedStatement,
        values: [Value<'a>; N],
    ) -> Self {
        Self::new(statement, prepared, values.into(), Shape::Plain)
    }

    /// The same at another consistency level than it was prepared with.
    pub fn at(self, consistency: Consistency) -> Self {
        Self { consistency: Some(consistency), ..self }
    }

    /// Binds the values to a copy of the statement, in their order. `within` is none where the dialect takes no time.
    pub fn bind(
        &self,
        mut prepared: PreparedStatement,
        partition: Option<[&str; 2]>,
        within: Option<CqlDuration>,
    ) -> Result<BoundStatement, SerializationError> {
        if let Some(consistency) = self.consistency {
            prepared.set_consistency(consistency);
        }
        prepared.bind(&self.all(partition, within))
    }

    fn all<'v>(&'v self, partition: Option<[&'v str; 2]>, within: Option<CqlDuration>) -> Vec<Value<'v>> {
        let partition = partition.into_iter().flatten().map(Value::Text);
        let (own, within) = (self.values.iter().cloned(), within.map(Value::Time));
        match self.shape {
            Shape::OfPartition => partition.chain(own).chain(within).collect(),
            Shape::Deletion(timestamp) => {
                std::iter::once(Value::Long(timestamp)).chain(within).chain(partition).chain(own).collect()
            }
            Shape::Timed => own.chain(within).collect(),
            Shape::Plain => own.collect(),
        }
    }
}
