//! The control plane on Postgres: definitions that all servers share.
//!
//! | file | content |
//! | --- | --- |
//! | `options` | the options of the store, and all time limits |
//! | `hosts` | the choice among the URL's servers; `metadata::postgres_url` reads the URL |
//! | `connections` | the bounded set of connections, and the end of hanging ones |
//! | `entered` | connections that may be dropped anywhere |
//! | `queries`, `rows` | the statements; rows to domain types and back |
//! | `keys`, `key_queries`, `key_rows` | the same for API keys, erasures, servers, and the complete audit trail |
//! | `jobs` | the same for jobs |
//! | `unnamed` | statements that leave nothing in a pooler's session |
//! | `transaction` | one change in one transaction |
//! | `listener` | notifications of other servers' changes |
//! | `schema`, `migrate` | the migrations, and the state of a database |
//! | `error` | the driver's errors as errors of the contract |
//!
//! No other module names the driver. List operations never use this module. They read the catalog.

mod connections;
mod entered;
mod error;
mod hosts;
mod jobs;
mod key_queries;
mod key_rows;
mod keys;
mod listener;
pub mod migrate;
mod options;
mod queries;
mod rows;
mod schema;
mod transaction;
mod unnamed;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use prometheus::{IntCounter, Registry};
use sqlx::{Connection, PgConnection};

pub use migrate::{MigrateError, MigrationReport, Step, inspect, migrate, tls};
pub use options::PostgresOptions;
pub use schema::{Inspection, SchemaState};

use self::connections::Connections;
use self::error::Failure;
use self::hosts::Hosts;
use self::listener::Listener;
use self::options::{BEGIN, BEGIN_LOAD, BEGIN_SNAPSHOT, CALL_TIME_MAX, LOAD_TIME_MAX};
use self::transaction::{ChangeOutcome, Present};
use super::postgres_url::PostgresUrl;
use super::{
    Applied, Change, ChangeContext, Changes, Definitions, EachDefinition, FeatureFilter, HistoryEntry, LastGeneration,
    MetadataError, MetadataStore, News, Page, change,
};
use crate::definition::Feature;
use crate::domain::{EntityType, FeatureId, Limit, Revision};

/// With more changed features than this, the catalog reads all definitions.
const CHANGES_MAX: usize = 2_000;
/// The name of servers' connections in Postgres.
const APPLICATION_NAME: &str = "liststore";
const CLOSE_TIME_MAX: Duration = Duration::from_secs(2);

/// The URL in a file, without the white space at its ends.
pub fn read_url(file: &Path) -> Result<String, MetadataError> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        error::unavailable(format!("cannot read metadata.postgres.url_file, {}: {error}", file.display()))
    })?;
    Ok(text.trim().to_owned())
}

/// A name of the URL's database that distinguishes it from others and contains no secret.
pub fn database_named(url: &str) -> String {
    match PostgresUrl::parse(url).ok().and_then(|url| url.database) {
        Some(name) => format!("postgres database \"{name}\""),
        None => "postgres' default database".to_owned(),
    }
}

/// Definitions in a Postgres that other servers use too.
pub struct PostgresStore {
    connections: Connections,
    listener: Listener,
    collisions: IntCounter,
}

impl PostgresStore {
    /// Does not connect yet, so that a server may start while Postgres is unavailable. Must be called on a tokio
    /// runtime.
    ///
    /// The first call that reaches Postgres refuses a foreign schema, and so does every later call until the schema is
    /// supported.
    pub fn open(options: &PostgresOptions, registry: &Registry) -> Result<Self, MetadataError> {
        let hosts = Hosts::parse(&options.url, APPLICATION_NAME)?;
        let hosts = Arc::new(match &options.url_file {
            Some(file) => hosts.of_file(file.clone(), &options.url, APPLICATION_NAME),
            None => hosts,
        });
        Self::with_metrics(options, hosts, registry)
            .map_err(|error| MetadataError::Internal { reason: error.to_string(), outcome_unknown: false })
    }

