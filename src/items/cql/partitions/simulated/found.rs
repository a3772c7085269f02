//! The rows that a read finds, and its pages.

use bytes::Bytes;
use scylla::errors::ExecutionError;
use scylla::response::PagingState;

use super::failures::too_many_tombstones;
use super::rows::{Column, SimulatedRows};
use super::state::{Limits, State, StoredBag, Table};
use super::table::{Cell, Content};
use super::values::{blob, int, text, texts};
use crate::domain::Order;
use crate::items::cql::partitions::Page;
use crate::items::cql::statements::bags::BagStatement;
use crate::items::cql::statements::buckets::BucketStatement;
use crate::items::cql::statements::lists::ListStatement;
use crate::items::cql::statements::sets::SetStatement;
use crate::items::cql::statements::{Name, Query};

/// The partition, in the order of the read, and the row in it.
type Spot = (usize, String);

/// All rows that a read finds, in its order. A row without columns is a tombstone.
pub(super) struct Found {
    rows: Vec<(Spot, Option<Vec<Column>>)>,
    order: Order,
    limit: usize,
    limit_of_each: usize,
}

impl Found {
    pub(super) fn of(state: &State, query: &Query<'_>, now: u64) -> Self {
        let values = query.values();
        let mut found = Self { rows: Vec::new(), order: Order::Newest, limit: usize::MAX, limit_of_each: usize::MAX };
        let limit = |place| usize::try_from(int(values, place)).unwrap();
        match query.name {
            Name::List(ListStatement::Now) => {
                found.rows.push(((0, String::new()), Some(vec![Column::Long(Some((now * 1_000).cast_signed()))])));
            }
            Name::List(name) => {
                let is_named = |key: &str, cells: &[(i32, &Cell)]| match name {
                    ListStatement::Find => {
                        // The index has the rows with this value alone, and their tombstones.
                        cells.first().is_none_or(|(_, cell)| cell.content == bytes(blob(values, 0)))
                    }
                    ListStatement::FindKeys => texts(values, 0).iter().any(|wanted| wanted == key),
                    _ => (text(values, 0)..text(values, 1)).contains(&key),
                };
                if matches!(name, ListStatement::GetOldest | ListStatement::KeysOldest) {
                    found.order = Order::Oldest;
                }
                if !matches!(name, ListStatement::Find | ListStatement::FindKeys | ListStatement::FindBetween) {
                    found.limit = limit(2);
                }
                let columns = |key: &str, cells: &[(i32, &Cell)]| {
                    let (_, Cell { content, written, .. }) = cells.first()?;
                    let (key, written) = (Column::Text(key.to_owned()), Column::Long(Some(*written)));
                    let value = Column::Blob(Some(bytes_of(content)));
                    Some(match name {
                        ListStatement::Get | ListStatement::GetOldest => vec![key, value],
                        ListStatement::GetWithWritetime => vec![key, value, written],
                        ListStatement::Keys | ListStatement::KeysOldest => vec![key],
                        ListStatement::Find | ListStatement::FindKeys | ListStatement::FindBetween => {
                            vec![key, written]
                        }
                        other => panic!("{other:?} is not simulated"),
                    })
                };
                found.read(state, (Table::Items, "", query.partition.unwrap(), 0), now, is_named, columns);
            }
            Name::Set(name) => found.read_set(state, query, name, now),
            Name::Bucket(name @ (BucketStatement::Names | BucketStatement::NamesOldest)) => {
                if name == BucketStatement::NamesOldest {
                    found.order = Order::Oldest;
                }
                let named = |key: &str, _: &[(i32, &Cell)]| {
                    let name = key.split('\0').next().unwrap();
                    (text(values, 0)..text(values, 1)).contains(&name)
                };
                let columns = |key: &str, cells: &[(i32, &Cell)]| {
                    cells.first()?;
                    Some(vec![Column::Text(key.split('\0').next().unwrap().to_owned())])
                };
                found.read(state, (Table::Buckets, "", query.partition.unwrap(), 0), now, named, columns);
            }
            Name::Bucket(name @ (BucketStatement::Several | BucketStatement::SeveralKeys)) => {
                found.limit_of_each = limit(4);
                let is_named = |key: &str, _: &[(i32, &Cell)]| (text(values, 2)..text(values, 3)).contains(&key);
                for (place, feature_key) in texts(values, 0).iter().enumerate() {
                    let columns = |key: &str, cells: &[(i32, &Cell)]| {
                        let (_, cell) = cells.first()?;
                        let mut row = vec![Column::Text(feature_key.clone()), Column::Text(key.to_owned())];
                        if name == BucketStatement::Several {
                            row.push(Column::Blob(Some(bytes_of(&cell.content))));
                        }
                        Some(row)
                    };
                    let partition = [feature_key.as_str(), text(values, 1)];
                    found.read(state, (Table::Items, "", partition, place), now, is_named, columns);
                }
            }
            Name::Bag(BagStatement::Read) => {
                let [feature_key, entity_id] = query.partition.unwrap();
                let row = state.bags.get(&(feature_key.to_owned(), entity_id.to_owned()));
                if let Some(StoredBag { put, .. }) = row.filter(|row| row.expires > now) {
                    let bag = put.bag.as_ref();
                    let long = |of: Option<u64>| Column::Long(of.map(u64::cast_signed));
                    found.rows.push((
                        (0, String::new()),
                        Some(vec![
                            Column::Id(Some(put.state)),
                            Column::Blob(Some(put.states.clone())),
                            Column::Long(Some(put.written)),
                            long(bag.map(|bag| bag.timestamp.as_nanos())),
                            long(bag.map(|bag| bag.expires_at)),
                            Column::Blob(bag.map(|bag| bag.value.clone())),
                            Column::Long(Some((now * 1_000).cast_signed())),
                        ]),
                    ));
                }
            }
            other => panic!("{other:?} is not simulated"),
        }
        found
    }

