//! The directory of a list: which buckets it has.

use std::collections::VecDeque;
use std::sync::Arc;

use scylla::statement::batch::BatchType;

use crate::domain::{Bucket, ListKey, Order, Timestamp};
use crate::items::cql::call::{Call, Pages, Subject};
use crate::items::cql::layouts::keys::slice;
use crate::items::cql::notes::noted_buckets::HELD;
use crate::items::cql::statements::buckets::BucketStatement;
use crate::items::cql::statements::{Query, Statement, Writes};
use crate::items::{Bounds, StoreError};

/// Names of the first page, and of the following ones: most reads need one or two.
const FIRST_NAMES: usize = 32;
const MORE_NAMES: usize = 1_000;

/// Below and above all names.
const LOWEST: &str = "";
const HIGHEST: &str = "~";

/// The partition of a bucket, as a list.
pub fn partition(list: &ListKey, name: &str) -> ListKey {
    ListKey::new(list.feature_key.in_bucket(name), list.entity_id.clone())
}

/// The names of a list's buckets, in order, read on demand.
pub struct Names {
    order: Order,
    /// Between which names those lie that were not read yet: the upper one is exclusive.
    lower: String,
    upper: String,
    known: VecDeque<String>,
    last: Option<String>,
    rows_max: usize,
    is_whole: bool,
}

impl Names {
    /// The names of buckets that can have items between two item keys.
    pub fn between(list: &ListKey, order: Order, slice: (&str, &str)) -> Self {
        let name = |key| name_at(list.bucket(), key);
        let (lower, upper) = (name(slice.0), name(slice.1) + "$");
        Self::new(order, (lower, upper))
    }

    /// All names before a name, of any kind of bucket.
    pub fn all(before: Option<&str>) -> Self {
        let bounds = (LOWEST.to_owned(), before.unwrap_or(HIGHEST).to_owned());
        Self::new(Order::Newest, bounds)
    }

    fn new(order: Order, (lower, upper): (String, String)) -> Self {
        let (known, last, rows_max, is_whole) = (VecDeque::new(), None, FIRST_NAMES, false);
        Self { order, lower, upper, known, last, rows_max, is_whole }
    }

    /// The next ones of the call's list, as many as requested if there are so many.
    pub async fn take(&mut self, call: &mut Call, count: usize) -> Result<Vec<String>, StoreError> {
        while self.known.len() < count && !self.is_whole {
            self.read_more(call).await?;
        }
        let count = count.min(self.known.len());
        Ok(self.known.drain(..count).collect())
    }

    async fn read_more(&mut self, call: &mut Call) -> Result<(), StoreError> {
        let statement = match self.order {
            Order::Newest => BucketStatement::Names,
            Order::Oldest => BucketStatement::NamesOldest,
        };
        let (lower, upper) = (self.lower.clone(), self.upper.clone());
        let query = Query::of_partition(statement, [lower.as_str().into(), upper.as_str().into()]);
        let (mut pages, mut rows) = (Pages::new(), 0);
        // A page may be cut short without being the last.
        while rows < self.rows_max
            && let Some(page) = pages.next(call, &query, self.rows_max).await?
        {
            for row in page.rows::<(&str,)>()? {
                let (name,) = row?;
                rows += 1;
                if self.last.as_deref() != Some(name) {
                    self.known.push_back(name.to_owned());
                    self.last = Some(name.to_owned());
                }
            }
        }
        self.is_whole = pages.are_over();
        // All rows of the last name have been read.
        if let Some(last) = &self.last {
            match self.order {
                Order::Newest => self.upper.clone_from(last),
                Order::Oldest => self.lower = format!("{last}$"),
            }
        }
        self.rows_max = MORE_NAMES;
        Ok(())
    }
}