    fn with_metrics(options: &PostgresOptions, hosts: Arc<Hosts>, registry: &Registry) -> prometheus::Result<Self> {
        let collisions = IntCounter::new(
            "liststore_metadata_postgres_collisions_total",
            "Changes that Postgres rolled back because of conflicts; they were retried.",
        )?;
        registry.register(Box::new(collisions.clone()))?;
        // One connection listens.
        let connections = Connections::new(Arc::clone(&hosts), options.connections_max.max(2) - 1, registry)?;
        let listener = Listener::new(hosts, options.poll_interval, registry)?;
        Ok(Self { connections, listener, collisions })
    }
}

#[async_trait]
impl MetadataStore for PostgresStore {
    async fn apply(&self, change: Change, context: ChangeContext) -> Result<Applied, MetadataError> {
        let decide = |present: &Present| {
            let Present { feature, last_generation, revision } = present;
            change::decide(change.clone(), feature.as_ref(), *last_generation, *revision, context.clone())
        };
        let created = change.created();
        let (connections, collisions) = (&self.connections, &self.collisions);
        let ChangeOutcome { before, transition } =
            transaction::change(connections, collisions, change.feature(), created.as_ref(), &decide).await?;
        Ok(Applied::new(&change, before, transition))
    }

    async fn apply_together(&self, changes: Vec<(Change, ChangeContext)>) -> Vec<Result<Applied, MetadataError>> {
        let mut outcomes = Vec::with_capacity(changes.len());
        for (change, context) in changes {
            outcomes.push(self.apply(change, context).await);
        }
        outcomes
    }

    fn together_max(&self) -> usize {
        1
    }

    async fn settle(&self) -> Result<(), MetadataError> {
        Ok(())
    }

    async fn feature(&self, id: &FeatureId) -> Result<Option<Feature>, MetadataError> {
        let read = async {
            let mut lease = self.connections.lease().await?;
            let found = read_feature(&mut lease, id).await;
            self.connections.conclude(lease, found)
        };
        self.connections.within(CALL_TIME_MAX, read).await
    }

    async fn features(
        &self,
        filter: &FeatureFilter,
        after: Option<&FeatureId>,
        page_size: Limit,
    ) -> Result<Page<Feature>, MetadataError> {
        // No text of a definition contains NUL, and Postgres rejects a query with one.
        if filter.text.as_ref().is_some_and(|text| text.contains('\0')) {
            return Ok(Page { entries: Vec::new(), more: false });
        }
        let read = async {
            let mut lease = self.connections.lease().await?;
            let page = read_features(&mut lease, filter, after, page_size).await;
            self.connections.conclude(lease, page)
        };
        self.connections.within(CALL_TIME_MAX, read).await
    }

    async fn history(
        &self,
        id: &FeatureId,
        before: Option<Revision>,
        page_size: Limit,
    ) -> Result<Option<Page<HistoryEntry>>, MetadataError> {
        let read = async {
            let mut lease = self.connections.lease().await?;
            let page = read_history(&mut lease, id, before, page_size).await;
            self.connections.conclude(lease, page)
        };
        self.connections.within(CALL_TIME_MAX, read).await
    }