    fn read_set(&mut self, state: &State, query: &Query<'_>, name: SetStatement, now: u64) {
        let values = query.values();
        let kind = match name {
            SetStatement::Entries | SetStatement::AllEntries => "member",
            _ => "item",
        };
        if matches!(name, SetStatement::RowsOldest | SetStatement::RowKeysOldest) {
            self.order = Order::Oldest;
        }
        if matches!(name, SetStatement::RowKeys | SetStatement::RowKeysOldest) {
            self.limit = usize::try_from(int(values, 2)).unwrap();
        }
        let is_named = |key: &str, _: &[(i32, &Cell)]| match name {
            SetStatement::AllEntries => true,
            SetStatement::Entries | SetStatement::FindRows => texts(values, 0).iter().any(|wanted| wanted == key),
            _ => (text(values, 0)..text(values, 1)).contains(&key),
        };
        let columns = |key: &str, cells: &[(i32, &Cell)]| {
            let (_, first) = cells.first()?;
            let sort = Column::Text(key.to_owned());
            let member = |content: &Content| match content {
                Content::Text(member) => Column::Text(member.clone()),
                other => panic!("{other:?}"),
            };
            Some(match name {
                SetStatement::Rows | SetStatement::RowsOldest => vec![sort, member(&first.content)],
                SetStatement::RowKeys | SetStatement::RowKeysOldest => vec![sort],
                SetStatement::FindRows => vec![sort, member(&first.content), Column::Long(Some(first.written))],
                SetStatement::Entries | SetStatement::AllEntries => {
                    let items = cells.iter().map(|(writer, cell)| match &cell.content {
                        Content::Item(item) => (*writer, item.clone()),
                        other => panic!("{other:?}"),
                    });
                    vec![sort, Column::Items(items.collect())]
                }
                other => panic!("{other:?} is not simulated"),
            })
        };
        self.read(state, (Table::Members, kind, query.partition.unwrap(), 0), now, is_named, columns);
    }

