//! The rows of a cluster, and the writes to them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound::{Excluded, Included};
use std::sync::Arc;

use bytes::Bytes;

use super::Fault;
use super::table::{Cell, Content, Partition};
use super::values::{blob, int, long, text, texts};
use crate::items::cql::partitions::{BagPut, SwapAnswer};
use crate::items::cql::statements::buckets::BucketStatement;
use crate::items::cql::statements::lists::ListStatement;
use crate::items::cql::statements::sets::SetStatement;
use crate::items::cql::statements::{Name, Query, Value};

/// The tables of lists. Bags have their own map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Table {
    Items,
    Members,
    Buckets,
}

/// How a cluster cuts its pages, and when it refuses reads.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Rows and tombstones of one page.
    pub scanned_max: usize,
    /// Tombstones of one page; a page with more is refused.
    pub tombstones_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { scanned_max: usize::MAX, tombstones_max: usize::MAX }
    }
}

#[derive(Default)]
pub(super) struct State {
    pub(super) partitions: BTreeMap<(Table, String, String), Partition>,
    pub(super) bags: HashMap<(String, String), StoredBag>,
    pub(super) limits: Limits,
    pub(super) faults: VecDeque<Fault>,
    /// The statement of each attempt.
    pub(super) attempts: Vec<Name>,
    /// The rows of all pages.
    pub(super) rows_sent: usize,
}

pub(super) struct StoredBag {
    pub(super) put: Arc<BagPut>,
    pub(super) expires: u64,
}

impl State {
    fn of(&mut self, table: Table, query: &Query<'_>) -> &mut Partition {
        let [feature_key, entity_id] = query.partition.unwrap();
        self.partitions.entry((table, feature_key.to_owned(), entity_id.to_owned())).or_default()
    }

    pub(super) fn write(&mut self, query: &Query<'_>, now: u64) {
        let (values, timestamp) = (query.values(), query.timestamp().unwrap_or_default());
        let cell = |content, ttl: i32, written| Cell { content, written, expires: now + u64::try_from(ttl).unwrap() };
        let at = |kind, key: &str| (kind, key.to_owned());
        match query.name {
            Name::List(name) => {
                let partition = self.of(Table::Items, query);
                match name {
                    ListStatement::Add => {
                        let content = Content::Bytes(Bytes::copy_from_slice(blob(values, 1)));
                        partition.put(at("", text(values, 0)), 0, cell(content, int(values, 2), long(values, 3)));
                    }
                    ListStatement::Delete => {
                        let keys = texts(values, 0).iter();
                        keys.for_each(|key| partition.delete_row(at("", key), timestamp));
                    }
                    ListStatement::DeleteBetween => {
                        let (lower, upper) = (at("", text(values, 0)), at("", text(values, 1)));
                        partition.delete_range(Included(lower), Excluded(upper), timestamp);
                    }
                    ListStatement::DeleteGap => {
                        let (lower, upper) = (at("", text(values, 0)), at("", text(values, 1)));
                        partition.delete_range(Excluded(lower), Excluded(upper), timestamp);
                    }
                    ListStatement::Clear => partition.delete(timestamp),
                    other => panic!("{other:?} is no write"),
                }
            }
            Name::Set(name) => {
                let partition = self.of(Table::Members, query);
                match name {
                    SetStatement::AddRow => {
                        let content = Content::Text(text(values, 1).to_owned());
                        partition.put(at("item", text(values, 0)), 0, cell(content, int(values, 2), long(values, 3)));
                    }
                    SetStatement::AddEntry => {
                        let Value::Item(item) = values[3] else { panic!("{values:?}") };
                        let cell = cell(Content::Item(item.clone()), int(values, 0), long(values, 1));
                        partition.put(at("member", text(values, 6)), int(values, 2), cell);
                    }
                    SetStatement::DeleteRow => partition.delete_row(at("item", text(values, 0)), timestamp),
                    SetStatement::DeleteEntry => {
                        partition.delete_cell(at("member", text(values, 4)), int(values, 0), long(values, 1));
                    }
                    SetStatement::DeleteEntries => {
                        let members = texts(values, 0).iter();
                        members.for_each(|member| partition.delete_row(at("member", member), timestamp));
                    }
                    SetStatement::DeleteGap => {
                        let (lower, upper) = (at("item", text(values, 0)), at("item", text(values, 1)));
                        partition.delete_range(Excluded(lower), Excluded(upper), timestamp);
                    }
                    SetStatement::Clear => partition.delete(timestamp),
                    other => panic!("{other:?} is no write"),
                }
            }
            Name::Bucket(BucketStatement::Note) => {
                let content = Content::Text(text(values, 0).to_owned());
                let place = (("", format!("{}\0{:019}", text(values, 0), long(values, 1))), 0);
                let cell = cell(content, int(values, 2), long(values, 3));
                self.of(Table::Buckets, query).put(place.0, place.1, cell);
            }
            Name::Bucket(BucketStatement::Forget) => {
                let (lower, upper) = (Included(at("", "")), Excluded(at("", text(values, 0))));
                self.of(Table::Buckets, query).delete_range(lower, upper, timestamp);
            }
            other => panic!("{other:?} is not simulated"),
        }
    }

    pub(super) fn swap(&mut self, put: Arc<BagPut>, now: u64) -> SwapAnswer {
        let place = (put.list.feature_key.as_str().to_owned(), put.list.entity_id.as_str().to_owned());
        let present = self.bags.get(&place).filter(|row| row.expires > now).map(|row| &row.put);
        let (state, states) = (present.map(|put| put.state), present.map(|put| put.states.clone()));
        let is_applied = state == put.before.state && states == put.before.states;
        if is_applied {
            let expires = now + u64::try_from(put.ttl_secs).unwrap();
            self.bags.insert(place, StoredBag { put, expires });
        }
        SwapAnswer { is_applied, state, states }
    }
}
