//! Walks over the items that stand in a set, in the order of its rows.

use std::collections::{BTreeMap, HashSet};

use super::entry::{Entry, Held};
use super::read::{self, Row, Rows, Slice};
use crate::domain::{ItemKey, Keep, ListKey, Order};
use crate::items::cql::call::Call;
use crate::items::cql::notes::mends::Mend;
use crate::items::{Operation, StoreError};

/// An item that stands, and where the entry of its member is.
#[derive(Debug, Clone)]
pub struct Standing {
    pub member: String,
    pub held: Held,
    /// What the entry holds besides.
    pub others: Vec<Held>,
}

/// Such a walk. A member that moves while it goes on is met where it was, where it is, or not at all; one that does
/// not move is met once.
pub struct Walk {
    rows: Rows,
    /// The last row that was read.
    at: Option<ItemKey>,
}

impl Walk {
    pub fn new(slice: Slice) -> Self {
        Self { rows: Rows::of(slice), at: None }
    }

    /// The items that stand where the next rows are, of which `rows_max` are read at most: in order, none of them
    /// behind what the walk has passed. There may be none, and more of them ahead; `None` is the end.
    pub async fn next(&mut self, call: &mut Call, rows_max: usize) -> Result<Option<Vec<Standing>>, StoreError> {
        let read = self.rows.next(call, rows_max).await;
        let Slice { order, lower, upper } = &self.rows.slice;
        let begin = self.at.map(|at| at.to_string());
        let begin = begin.as_ref().unwrap_or(if *order == Order::Newest { upper } else { lower });
        let Some(rows) = call.core.to_sweep.check(read, (&call.list, begin, *order))? else { return Ok(None) };
        let members: HashSet<&String> = rows.iter().map(|row| &row.member).collect();
        let members = members.into_iter().cloned().collect();
        let entries = read::entries(call, members).await?;
        let (op, list, mends) = (&call.op, &call.list, &call.core.mends);
        let (passed, last) = (self.at, rows.last().map(|row| row.key));
        self.at = last.or(passed);
        let here = |key: &ItemKey| self.is_past(passed, key) && (self.is_over() || !self.is_past(last, key));
        let mut standing = BTreeMap::new();
        let read: HashSet<_> = rows.iter().map(|row| row.key).collect();
        for entry in entries.values() {
            let stands = entry.standing(op, keep_of(list)).filter(|held| here(&held.key));
            if stands.is_some_and(|held| !read.contains(&held.key)) || entry.is_torn(op) {
                mends.met(mend(op, list, &entry.member, None));
            }
            if let Some(held) = stands {
                let others = entry.held.iter().filter(|other| *other != held).cloned().collect();
                standing.insert(held.key, Standing { member: entry.member.clone(), held: held.clone(), others });
            }
        }
        for row in rows.iter().filter(|row| !points_to(entries.get(&row.member), row)) {
            mends.met(mend(op, list, &row.member, Some(row.key)));
        }
        let standing = standing.into_values();
        let standing = match self.rows.slice.order {
            Order::Newest => standing.rev().collect(),
            Order::Oldest => standing.collect(),
        };
        Ok(Some(standing))
    }

    /// Whether it has come to its end.
    pub fn is_over(&self) -> bool {
        self.rows.are_over()
    }

    /// Whether a key of the slice lies behind another in the order of the walk.
    fn is_past(&self, passed: Option<ItemKey>, key: &ItemKey) -> bool {
        let text = key.to_string();
        let slice = &self.rows.slice;
        let is_within = slice.lower <= text && text < slice.upper;
        let is_past = passed.is_none_or(|passed| match slice.order {
            Order::Newest => *key < passed,
            Order::Oldest => *key > passed,
        });
        is_within && is_past
    }
}

fn points_to(entry: Option<&Entry>, row: &Row) -> bool {
    entry.is_some_and(|entry| entry.held.iter().any(|held| held.key == row.key))
}

/// A member whose rows and entry do not agree.
pub fn mend(op: &Operation, list: &ListKey, member: &str, row: Option<ItemKey>) -> Mend {
    Mend { list: list.clone(), member: member.to_owned(), row, ttl: op.ttl }
}

/// Which item of a member stays. A list that is no set never gets here.
pub fn keep_of(list: &ListKey) -> Keep {
    list.identity().keep().unwrap_or_default()
}