    /// Finds the rows of one partition, the `place`-th of the read.
    fn read(
        &mut self,
        state: &State,
        (table, kind, [feature_key, entity_id], place): (Table, &'static str, [&str; 2], usize),
        now: u64,
        is_named: impl Fn(&str, &[(i32, &Cell)]) -> bool,
        columns: impl Fn(&str, &[(i32, &Cell)]) -> Option<Vec<Column>>,
    ) {
        let Some(partition) = state.partitions.get(&(table, feature_key.to_owned(), entity_id.to_owned())) else {
            return;
        };
        let rows = partition.rows(kind, now).filter(|(key, cells)| is_named(key, cells));
        let rows = rows.map(|(key, cells)| ((place, key.to_owned()), columns(key, &cells)));
        match self.order {
            Order::Newest => self.rows.extend(rows.rev()),
            Order::Oldest => self.rows.extend(rows),
        }
    }

    /// A page from a place on, and the next place.
    #[expect(clippy::result_large_err, reason = "it is the driver's error")]
    pub(super) fn page(
        self,
        state: &mut State,
        from: &PagingState,
        rows_max: usize,
    ) -> Result<(Page, Option<PagingState>), ExecutionError> {
        let Limits { scanned_max, tombstones_max } = state.limits;
        let mut at = Position::of(from);
        let (mut rows, mut scanned, mut tombstones, mut is_over) = (Vec::new(), 0, 0, true);
        for (place, columns) in self.rows {
            if !at.is_before(&place, self.order) {
                continue;
            }
            if at.rows >= self.limit {
                break;
            }
            if scanned >= scanned_max || rows.len() >= rows_max {
                is_over = false;
                break;
            }
            scanned += 1;
            if at.last.as_ref().is_none_or(|last| last.0 != place.0) {
                at.rows_of_partition = 0;
            }
            at.last = Some(place);
            match columns {
                Some(columns) if at.rows_of_partition < self.limit_of_each => {
                    rows.push(columns);
                    (at.rows, at.rows_of_partition) = (at.rows + 1, at.rows_of_partition + 1);
                }
                Some(_) => {}
                None => tombstones += 1,
            }
        }
        if tombstones > tombstones_max {
            return Err(too_many_tombstones());
        }
        state.rows_sent += rows.len();
        // A page that is full is followed by another, which may be empty: so it is with the databases.
        let is_over = is_over && rows.len() < rows_max;
        Ok((Page::simulated(SimulatedRows::new(&rows)), (!is_over).then(|| at.paging_state())))
    }
}

/// How far a read has come.
#[derive(Default)]
struct Position {
    rows: usize,
    rows_of_partition: usize,
    last: Option<(usize, String)>,
}

impl Position {
    fn of(state: &PagingState) -> Self {
        let Some(bytes) = state.as_bytes_slice() else { return Self::default() };
        let text = std::str::from_utf8(bytes).unwrap();
        let mut parts = text.splitn(4, ' ');
        let mut number = || parts.next().unwrap().parse().unwrap();
        let (rows, rows_of_partition, place) = (number(), number(), number());
        Self { rows, rows_of_partition, last: parts.next().map(|key| (place, key.to_owned())) }
    }

    fn paging_state(&self) -> PagingState {
        let (place, key) = self.last.clone().unwrap_or_default();
        PagingState::new_from_raw_bytes(format!("{} {} {place} {key}", self.rows, self.rows_of_partition).as_bytes())
    }

    fn is_before(&self, place: &(usize, String), order: Order) -> bool {
        self.last.as_ref().is_none_or(|last| {
            let is_after = match order {
                Order::Newest => place.1 < last.1,
                Order::Oldest => place.1 > last.1,
            };
            place.0 > last.0 || (place.0 == last.0 && is_after)
        })
    }
}

fn bytes(value: &[u8]) -> Content {
    Content::Bytes(Bytes::copy_from_slice(value))
}

fn bytes_of(content: &Content) -> Bytes {
    match content {
        Content::Bytes(bytes) => bytes.clone(),
        other => panic!("{other:?}"),
    }
}
