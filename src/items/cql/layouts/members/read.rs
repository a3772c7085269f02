//! The requests that read: ordered rows, and reverse entries.

use std::collections::HashMap;

use bytes::Bytes;

use super::entry::{Held, ReverseEntry, stored_of};
use crate::domain::{Identity, ItemKey, Order};
use crate::items::StoreError;
use crate::items::cql::call::{Call, Pages};
use crate::items::cql::core::Core;
use crate::items::cql::error::damaged_row;
use crate::items::cql::layouts::walk::Slice;
use crate::items::cql::partitions::Page;
use crate::items::cql::statements::Query;
use crate::items::cql::statements::sets::{ENTRIES_MAX, SetStatement};

/// Reads of entries of one operation in progress at once.
const READS_MAX: usize = 8;
/// Pages have as many rows as fit in this, by those seen.
const PAGE_BYTES: usize = 1 << 20;
const PAGE_ROWS_MAX: usize = 5_000;
const FIRST_ROWS: usize = 256;

/// An ordered row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub key: ItemKey,
    /// Where the entry of its member is.
    pub member: String,
}

/// The ordered rows of a slice, part by part.
pub struct Rows {
    pub slice: Slice,
    pages: Pages,
}

impl Rows {
    pub fn of(slice: Slice) -> Self {
        Self { slice, pages: Pages::new() }
    }

    /// The next rows, at most `rows_max`; none at the end. A short answer is not the end.
    pub async fn next(&mut self, call: &mut Call, rows_max: usize) -> Result<Option<Vec<Row>>, StoreError> {
        let Slice { order, lower, upper } = &self.slice;
        let statement = match order {
            Order::Newest => SetStatement::Rows,
            Order::Oldest => SetStatement::RowsOldest,
        };
        let query = Query::of_partition(statement, [lower.as_str().into(), upper.as_str().into()]);
        let Some(page) = self.pages.next(call, &query, rows_max).await? else { return Ok(None) };
        let rows = page.rows::<(&str, &str)>()?.map(|row| {
            let (key, member) = row?;
            let key = ItemKey::parse(key).map_err(|_| damaged_row())?;
            Ok(Row { key, member: member.to_owned() })
        });
        rows.collect::<Result<_, StoreError>>().map(Some)
    }

    pub fn are_over(&self) -> bool {
        self.pages.are_over()
    }
}

/// Finds which of these rows exist, with their write timestamps.
pub async fn find_rows(call: &mut Call, keys: &[ItemKey]) -> Result<HashMap<ItemKey, i64>, StoreError> {
    let (mut found, mut pages) = (HashMap::new(), Pages::new());
    let keys: Vec<_> = keys.iter().map(ToString::to_string).collect();
    let query = Query::of_partition(SetStatement::FindRows, [keys.as_slice().into()]);
    while let Some(page) = pages.next(call, &query, page_of_all(keys.len())).await? {
        for row in page.rows::<(&str, &str, i64)>()? {
            let (key, _, written) = row?;
            found.insert(ItemKey::parse(key).map_err(|_| damaged_row())?, written);
        }
    }
    Ok(found)
}

/// Rows of a page that is to have all that are requested: one that is full is followed by another, which is empty.
fn page_of_all(rows: usize) -> usize {
    rows + 1
}

/// The reverse entries of some members, by their places: a few requests at a time, limited by permits.
pub async fn entries(call: &mut Call, members: Vec<String>) -> Result<HashMap<String, ReverseEntry>, StoreError> {
    if members.is_empty() {
        return Ok(HashMap::new());
    }
    let parts: Vec<_> = members.chunks(ENTRIES_MAX).map(<[String]>::to_vec).collect();
    let each = |mut call: Call, members: Vec<String>| async move {
        let found = some_entries(&mut call, &members).await?;
        Ok((found, call))
    };
    let found = call.in_lanes(parts, READS_MAX, each).await?;
    Ok(found.into_iter().flatten().map(|entry| (entry.member.clone(), entry)).collect())
}

/// [`ENTRIES_MAX`] at most.
async fn some_entries(call: &mut Call, members: &[String]) -> Result<Vec<ReverseEntry>, StoreError> {
    let (mut found, mut pages) = (Vec::new(), Pages::new());
    let query = Query::of_partition(SetStatement::Entries, [members.into()]);
    while let Some(page) = pages.next(call, &query, page_of_all(members.len())).await? {
        read_entries(&call.core, call.list.identity(), &page, &mut found)?;
    }
    Ok(found)
}

/// A walk over all reverse entries of a set, in no order that means anything.
pub struct AllEntries {
    pages: Pages,
    rows_max: usize,
}

impl AllEntries {
    pub fn new() -> Self {
        Self { pages: Pages::new(), rows_max: FIRST_ROWS }
    }

    /// The next part, which may be empty; none at the end.
    pub async fn next(&mut self, call: &mut Call) -> Result<Option<Vec<ReverseEntry>>, StoreError> {
        let query = Query::of_partition(SetStatement::AllEntries, []);
        let Some(page) = self.pages.next(call, &query, self.rows_max).await? else { return Ok(None) };
        if let Some(row_bytes) = page.bytes().checked_div(page.rows_count()) {
            self.rows_max = (PAGE_BYTES / row_bytes.max(1)).clamp(1, PAGE_ROWS_MAX);
        }
        let mut found = Vec::with_capacity(page.rows_count());
        read_entries(&call.core, call.list.identity(), &page, &mut found)?;
        Ok(Some(found))
    }
}

/// By who wrote it: item key, write timestamp, expiry, value.
type Items<'a> = HashMap<i32, (&'a str, i64, i64, Bytes)>;

fn read_entries(core: &Core, identity: Identity, page: &Page, into: &mut Vec<ReverseEntry>) -> Result<(), StoreError> {
    for row in page.rows::<(&str, Option<Items<'_>>)>()? {
        let (member, items) = row?;
        let held = items.into_iter().flatten().map(|(writer, (key, written, expires_at, value))| {
            core.write_clock.observe(written);
            let key = ItemKey::parse(key).map_err(|_| damaged_row())?;
            let stored = stored_of(identity, member, value).map_err(|_| damaged_row())?;
            Ok(Held { writer, key, written, expires_at: expires_at.cast_unsigned(), stored })
        });
        into.push(ReverseEntry { member: member.to_owned(), held: held.collect::<Result<_, StoreError>>()? });
    }
    Ok(())
}
