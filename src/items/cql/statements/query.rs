//! A statement with its values, and the positions of its partition and its time among them.

use bytes::Bytes;
use scylla::frame::response::result::ColumnType;
use scylla::serialize::SerializationError;
use scylla::serialize::row::{RowSerializationContext, SerializeRow};
use scylla::serialize::value::SerializeValue;
use scylla::serialize::writers::{CellWriter, RowWriter, WrittenCellProof};
use scylla::statement::Consistency;
use scylla::value::CqlDuration;
use uuid::Uuid;

use super::{Name, Statement};

/// The most values that a statement has without its partition, write timestamp and time.
const VALUES_MAX: usize = 8;
const ALL_VALUES_MAX: usize = VALUES_MAX + 4;

/// A value of a statement.
#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    Text(&'a str),
    Texts(&'a [String]),
    Bytes(&'a [u8]),
    Int(i32),
    Long(i64),
    Id(Uuid),
    Time(CqlDuration),
    Item(&'a EntryItem),
}

/// The item of a member as one writer stores it in a reverse entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryItem {
    pub key: String,
    /// The write timestamp in microseconds.
    pub written: i64,
    /// Nanoseconds since the Unix epoch.
    pub expires_at: u64,
    pub value: Bytes,
}

impl EntryItem {
    /// A key alone, with a write timestamp.
    pub fn of_key(key: String, written: i64) -> Self {
        Self { key, written, expires_at: 0, value: Bytes::new() }
    }
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
            Self::Texts(value) => SerializeValue::serialize(value, of, writer),
            Self::Bytes(value) => value.serialize(of, writer),
            Self::Int(value) => value.serialize(of, writer),
            Self::Long(value) => value.serialize(of, writer),
            Self::Id(value) => value.serialize(of, writer),
            Self::Time(value) => value.serialize(of, writer),
            Self::Item(EntryItem { key, written, expires_at, value }) => {
                let item = (key.as_str(), *written, expires_at.cast_signed(), &value[..]);
                SerializeValue::serialize(&item, of, writer)
            }
        }
    }
}

/// Which values a statement has in addition to its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// The partition before them, and the time that is left after them.
    OfPartition,
    /// A write timestamp, the time that is left, and the partition, all before them.
    Deletion(i64),
    /// The time that is left after them.
    Timed,
    /// None.
    Plain,
}

