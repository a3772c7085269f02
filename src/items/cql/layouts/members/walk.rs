//! Walks over the current items in a set, in the order of its rows.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use bytes::Bytes;

use super::entry::{Held, ReverseEntry};
use super::read::{self, Row, Rows};
use crate::domain::{ItemKey, Keep, ListKey, Order, ValueDigest};
use crate::items::collect::{Collect, Next, Offered};
use crate::items::cql::call::Call;
use crate::items::cql::layouts::walk::{Slice, Step, Walk, What};
use crate::items::cql::notes::repairs::Repair;
use crate::items::{OpContext, StoreError};

/// Rows of the first page: the size of items is unknown until it has been read.
const FIRST_ROWS: usize = 128;
/// Rows of a page whose items are not returned, and of any page.
pub const STEP_ROWS: usize = 1_000;
/// Later pages have as many rows as fit in this, by the items that were read.
const STEP_BYTES: usize = 1 << 20;
/// Members of one walk that are compared with each other.
const COMPARED_MAX: usize = 100_000;

/// A current item, and where the entry of its member is.
#[derive(Debug, Clone)]
pub struct CurrentItem {
    pub member: String,
    pub held: Held,
    /// The other items of the entry.
    pub others: Vec<Held>,
}

/// Such a walk. It offers a member once. A member that moves during the walk is offered where it was first found, or
/// not at all.
pub struct SetWalk {
    rows: Rows,
    /// The last row that was read.
    at: Option<ItemKey>,
    /// Rows of the next page.
    rows_max: usize,
    /// How many items were not offered yet.
    left: usize,
    passed: PassedMembers,
}

impl SetWalk {
    pub fn new(slice: Slice, what: What, limit: usize) -> Self {
        let rows_max = if what == What::Items { FIRST_ROWS } else { STEP_ROWS };
        Self { rows: Rows::of(slice), at: None, rows_max, left: limit, passed: PassedMembers::default() }
    }

    /// The current items where the next rows are, of which `rows_max` are read at most: in order, and only items
    /// that the walk has not passed. There may be none although more follow. `None` is the end.
    pub async fn next_items(
        &mut self,
        call: &mut Call,
        rows_max: usize,
    ) -> Result<Option<Vec<CurrentItem>>, StoreError> {
        let read = self.rows.next(call, rows_max).await;
        let slice = &self.rows.slice;
        let begin = self.at.map(|at| at.to_string());
        let begin = begin.as_deref().unwrap_or(slice.begin());
        let Some(rows) = call.core.to_sweep.check(read, (&call.list, begin, slice.order))? else { return Ok(None) };
        let members: HashSet<&String> = rows.iter().map(|row| &row.member).collect();
        let members = members.into_iter().cloned().collect();
        let entries = read::entries(call, members).await?;
        let (op, list, repairs) = (&call.op, &call.list, &call.core.repairs);
        let (passed, last) = (self.at, rows.last().map(|row| row.key));
        self.at = last.or(passed);
        let here = |key: &ItemKey| self.is_past(passed, key) && (self.is_over() || !self.is_past(last, key));
        let mut items = BTreeMap::new();
        let read: HashSet<_> = rows.iter().map(|row| row.key).collect();
        for entry in entries.values() {
            let current = entry.current(op, keep_of(list)).filter(|held| here(&held.key));
            if current.is_some_and(|held| !read.contains(&held.key)) || entry.is_torn(op) {
                repairs.note(repair(op, list, &entry.member, None));
            }
            if let Some(held) = current {
                let others = entry.held.iter().filter(|other| *other != held).cloned().collect();
                items.insert(held.key, CurrentItem { member: entry.member.clone(), held: held.clone(), others });
            }
        }
        for row in rows.iter().filter(|row| !points_to(entries.get(&row.member), row)) {
            repairs.note(repair(op, list, &row.member, Some(row.key)));
        }
        let items = items.into_values();
        let items = match self.rows.slice.order {
            Order::Newest => items.rev().collect(),
            Order::Oldest => items.collect(),
        };
        Ok(Some(items))
    }

    /// Whether it has ended.
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

impl Walk for SetWalk {
    async fn next<C: Collect + Send>(&mut self, call: &mut Call, collector: &mut C) -> Result<Step, StoreError> {
        let Some(current) = self.next_items(call, self.rows_max.min(self.left)).await? else { return Ok(Step::Ended) };
        let (mut bytes, count) = (0, current.len());
        for CurrentItem { member, held, .. } in current {
            if !self.passed.is_new(&member) {
                continue;
            }
            bytes += held.stored.len();
            self.left = self.left.saturating_sub(1);
            if collector.offer(&held) == Next::Done {
                return Ok(Step::Full);
            }
        }
        if let Some(bytes) = bytes.checked_div(count) {
            self.rows_max = (STEP_BYTES / bytes.max(1)).clamp(1, STEP_ROWS);
        }
        Ok(if self.is_over() || self.left == 0 { Step::Ended } else { Step::More })
    }
}

impl Offered for Held {
    fn timestamp(&self) -> u64 {
        self.key.timestamp.as_nanos()
    }

    fn expires_at(&self) -> u64 {
        self.expires_at
    }

    fn is_deleted(&self) -> bool {
        false
    }

    fn digest(&self) -> ValueDigest {
        self.key.digest
    }

    fn value(&self) -> &[u8] {
        &self.stored
    }

    fn value_bytes(&self) -> Bytes {
        self.stored.clone()
    }
}

/// The members that a walk has passed, up to a number: it passes a moving member twice.
#[derive(Default)]
struct PassedMembers {
    hasher: RandomState,
    members: HashSet<u64>,
}

impl PassedMembers {
    /// Whether the walk has not passed this member before.
    fn is_new(&mut self, member: &str) -> bool {
        let hash = self.hasher.hash_one(member);
        if self.members.len() < COMPARED_MAX { self.members.insert(hash) } else { !self.members.contains(&hash) }
    }
}

fn points_to(entry: Option<&ReverseEntry>, row: &Row) -> bool {
    entry.is_some_and(|entry| entry.held.iter().any(|held| held.key == row.key))
}

/// A member whose rows and entry do not agree.
pub fn repair(op: &OpContext, list: &ListKey, member: &str, row: Option<ItemKey>) -> Repair {
    Repair { list: list.clone(), member: member.to_owned(), row, ttl: op.ttl }
}

/// Which item of a member stays. A list that is not a set never gets here.
pub fn keep_of(list: &ListKey) -> Keep {
    list.identity().keep().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_returned_once_and_memory_is_bounded() {
        let mut passed = PassedMembers::default();
        assert_eq!(["a", "b", "a"].map(|member| passed.is_new(member)), [true, true, false]);
        let counted = (0..COMPARED_MAX + 10).filter(|n| passed.is_new(&format!("m-{n}"))).count();
        assert_eq!((counted, passed.members.len(), passed.is_new("b")), (COMPARED_MAX + 10, COMPARED_MAX, false));
    }
}
