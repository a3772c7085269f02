//! A partition as the databases merge its writes: the later write timestamp counts, and at the same one a deletion.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;

use crate::items::cql::statements::EntryItem;

/// The place of a row in its partition: its kind, where the table has kinds, and its key.
pub type Place = (&'static str, String);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    Text(String),
    Bytes(Bytes),
    Item(EntryItem),
}

#[derive(Debug, Clone)]
pub struct Cell {
    pub content: Content,
    /// Microseconds.
    pub written: i64,
    /// Seconds since the Unix epoch.
    pub expires: u64,
}

/// A row: one cell, or the cells of a map by their keys. Deletions have the largest write timestamp that they have.
#[derive(Debug, Clone, Default)]
struct Row {
    cells: BTreeMap<i32, Cell>,
    deleted_cells: BTreeMap<i32, i64>,
    deleted: Option<i64>,
}

/// A range tombstone.
#[derive(Debug, Clone)]
struct Range {
    lower: Bound<Place>,
    upper: Bound<Place>,
    written: i64,
}

#[derive(Debug, Clone, Default)]
pub struct Partition {
    rows: BTreeMap<Place, Row>,
    ranges: Vec<Range>,
    deleted: Option<i64>,
}

impl Partition {
    pub fn put(&mut self, place: Place, cell_key: i32, cell: Cell) {
        let cells = &mut self.rows.entry(place).or_default().cells;
        if cells.get(&cell_key).is_none_or(|present| present.written <= cell.written) {
            cells.insert(cell_key, cell);
        }
    }

    pub fn delete_row(&mut self, place: Place, written: i64) {
        let row = self.rows.entry(place).or_default();
        row.deleted = row.deleted.max(Some(written));
    }

    pub fn delete_cell(&mut self, place: Place, cell_key: i32, written: i64) {
        let deleted = self.rows.entry(place).or_default().deleted_cells.entry(cell_key).or_insert(written);
        *deleted = written.max(*deleted);
    }

    pub fn delete_range(&mut self, lower: Bound<Place>, upper: Bound<Place>, written: i64) {
        self.ranges.push(Range { lower, upper, written });
    }

    pub fn delete(&mut self, written: i64) {
        self.deleted = self.deleted.max(Some(written));
    }

    /// The rows of a kind in the order of their keys, with the cells that can be seen at a moment. A row without cells
    /// is a tombstone that a read has to pass.
    pub fn rows<'p>(
        &'p self,
        kind: &'static str,
        now: u64,
    ) -> impl DoubleEndedIterator<Item = (&'p str, Vec<(i32, &'p Cell)>)> {
        let of_kind = self.rows.iter().filter(move |((of, _), _)| *of == kind);
        of_kind.filter_map(move |(place, row)| {
            // A range tombstone outranks row tombstones, which databases then do not count.
            let ranges = self.ranges.iter().filter(|range| range.covers(place)).map(|range| range.written);
            let range = ranges.max().max(self.deleted);
            if row.deleted.is_some() && row.cells.is_empty() && row.deleted <= range {
                return None;
            }
            let deleted = range.max(row.deleted);
            let is_live = |(cell_key, cell): &(&i32, &Cell)| {
                let deleted = deleted.max(row.deleted_cells.get(*cell_key).copied());
                deleted.is_none_or(|deleted| cell.written > deleted) && cell.expires > now
            };
            let cells: Vec<_> = row.cells.iter().filter(is_live).map(|(cell_key, cell)| (*cell_key, cell)).collect();
            let is_hidden = cells.is_empty() && row.cells.values().all(|cell| range >= Some(cell.written));
            (!(is_hidden && row.deleted <= range)).then_some((place.1.as_str(), cells))
        })
    }

    /// How many range tombstones the partition has.
    pub fn ranges(&self) -> usize {
        self.ranges.len()
    }

    /// The number of row tombstones.
    pub fn row_tombstones(&self) -> usize {
        self.rows.values().filter(|row| row.deleted.is_some()).count()
    }
}

impl Range {
    fn covers(&self, place: &Place) -> bool {
        use std::ops::RangeBounds;
        (self.lower.clone(), self.upper.clone()).contains(place)
    }
}