/// A statement with its values.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    pub name: Name,
    pub label: Statement,
    /// The feature key and the entity ID of the partition, where the statement names one partition.
    pub partition: Option<[&'a str; 2]>,
    pub consistency: Option<Consistency>,
    shape: Shape,
    values: [Value<'a>; VALUES_MAX],
    values_count: usize,
}

impl<'a> Query<'a> {
    fn new<const N: usize>(name: impl Into<Name>, own: [Value<'a>; N], shape: Shape) -> Self {
        const { assert!(N <= VALUES_MAX) };
        let (name, mut values) = (name.into(), [Value::Int(0); VALUES_MAX]);
        values[..N].copy_from_slice(&own);
        Self { name, label: name.label(), partition: None, consistency: None, shape, values, values_count: N }
    }

    /// A read or an insert in a partition.
    pub fn of_partition<const N: usize>(name: impl Into<Name>, values: [Value<'a>; N]) -> Self {
        Self::new(name, values, Shape::OfPartition)
    }

    /// A deletion in a partition, or of a partition, with a write timestamp.
    pub fn deletion<const N: usize>(name: impl Into<Name>, timestamp: i64, values: [Value<'a>; N]) -> Self {
        Self::new(name, values, Shape::Deletion(timestamp))
    }

    /// A read whose own values name its partitions.
    pub fn timed<const N: usize>(name: impl Into<Name>, values: [Value<'a>; N]) -> Self {
        Self::new(name, values, Shape::Timed)
    }

    /// A statement without a time limit, whose own values name its partition.
    pub fn plain<const N: usize>(name: impl Into<Name>, values: [Value<'a>; N]) -> Self {
        Self::new(name, values, Shape::Plain)
    }

    /// The same for this partition.
    pub fn with_partition(self, partition: Option<[&'a str; 2]>) -> Self {
        Self { partition, ..self }
    }

    /// The same values of another statement.
    pub fn named(self, name: impl Into<Name>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// The same as a part of a sweep, at another consistency level than it was prepared with.
    pub fn of_sweep(self, consistency: Consistency) -> Self {
        Self { label: Statement::Sweep, consistency: Some(consistency), ..self }
    }

    /// The values of the statement itself.
    pub fn values(&self) -> &[Value<'a>] {
        &self.values[..self.values_count]
    }

    /// The write timestamp of a deletion.
    #[cfg(test)]
    pub fn timestamp(&self) -> Option<i64> {
        match self.shape {
            Shape::Deletion(timestamp) => Some(timestamp),
            _ => None,
        }
    }

    /// All values in their order. `within` is `None` where the dialect takes no time limit.
    pub fn bound(&self, within: Option<CqlDuration>) -> Bound<'_> {
        let mut bound = Bound { values: [Value::Int(0); ALL_VALUES_MAX], count: 0 };
        let within = within.map(Value::Time);
        let partition = self.partition.into_iter().flatten().map(Value::Text);
        let own = self.values().iter().copied();
        match self.shape {
            Shape::OfPartition => bound.extend(partition.chain(own).chain(within)),
            Shape::Deletion(timestamp) => {
                bound.extend([Value::Long(timestamp)].into_iter().chain(within).chain(partition).chain(own));
            }
            Shape::Timed => bound.extend(own.chain(within)),
            Shape::Plain => bound.extend(own),
        }
        bound
    }
}

/// The values of a query as its statement binds them.
#[derive(Debug)]
pub struct Bound<'a> {
    values: [Value<'a>; ALL_VALUES_MAX],
    count: usize,
}

impl<'a> Bound<'a> {
    fn extend(&mut self, values: impl Iterator<Item = Value<'a>>) {
        for (place, value) in self.values[self.count..].iter_mut().zip(values) {
            *place = value;
            self.count += 1;
        }
    }
}

impl SerializeRow for Bound<'_> {
    fn serialize(
        &self,
        context: &RowSerializationContext<'_>,
        writer: &mut RowWriter,
    ) -> Result<(), SerializationError> {
        SerializeRow::serialize(&&self.values[..self.count], context, writer)
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Writes that are carried out together.
pub trait Writes: Send + Sync + 'static {
    /// Each with its partition.
    fn queries(&self) -> Vec<Query<'_>>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::items::cql::statements::lists::ListStatement;

    fn texts(query: &Query<'_>, within: Option<CqlDuration>) -> Vec<String> {
        let bound = query.bound(within);
        bound.values[..bound.count].iter().map(|value| format!("{value:?}")).collect()
    }

    #[test]
    fn values_are_bound_in_the_order_of_their_statement() {
        let within = Some(CqlDuration { months: 0, days: 0, nanoseconds: 7 });
        let partition = Some(["f", "e"]);
        let read = Query::of_partition(ListStatement::Get, ["a".into(), 5_i32.into()]).with_partition(partition);
        assert_eq!(texts(&read, None), [r#"Text("f")"#, r#"Text("e")"#, r#"Text("a")"#, "Int(5)"]);
        assert_eq!(texts(&read, within).len(), 5);
        assert!(texts(&read, within)[4].starts_with("Time"));
        let deletion = Query::deletion(ListStatement::Clear, 9, []).with_partition(partition);
        assert_eq!(texts(&deletion, None), ["Long(9)", r#"Text("f")"#, r#"Text("e")"#]);
        assert!(texts(&deletion, within)[1].starts_with("Time"));
        assert_eq!(texts(&Query::plain(ListStatement::Now, []), within), [""; 0]);
        assert_eq!(texts(&Query::timed(ListStatement::Entities, [1_i64.into()]), within).len(), 2);
    }
}