/// The name of the bucket in which an item of a key is, or a bound on keys: all begin with a timestamp. A list without
/// buckets never gets here.
fn name_at(bucket: Option<Bucket>, key: &str) -> String {
    let timestamp = key.get(..Timestamp::DIGITS).and_then(|digits| Timestamp::parse(digits).ok());
    bucket.unwrap_or(Bucket::Day).name_of(timestamp.unwrap_or(Timestamp::MIN))
}

/// The partitions that a list may have items in, between two moments, including hidden items: the partitions of its
/// buckets, or the list itself.
pub async fn partitions(call: &mut Call, within: &Bounds) -> Result<Vec<ListKey>, StoreError> {
    if call.list.bucket().is_none() {
        return Ok(vec![call.list.clone()]);
    }
    let (lower, upper) = slice(within);
    let mut names = match *within {
        Bounds::ALL => Names::all(None),
        _ => Names::between(&call.list, Order::Newest, (&lower, &upper)),
    };
    let names = names.take(call, usize::MAX).await?;
    call.release();
    Ok(names.iter().map(|name| partition(&call.list, name)).collect())
}

/// Whether a partition of a list can have no items but those between two moments.
pub fn is_covered(list: &ListKey, partition: &ListKey, within: &Bounds) -> bool {
    if *within == Bounds::ALL {
        return true;
    }
    let (Some(bucket), Some(name)) = (list.bucket(), name_in(list, partition)) else { return false };
    // Names of another kind of bucket have another length.
    let is_of_kind = name.len() == bucket.name_of(within.min_timestamp).len();
    let is_elsewhere = |nanos| Timestamp::from_nanos(nanos).map_or(true, |at| bucket.name_of(at) != name);
    let before = within.min_timestamp.as_nanos().checked_sub(1);
    is_of_kind && before.is_none_or(is_elsewhere) && is_elsewhere(within.max_timestamp.as_nanos() + 1)
}

/// The name of the bucket that a partition of a list is.
fn name_in<'p>(list: &ListKey, partition: &'p ListKey) -> Option<&'p str> {
    partition.feature_key.as_str().strip_prefix(list.feature_key.as_str())?.strip_prefix('@')
}

/// The name before which a list has no items once all between two moments are removed, given the partitions that lie
/// between them: none if it may have some, or has no bucket there.
pub fn emptied_before(list: &ListKey, partitions: &[ListKey], within: &Bounds) -> Option<String> {
    let bucket = list.bucket().filter(|_| within.min_timestamp == Timestamp::MIN)?;
    // The first moment that is kept.
    let kept = Timestamp::from_nanos(within.max_timestamp.as_nanos() + 1);
    let before = kept.map_or_else(|_| HIGHEST.to_owned(), |kept| bucket.name_of(kept));
    let is_before = |partition: &&ListKey| name_in(list, partition).is_some_and(|name| name < before.as_str());
    let mut emptied = partitions.iter().filter(is_before).peekable();
    emptied.peek()?;
    emptied.all(|partition| is_covered(list, partition, within)).then_some(before)
}

/// A row of a directory that must be written: the name of the bucket, until when it must exist, in seconds since the
/// Unix epoch, and its TTL in seconds.
pub type Due = (String, i64, i32);

/// Writes rows of a list's directory, all of them or none.
pub async fn note(call: &mut Call, due: Vec<Due>, write_timestamp: i64) -> Result<(), StoreError> {
    let rows = Rows { list: call.list.clone(), due, write_timestamp };
    call.batch(Statement::NoteBuckets, BatchType::Logged, Arc::new(rows)).await
}

/// The rows of a list's directory that are written together.
struct Rows {
    list: ListKey,
    due: Vec<Due>,
    write_timestamp: i64,
}

impl Writes for Rows {
    fn queries(&self) -> Vec<Query<'_>> {
        let rows = self.due.iter().map(|(name, until, ttl)| {
            let values = [name.as_str().into(), (*until).into(), (*ttl).into(), self.write_timestamp.into()];
            Query::of_partition(BucketStatement::Note, values).with_partition(self.list.partition())
        });
        rows.collect()
    }
}

