//! Add List Items to a list in buckets: the directory first, and then the items.
//!
//! Items of one bucket are one mutation. Items of several buckets are one logged batch, which the database completes
//! once it has begun. It refuses large batches, so more items than fit are written bucket by bucket.

use std::collections::BTreeMap;

use super::directory::{self, Due, partition};
use crate::domain::{Bucket, ItemKey, ListKey, NewItem, Timestamp};
use crate::items::cql::call::Call;
use crate::items::cql::error::after_unknown;
use crate::items::cql::layouts::add::{self, Rows, check_size};
use crate::items::cql::ttl::row_ttl_secs;
use crate::items::{OpContext, StoreError};

/// The most that a batch over several buckets may have. Cassandra refuses one of more than 50 KiB
/// (`batch_size_fail_threshold`), ScyllaDB one of 1 MiB (`batch_size_fail_threshold_in_kb`).
const BATCH_BYTES_MAX: usize = 32 << 10;
/// The bytes of a row without its keys and its value.
const ROW_BYTES: usize = 64;

const NANOS_PER_SEC: u64 = 1_000_000_000;
/// By default Cassandra takes no row that expires in the last seconds before 2^31 or later
/// (`storage_compatibility_mode`).
const YEAR_2038: u64 = ((1 << 31) - 60) * NANOS_PER_SEC;

/// The items of one bucket.
struct Part {
    name: String,
    partition: ListKey,
    items: Vec<NewItem>,
    /// When the last of them expires, in nanoseconds since the Unix epoch.
    expires_at: u64,
    /// When the last item that the bucket can have expires.
    until: u64,
}

pub async fn add(call: &mut Call, items: &[NewItem]) -> Result<(), StoreError> {
    // A list without buckets never gets here.
    let (list, bucket) = (call.list.clone(), call.list.bucket().unwrap_or(Bucket::Day));
    let key_bytes = list.feature_key.as_str().len() + "@2026-11-23".len() + list.entity_id.as_str().len();
    let bytes_of = |item: &NewItem| key_bytes + ItemKey::TEXT_LEN + item.value.len();
    check_size(items, bytes_of).map_err(StoreError::Refused)?;
    let bytes: usize = items.iter().map(|item| bytes_of(item) + ROW_BYTES).sum();
    call.begin().await?;
    let parts = parts_of(&call.op, &list, bucket, items);
    // One timestamp for all, so that no row of the directory is older than its items.
    let write_timestamp = call.core.write_clock.next();
    note(call, &parts, write_timestamp).await.map_err(StoreError::with_nothing_done)?;
    if parts.len() == 1 || bytes <= BATCH_BYTES_MAX {
        let rows = parts.iter().map(|part| Rows::of(&part.partition, &part.items, &call.op, write_timestamp));
        return match rows.reduce(Rows::with) {
            Some(rows) => add::put_rows(call, rows).await,
            None => Ok(()),
        };
    }
    let mut begun = false;
    for Part { partition, items, .. } in &parts {
        let rows = Rows::of(partition, items, &call.op, write_timestamp);
        add::put_rows(call, rows).await.map_err(|error| after_unknown(error, begun))?;
        begun = true;
    }
    Ok(())
}

fn parts_of(op: &OpContext, list: &ListKey, bucket: Bucket, items: &[NewItem]) -> Vec<Part> {
    let mut parts: BTreeMap<String, Part> = BTreeMap::new();
    for item in items {
        let name = bucket.name_of(item.timestamp);
        let part = parts.entry(name).or_insert_with_key(|name| Part {
            name: name.clone(),
            partition: partition(list, name),
            items: Vec::new(),
            expires_at: 0,
            until: until(bucket, op, item.timestamp),
        });
        part.expires_at = part.expires_at.max(item.expires_at);
        part.items.push(item.clone());
    }
    parts.into_values().collect()
}

/// When the last item expires that a bucket can have under the present TTL.
fn until(bucket: Bucket, op: &OpContext, at: Timestamp) -> u64 {
    bucket.end_of(at).saturating_add(op.ttl.as_secs().saturating_mul(NANOS_PER_SEC))
}