    async fn each_definition(&self, each: &mut EachDefinition<'_>) -> Result<Revision, MetadataError> {
        let read = async {
            let mut lease = self.connections.lease_in_background().await?;
            let definitions = read_definitions(&mut lease).await;
            self.connections.conclude(lease, definitions)
        };
        let read = self.connections.within_in_background(LOAD_TIME_MAX, read);
        let Definitions { revision, features } = read.await?;
        let count = features.len();
        for feature in features {
            each(&feature, count);
        }
        Ok(revision)
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn news(&self) -> News {
        self.listener.news(&self.connections).await
    }

    async fn changes(&self, since: Revision) -> Result<Option<Changes>, MetadataError> {
        let read = async {
            let mut lease = self.connections.lease_in_background().await?;
            let changes = read_changes(&mut lease, since).await;
            self.connections.conclude(lease, changes)
        };
        self.connections.within_in_background(CALL_TIME_MAX, read).await
    }

    async fn generations(&self, entity_type: &EntityType) -> Result<Vec<LastGeneration>, MetadataError> {
        let read = async {
            let mut lease = self.connections.lease().await?;
            let found = read_generations(&mut lease, entity_type).await;
            self.connections.conclude(lease, found)
        };
        self.connections.within(CALL_TIME_MAX, read).await
    }

    async fn close(&self) {
        self.connections.close(CLOSE_TIME_MAX).await;
    }
}

// All work happens in transactions. A pooler may give each transaction another session of Postgres. Sessions share
// their settings with other clients, and a statement prepared in one is missing in the others.

async fn read_feature(connection: &mut PgConnection, id: &FeatureId) -> Result<Option<Feature>, Failure> {
    let mut transaction = connection.begin_with(BEGIN).await?;
    let found = queries::feature(&mut transaction, id).await?;
    transaction.commit().await?;
    Ok(found)
}

async fn read_features(
    connection: &mut PgConnection,
    filter: &FeatureFilter,
    after: Option<&FeatureId>,
    page_size: Limit,
) -> Result<Page<Feature>, Failure> {
    let mut transaction = connection.begin_with(BEGIN).await?;
    let page = queries::features(&mut transaction, filter, after, page_size).await?;
    transaction.commit().await?;
    Ok(page)
}

async fn read_history(
    connection: &mut PgConnection,
    id: &FeatureId,
    before: Option<Revision>,
    page_size: Limit,
) -> Result<Option<Page<HistoryEntry>>, Failure> {
    let mut transaction = connection.begin_with(BEGIN).await?;
    let page = queries::history(&mut transaction, id, before, page_size).await?;
    transaction.commit().await?;
    Ok(page)
}

async fn read_generations(
    connection: &mut PgConnection,
    entity_type: &EntityType,
) -> Result<Vec<LastGeneration>, Failure> {
    let mut transaction = connection.begin_with(BEGIN).await?;
    let found = queries::generations(&mut transaction, entity_type).await?;
    transaction.commit().await?;
    Ok(found)
}

async fn read_definitions(connection: &mut PgConnection) -> Result<Definitions, Failure> {
    let mut snapshot = connection.begin_with(BEGIN_LOAD).await?;
    let revision = queries::revision(&mut snapshot).await?;
    let features = queries::definitions(&mut snapshot).await?;
    snapshot.commit().await?;
    Ok(Definitions { revision, features })
}

/// `None` if the history does not show it: then the caller must read everything.
async fn read_changes(connection: &mut PgConnection, since: Revision) -> Result<Option<Changes>, Failure> {
    let mut snapshot = connection.begin_with(BEGIN_SNAPSHOT).await?;
    let revision = queries::revision(&mut snapshot).await?;
    if revision == since {
        snapshot.commit().await?;
        return Ok(Some(Changes { revision, features: Vec::new() }));
    }
    let (ids, count) = queries::changes(&mut snapshot, since, CHANGES_MAX as i64).await?;
    // Every revision has one entry. If entries are missing, or the revision went back after a restore, the history has
    // no path between the two revisions.
    let count = count + key_queries::other_changes(&mut snapshot, since).await?;
    let complete = revision.0.checked_sub(since.0) == Some(count) && ids.len() < CHANGES_MAX;
    let present = if complete { queries::changed_features(&mut snapshot, since).await? } else { Vec::new() };
    snapshot.commit().await?;
    if !complete {
        return Ok(None);
    }
    let with_presence = |id: FeatureId| {
        // The database has the same order as this program, by bytes.
        let feature = present.binary_search_by(|feature| feature.id.cmp(&id)).ok().map(|place| present[place].clone());
        (id, feature)
    };
    Ok(Some(Changes { revision, features: ids.into_iter().map(with_presence).collect() }))
}
