//! Rows of a simulated page, in the format of the protocol: so that they are read as received rows are.

use bytes::{BufMut, Bytes, BytesMut};
use scylla::deserialize::FrameSlice;
use scylla::deserialize::row::{ColumnIterator, DeserializeRow};
use scylla::frame::response::result::{CollectionType, ColumnSpec, ColumnType, NativeType, TableSpec};
use uuid::Uuid;

use crate::items::StoreError;
use crate::items::cql::error::damaged_row;
use crate::items::cql::statements::EntryItem;

/// A value of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Column {
    Text(String),
    Blob(Option<Bytes>),
    Long(Option<i64>),
    Id(Option<Uuid>),
    /// The items of a reverse entry, by writer.
    Items(Vec<(i32, EntryItem)>),
}

/// The rows of a page.
#[derive(Debug)]
pub struct SimulatedRows {
    columns: Vec<ColumnSpec<'static>>,
    pub rows: Vec<Bytes>,
}

impl SimulatedRows {
    pub fn new(rows: &[Vec<Column>]) -> Self {
        let columns = rows.first().into_iter().flatten().enumerate();
        let columns = columns.map(|(place, column)| {
            ColumnSpec::owned(place.to_string(), type_of(column), TableSpec::owned("k".into(), "t".into()))
        });
        Self { columns: columns.collect(), rows: rows.iter().map(|row| encoded(row)).collect() }
    }

    pub fn row<'p, R: DeserializeRow<'p, 'p>>(&'p self, place: usize) -> Option<Result<R, StoreError>> {
        let row = self.rows.get(place)?;
        if R::type_check(&self.columns).is_err() {
            return Some(Err(damaged_row()));
        }
        Some(R::deserialize(ColumnIterator::new(&self.columns, FrameSlice::new(row))).map_err(|_| damaged_row()))
    }
}

fn type_of(column: &Column) -> ColumnType<'static> {
    let native = |of| ColumnType::Native(of);
    match column {
        Column::Text(_) => native(NativeType::Text),
        Column::Blob(_) => native(NativeType::Blob),
        Column::Long(_) => native(NativeType::BigInt),
        Column::Id(_) => native(NativeType::Uuid),
        Column::Items(_) => {
            let item = [NativeType::Text, NativeType::BigInt, NativeType::BigInt, NativeType::Blob];
            let item = ColumnType::Tuple(item.map(native).into());
            let typ = CollectionType::Map(Box::new(native(NativeType::Int)), Box::new(item));
            ColumnType::Collection { frozen: false, typ }
        }
    }
}

fn encoded(row: &[Column]) -> Bytes {
    let mut into = BytesMut::new();
    for column in row {
        match column {
            Column::Text(text) => put(&mut into, Some(text.as_bytes())),
            Column::Blob(bytes) => put(&mut into, bytes.as_deref()),
            Column::Long(long) => put(&mut into, long.map(i64::to_be_bytes).as_ref().map(|bytes| &bytes[..])),
            Column::Id(id) => put(&mut into, id.as_ref().map(|id| &id.as_bytes()[..])),
            Column::Items(items) => put(&mut into, Some(&encoded_items(items)[..])),
        }
    }
    into.freeze()
}

fn encoded_items(items: &[(i32, EntryItem)]) -> Bytes {
    let mut into = BytesMut::new();
    into.put_i32(i32::try_from(items.len()).unwrap());
    for (writer, EntryItem { key, written, expires_at, value }) in items {
        put(&mut into, Some(&writer.to_be_bytes()[..]));
        let (written, expires_at) = (Some(*written), Some(expires_at.cast_signed()));
        let item = [
            Column::Text(key.clone()),
            Column::Long(written),
            Column::Long(expires_at),
            Column::Blob(Some(value.clone())),
        ];
        put(&mut into, Some(&encoded(&item)[..]));
    }
    into.freeze()
}

/// A value with its length before it, which is negative for null.
fn put(into: &mut BytesMut, value: Option<&[u8]>) {
    into.put_i32(value.map_or(-1, |value| i32::try_from(value.len()).unwrap()));
    into.put_slice(value.unwrap_or_default());
}