/// Forgets the buckets before a name, or all buckets, that were deleted with this write timestamp. Rows stay that are
/// so recent that newer items may rely on them.
pub async fn forget(call: &mut Call, before: Option<&str>, deleted: i64) -> Result<(), StoreError> {
    let values = [before.unwrap_or(HIGHEST).into()];
    call.write(&Query::deletion(BucketStatement::Forget, deleted - HELD - 1, values)).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{EntityId, EntityType, FeatureId, FeatureKey, FeatureName, Generation, VersionLabel};

    #[test]
    fn a_bucket_is_covered_from_its_first_to_its_last_moment() {
        let id = FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new("seen").unwrap() };
        let key = FeatureKey::new(&id, &VersionLabel::default_version(), Generation::FIRST);
        let list = ListKey::new(key.with_bucket(Some(Bucket::Month)), EntityId::new("u-1").unwrap());
        let at = |text| Timestamp::parse(text).unwrap();
        let is_covered = |name: &str, from, to| {
            let within = Bounds { min_timestamp: at(from), max_timestamp: at(to) };
            is_covered(&list, &partition(&list, name), &within)
        };
        let (first, last) = ("2024-02-01T00:00:00Z", "2024-02-29T23:59:59.999999999Z");
        assert!(is_covered("2024-02", first, last));
        assert!(!is_covered("2024-02", "2024-02-01T00:00:00.000000001Z", last));
        assert!(!is_covered("2024-02", first, "2024-02-29T23:59:59.999999998Z"));
        assert!(is_covered("2024-02", "2024-01-07T00:00:00Z", "2024-03-07T00:00:00Z"));
        assert!(!is_covered("2024", first, last) && !is_covered("2024-02-07", first, last), "of another kind");
        let from_first = Bounds { min_timestamp: Timestamp::MIN, max_timestamp: at(last) };
        let to_last = Bounds { min_timestamp: at(first), max_timestamp: Timestamp::MAX };
        for within in [from_first, to_last] {
            assert!(super::is_covered(&list, &partition(&list, "2024-02"), &within), "{within:?}");
        }
        assert!(super::is_covered(&list, &list, &Bounds::ALL) && !super::is_covered(&list, &list, &to_last));
    }

    #[test]
    fn buckets_before_the_first_kept_one_are_emptied() {
        let id = FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new("seen").unwrap() };
        let key = FeatureKey::new(&id, &VersionLabel::default_version(), Generation::FIRST);
        let list = ListKey::new(key.with_bucket(Some(Bucket::Month)), EntityId::new("u-1").unwrap());
        let at = |text| Timestamp::parse(text).unwrap();
        let emptied = |names: &[&str], from, to| {
            let partitions: Vec<_> = names.iter().map(|name| partition(&list, name)).collect();
            emptied_before(&list, &partitions, &Bounds { min_timestamp: from, max_timestamp: to })
        };
        let (middle, end) = (at("2024-03-10T00:00:00Z"), at("2024-03-31T23:59:59.999999999Z"));
        let names = ["2024-03", "2024-02", "2023-12"];
        assert_eq!(emptied(&names, Timestamp::MIN, middle).as_deref(), Some("2024-03"));
        assert_eq!(emptied(&names, Timestamp::MIN, end).as_deref(), Some("2024-04"));
        assert_eq!(emptied(&names, Timestamp::MIN, Timestamp::MAX).as_deref(), Some("~"));
        assert_eq!(emptied(&names, at("2024-01-01T00:00:00Z"), end), None, "older ones stay");
        assert_eq!(emptied(&names[..1], Timestamp::MIN, middle), None, "that one is kept in part");
        assert_eq!(emptied(&["2024-03", "2024"], Timestamp::MIN, end), None, "of another kind");
    }
}
