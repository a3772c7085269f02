//! Rebuilds the directories of lists in buckets from their items, after the table of directories was lost. No operation
//! can do this, since only a scan of all partitions finds the buckets. It adds rows to directories, and never deletes
//! any.

use std::sync::Arc;

use futures_util::TryStreamExt;
use scylla::client::session::Session;
use scylla::statement::unprepared::Statement;

use super::migrate::MigrateError;
use crate::domain::{Clock, FeatureKey};
use crate::items::cql::connect::connection_errors::unavailable;
use crate::items::cql::connect::datacenter::LocalDatacenter;
use crate::items::cql::connect::driver::{self, Completeness};
use crate::items::cql::connect::tls;
use crate::items::cql::options::CqlOptions;
use crate::items::cql::query::query;

/// Partitions, and rows of one, that are read at once.
const PAGE_ROWS: i32 = 1_000;

/// Writes a row of a directory for each bucket that has items. Returns how many there are. Servers may serve during the
/// rebuild, and it can be repeated.
pub async fn rebuild_directories(options: &CqlOptions, clock: Arc<dyn Clock>) -> Result<u64, MigrateError> {
    options.validate()?;
    let tls = options.tls.as_ref().map(|tls| tls::load(tls, &options.contact_points)).transpose()?;
    let local = Arc::new(LocalDatacenter::of(options.datacenter.as_deref()));
    let session = driver::connect(options, tls.as_ref(), &local, Completeness::SomeNodes).await?;
    let all = format!("SELECT DISTINCT feature_key, entity_id FROM \"{}\".list_items", options.keyspace);
    let pager = session.query_iter(paged(&all, options), ()).await.map_err(broke_off)?;
    let mut partitions = pager.rows_stream::<(String, String)>().map_err(broke_off)?;
    let mut buckets = 0;
    while let Some((partition, entity_id)) = partitions.try_next().await.map_err(broke_off)? {
        let Some((feature_key, name)) = partition.rsplit_once('@') else { continue };
        if FeatureKey::parse(feature_key).is_none() {
            continue;
        }
        let Some(ttl) = longest_ttl(&session, options, &partition, &entity_id).await? else { continue };
        let now = clock.now();
        let until = i64::try_from(now.as_nanos() / 1_000_000_000).unwrap_or(i64::MAX).saturating_add(i64::from(ttl));
        let written = i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
        let text = format!(
            "INSERT INTO \"{}\".list_buckets (feature_key, entity_id, bucket, until) VALUES (?, ?, ?, ?) USING TTL ? AND \
             TIMESTAMP ?",
            options.keyspace
        );
        let row = (feature_key, &entity_id, name, until, ttl, written);
        session.query_unpaged(query(&text, options.write_consistency), row).await.map_err(broke_off)?;
        buckets += 1;
    }
    Ok(buckets)
}

/// How long the last row of a partition still lives, in seconds; none where there is no row.
async fn longest_ttl(
    session: &Session,
    options: &CqlOptions,
    feature_key: &str,
    entity_id: &str,
) -> Result<Option<i32>, MigrateError> {
    let text =
        format!("SELECT TTL(value) FROM \"{}\".list_items WHERE feature_key = ? AND entity_id = ?", options.keyspace);
    let pager = session.query_iter(paged(&text, options), (feature_key, entity_id)).await.map_err(broke_off)?;
    let mut ttls = pager.rows_stream::<(Option<i32>,)>().map_err(broke_off)?;
    let mut longest = None;
    while let Some((ttl,)) = ttls.try_next().await.map_err(broke_off)? {
        longest = longest.max(ttl);
    }
    Ok(longest)
}

fn paged(text: &str, options: &CqlOptions) -> Statement {
    let mut statement = query(text, options.read_consistency);
    statement.set_page_size(PAGE_ROWS);
    statement
}

/// For the operator, who can start again.
fn broke_off(error: impl std::fmt::Display) -> MigrateError {
    let reported = format!("the bucket directories are incomplete ({error}): run this again");
    MigrateError::Cluster(unavailable(reported))
}