/// Writes the rows of the directory that these items need and this session has not written lately.
async fn note(call: &mut Call, parts: &[Part], write_timestamp: i64) -> Result<(), StoreError> {
    let (core, list) = (&call.core, &call.list);
    let is_due = |part: &&Part| !core.noted_buckets.holds(list, &part.name, write_timestamp, part.expires_at);
    let due: Vec<(&Part, u64, Due)> = parts.iter().filter(is_due).filter_map(|part| due(&call.op, part)).collect();
    if due.is_empty() {
        return Ok(());
    }
    let rows = due.iter().map(|(_, _, row)| row.clone()).collect();
    directory::note(call, rows, write_timestamp).await?;
    for (part, until, _) in due {
        call.core.noted_buckets.written(&call.list, &part.name, write_timestamp, until);
    }
    Ok(())
}

/// The row of the directory that the items of a part need, and its expiry; none if all have expired.
fn due<'a>(op: &OpContext, part: &'a Part) -> Option<(&'a Part, u64, Due)> {
    let until = match part.until.max(part.expires_at) {
        late if late > YEAR_2038 && part.expires_at <= YEAR_2038 => YEAR_2038,
        until => until,
    };
    let ttl = row_ttl_secs(until, op.now)?;
    // TTLs have an upper bound. A row with the largest TTL is written again before items rely on it for longer.
    let held_until = op.now.as_nanos().saturating_add(u64::try_from(ttl).unwrap_or(0).saturating_mul(NANOS_PER_SEC));
    let secs = i64::try_from(until.div_ceil(NANOS_PER_SEC)).unwrap_or(i64::MAX);
    Some((part, until.min(held_until), (part.name.clone(), secs, ttl)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;
    use crate::domain::{EntityId, EntityType, FeatureId, FeatureKey, FeatureName, Generation, Ttl, VersionLabel};

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    fn parts(op: &OpContext, bucket: Bucket, timestamps: &[&str]) -> Vec<Part> {
        let id = FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new("seen").unwrap() };
        let key = FeatureKey::new(&id, &VersionLabel::default_version(), Generation::FIRST).with_bucket(Some(bucket));
        let list = ListKey::new(key, EntityId::new("u-1").unwrap());
        let item = |text: &&str| {
            let timestamp = at(text);
            NewItem { timestamp, value: "v".into(), expires_at: op.ttl.expiry_of(timestamp) }
        };
        parts_of(op, &list, bucket, &timestamps.iter().map(item).collect::<Vec<_>>())
    }

    fn op(now: &str, days: u64) -> OpContext {
        let ttl = Ttl::from_secs(days * 86_400).unwrap();
        OpContext::new(at(now), ttl, Instant::now() + Duration::from_secs(1))
    }

    #[test]
    fn items_are_added_to_their_buckets() {
        let op = op("2026-11-23T00:00:00Z", 30);
        let parts = parts(
            &op,
            Bucket::Month,
            &["2026-11-30T23:59:59.999999999Z", "2026-12-01T00:00:00Z", "2026-11-02T00:00:00Z"],
        );
        let reported: Vec<_> =
            parts.iter().map(|part| (part.partition.feature_key.as_str(), part.items.len())).collect();
        assert_eq!(reported, [("user#seen|@2026-11", 2), ("user#seen|@2026-12", 1)]);
        assert_eq!(parts[0].until, at("2026-12-31T00:00:00Z").as_nanos(), "thirty days after its end");
        let (_, until, (name, secs, ttl)) = due(&op, &parts[0]).unwrap();
        assert_eq!((name.as_str(), until), ("2026-11", parts[0].until));
        assert_eq!(u64::try_from(secs).unwrap() * NANOS_PER_SEC, until);
        assert_eq!(ttl, 38 * 86_400 + 1);
    }

    #[test]
    fn a_directory_row_has_at_most_the_longest_ttl_of_the_database() {
        let op = op("2037-06-01T00:00:00Z", 100);
        let found = parts(&op, Bucket::Year, &["2037-06-01T00:00:00Z"]);
        assert!(found[0].until > YEAR_2038);
        assert_eq!(due(&op, &found[0]).unwrap().1, YEAR_2038);
        let late = parts(&op, Bucket::Year, &["2037-12-01T00:00:00Z"]);
        assert_eq!(due(&op, &late[0]).unwrap().1, late[0].until, "it shares the fate of its items");
    }

    #[test]
    fn a_directory_row_counts_only_while_it_lives() {
        let op = op("2050-01-01T00:00:00Z", 7_300);
        let found = parts(&op, Bucket::Year, &["2050-01-01T00:00:00Z"]);
        let (_, until, (_, secs, ttl)) = due(&op, &found[0]).unwrap();
        assert_eq!(ttl, 630_720_000);
        assert!(until < u64::try_from(secs).unwrap() * NANOS_PER_SEC && until >= found[0].expires_at);
    }
}
