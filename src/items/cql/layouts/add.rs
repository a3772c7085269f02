//! Add List Items: one logged batch on one partition, which the databases carry out as one mutation; of a list that is
//! kept in buckets (`buckets/add.rs`), on several. On ScyllaDB an add of one item is a separate statement, which can
//! carry its deadline.

use std::sync::Arc;

use bytes::Bytes;
use scylla::statement::batch::BatchType;

use crate::domain::{ADD_ITEMS_MAX, EntityId, FeatureKey, Invalid, ItemKey, ListKey, NewItem, ValueDigest};
use crate::items::cql::call::Call;
use crate::items::cql::statements::lists::ListStatement;
use crate::items::cql::statements::{Query, Statement, Writes};
use crate::items::cql::ttl::row_ttl_secs;
use crate::items::{OpContext, StoreError};

/// The most that one add may have in keys and values. A mutation must fit in half a commit log
/// segment and a request in a frame: 16 MiB each by Cassandra's defaults
/// (`commitlog_segment_size: 32MiB`, `native_transport_max_frame_size: 16MiB`), 32 MiB by
/// ScyllaDB's; a quarter of that leaves room for clusters that are set lower, and for latency.
pub const ADD_BYTES_MAX: usize = 4 << 20;

/// The rows of one add, all with one write timestamp and each with its own TTL.
#[derive(Debug)]
pub struct Rows {
    entity_id: EntityId,
    /// Feature key, item key, value, and TTL in seconds.
    items: Vec<(FeatureKey, String, Bytes, i32)>,
    write_timestamp: i64,
}

impl Rows {
    pub fn of(list: &ListKey, items: &[NewItem], op: &OpContext, write_timestamp: i64) -> Self {
        let items = items
            .iter()
            .filter_map(|item| {
                // An item that has expired has no row: CQL would take its TTL of 0 for "never expire".
                let ttl = row_ttl_secs(item.expires_at, op.now)?;
                let key = ItemKey::new(item.timestamp, ValueDigest::of(&item.value)).to_string();
                Some((list.feature_key.clone(), key, item.value.clone(), ttl))
            })
            .collect();
        Self { entity_id: list.entity_id.clone(), items, write_timestamp }
    }

    /// These and others of the same entity and write timestamp.
    pub fn with(mut self, mut others: Self) -> Self {
        self.items.append(&mut others.items);
        self
    }
}

impl Writes for Rows {
    fn queries(&self) -> Vec<Query<'_>> {
        let rows = self.items.iter().map(|(feature_key, key, value, ttl)| {
            let values = [key.as_str().into(), (&value[..]).into(), (*ttl).into(), self.write_timestamp.into()];
            let partition = [feature_key.as_str(), self.entity_id.as_str()];
            Query::of_partition(ListStatement::Add, values).with_partition(Some(partition))
        });
        rows.collect()
    }
}

pub async fn add(call: &mut Call, items: &[NewItem]) -> Result<(), StoreError> {
    let list = &call.list;
    let key_bytes = list.feature_key.as_str().len() + list.entity_id.as_str().len() + ItemKey::TEXT_LEN;
    check_size(items, |item| key_bytes + item.value.len()).map_err(StoreError::Refused)?;
    call.begin().await?;
    let written = call.core.write_clock.next();
    put(call, items, written).await
}

/// The same with a write timestamp that is given.
pub async fn put(call: &mut Call, items: &[NewItem], write_timestamp: i64) -> Result<(), StoreError> {
    let rows = Rows::of(&call.list, items, &call.op, write_timestamp);
    put_rows(call, rows).await
}

/// Writes rows, all of them or none.
pub async fn put_rows(call: &mut Call, rows: Rows) -> Result<(), StoreError> {
    if rows.items.is_empty() {
        return Ok(());
    }
    call.batch(Statement::Add, BatchType::Logged, Arc::new(rows)).await
}

/// Refuses an add that is too large, given the bytes that each item takes.
pub fn check_size(items: &[NewItem], bytes_of: impl Fn(&NewItem) -> usize) -> Result<(), Invalid> {
    if items.len() > ADD_ITEMS_MAX {
        return Err(Invalid::argument(format!(
            "an add must have at most {ADD_ITEMS_MAX} items; this one has {}: split it",
            items.len()
        )));
    }
    let bytes: usize = items.iter().map(bytes_of).sum();
    if bytes > ADD_BYTES_MAX {
        return Err(Invalid::argument(format!(
            "the keys and values of an add must have at most {ADD_BYTES_MAX} bytes; these have {bytes}: split it"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;
    use crate::domain::{EntityType, FeatureId, FeatureName, Generation, Timestamp, Ttl, VersionLabel};

    fn list() -> ListKey {
        let id = FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new("seen").unwrap() };
        let key = FeatureKey::new(&id, &VersionLabel::new("").unwrap(), Generation::FIRST);
        ListKey::new(key, EntityId::new("u-1").unwrap())
    }

    fn item(nanos: u64, value: Bytes, expires_at: u64) -> NewItem {
        NewItem { timestamp: Timestamp::from_nanos(nanos).unwrap(), value, expires_at }
    }

    #[test]
    fn every_row_has_one_write_timestamp_and_its_own_ttl() {
        let now = Timestamp::from_nanos(1_000_000_000).unwrap();
        let op = OpContext::new(now, Ttl::from_secs(60).unwrap(), Instant::now() + Duration::from_secs(1));
        let items = [
            item(7, Bytes::from_static(b""), 1_000_000_001),
            item(8, Bytes::from_static(b"v"), 61_000_000_000),
            item(9, Bytes::from_static(b"gone"), 1_000_000_000),
        ];
        let rows = Rows::of(&list(), &items, &op, 42);
        let texts: Vec<_> = rows.queries().iter().map(|row| (row.partition, format!("{:?}", row.values()))).collect();
        let partition = Some(["user#seen|", "u-1"]);
        let (first, second) = (
            r#"[Text("0000000000000000007#1B2M2Y8AsgTpgAmY7PhCfg=="), Bytes([]), Int(2), Long(42)]"#,
            r#"[Text("0000000000000000008#njZp0ZtnW9VwWP1GZCBdKg=="), Bytes([118]), Int(61), Long(42)]"#,
        );
        assert_eq!(texts, [(partition, first.to_owned()), (partition, second.to_owned())]);
    }

    #[test]
    fn an_add_may_have_at_most_four_mebibytes() {
        let value = Bytes::from(vec![0; 64_000]);
        let row = 64_000 + 44 + "user#seen|u-1".len();
        let bytes_of = |item: &NewItem| row - 64_000 + item.value.len();
        let fitting = ADD_BYTES_MAX / row;
        let of = |count| (0..count).map(|n| item(n as u64, value.clone(), 1)).collect::<Vec<_>>();
        assert!(check_size(&of(fitting), bytes_of).is_ok());
        assert!(check_size(&of(fitting + 1), bytes_of).unwrap_err().detail.contains("split it"));
        let small = vec![item(1, Bytes::from_static(b"v"), 1); ADD_ITEMS_MAX + 1];
        assert!(check_size(&small[1..], bytes_of).is_ok());
        assert!(check_size(&small, bytes_of).unwrap_err().detail.contains("1000 items"));
    }
}
