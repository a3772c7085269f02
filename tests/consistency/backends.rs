//! The stores of a campaign on CQL and Postgres: a separate keyspace and database, and, if those must fail, a separate
//! cluster and Postgres.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fastrand::Rng;
use scylla::client::session_builder::SessionBuilder;
use tokio::sync::Mutex;

use crate::cassandra::{self, Cluster};
use crate::cuts::Cutter;
use crate::postgres::{self, Database};
use crate::proxy::Proxy;
use crate::server::Recipe;

/// The possible failures of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// SIGKILL of a Cassandra node, then a start
    NodeKill,
    /// SIGSTOP of a Cassandra node for a moment
    NodePause,
    /// Postgres ends, cleanly or not, and is started again
    PostgresRestart,
    /// Postgres is silent for a moment; then old connections continue, or only new ones work
    PostgresHang,
    /// Connections to Cassandra break for a moment, most of them between a commit and its answer
    Cut,
}

/// Long enough that operations encounter it, shorter than most deadlines, and longer than some.
const FAILURE_TIME_MS: std::ops::Range<u64> = 300..3_000;
/// For how long connections are cut: each cut takes some tens of milliseconds.
const CUT_TIME_MS: std::ops::Range<u64> = 200..1_200;

pub struct Backends {
    keyspace: Option<Keyspace>,
    /// Where servers reach the nodes.
    contact_points: Vec<String>,
    cutter: Option<Cutter>,
    postgres_url: String,
    // Dropped before the server that it is in.
    _database: Database,
    own: Option<Own>,
    /// One failure at a time.
    failing: Mutex<()>,
}

/// The processes that may be ended and frozen, because no other test uses them.
struct Own {
    cluster: Cluster,
    postgres: postgres::Server,
    proxy: Proxy,
}

impl Backends {
    /// With `own_nodes`, a cluster of this many nodes and a separate Postgres; otherwise the shared ones. With `cuts`,
    /// servers reach the nodes through a proxy.
    pub async fn start(own_nodes: Option<usize>, cuts: bool) -> Result<Self, String> {
        let mut backends = Self::direct(own_nodes).await?;
        if cuts {
            let cutter = Cutter::before(&backends.contact_points).await?;
            backends.contact_points = cutter.contact_points.clone();
            backends.cutter = Some(cutter);
        }
        Ok(backends)
    }

    async fn direct(own_nodes: Option<usize>) -> Result<Self, String> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("consistency_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let Some(nodes) = own_nodes else {
            let contact_points = tokio::task::spawn_blocking(cassandra::shared).await.map_err(|e| e.to_string())?;
            let database = Database::create().await;
            let keyspace = Some(Keyspace { name, contact_points: contact_points.clone() });
            let postgres_url = database.url.clone();
            let failing = Mutex::default();
            let (cutter, own) = (None, None);
            return Ok(Self { keyspace, contact_points, cutter, postgres_url, _database: database, own, failing });
        };
        let started = tokio::task::spawn_blocking(move || {
            // A killed node must have its acknowledged writes when it returns: that is a promise of the server, not of
            // Cassandra.
            (Cluster::start(&["--nodes", &nodes.to_string(), "--durable"]), postgres::Server::start())
        });
        let (cluster, server) = started.await.map_err(|e| e.to_string())?;
        let database = Database::create_in(&server.url, "").await;
        let address = postgres::address_of(&database.url);
        let proxy = Proxy::start(address.clone()).await;
        Ok(Self {
            keyspace: None,
            contact_points: cluster.contact_points.clone(),
            cutter: None,
            postgres_url: database.url.replace(&address, &proxy.address.to_string()),
            _database: database,
            own: Some(Own { cluster, postgres: server, proxy }),
            failing: Mutex::default(),
        })
    }

    /// A server's settings.
    pub fn configure(&self, recipe: Recipe) -> Recipe {
        let keyspace = self.keyspace.as_ref().map_or("consistency", |keyspace| &keyspace.name);
        recipe
            .set("ITEMS__STORE", "cql")
            .set("ITEMS__CQL__CONTACT_POINTS", self.contact_points.join(","))
            .set("ITEMS__CQL__KEYSPACE", keyspace)
            .set("ITEMS__CQL__REPLICATION_FACTOR", self.contact_points.len())
            .set("METADATA__STORE", "postgres")
            .set("METADATA__POSTGRES__URL", &self.postgres_url)
    }

    /// Makes it fail, and work again.
    pub async fn fail(self: &Arc<Self>, failure: Failure, rng: &mut Rng) -> Result<(), String> {
        let _alone = self.failing.lock().await;
        if failure == Failure::Cut {
            let cutter = self.cutter.as_ref().ok_or("there is no proxy that could cut connections")?;
            cutter.cut();
            tokio::time::sleep(Duration::from_millis(rng.u64(CUT_TIME_MS))).await;
            cutter.heal();
            return Ok(());
        }
        let Some(own) = &self.own else { return Err("shared servers are not made to fail".to_owned()) };
        let (node, time) = (rng.usize(1..=self.contact_points.len()), Duration::from_millis(rng.u64(FAILURE_TIME_MS)));
        match failure {
            Failure::NodeKill => {
                self.pass(time, move |own| own.cluster.kill(node), move |own| own.cluster.start_node(node)).await
            }
            Failure::NodePause => {
                self.pass(time, move |own| own.cluster.pause(node), move |own| own.cluster.resume(node)).await
            }
            Failure::PostgresRestart => {
                let down = if rng.bool() { postgres::Server::kill } else { postgres::Server::stop };
                self.pass(time, move |own| down(&own.postgres), |own| own.postgres.start_again()).await
            }
            Failure::PostgresHang => {
                own.proxy.hang();
                tokio::time::sleep(time).await;
                if rng.bool() {
                    own.proxy.go_on()
                } else {
                    own.proxy.go_on_with_new()
                }
                Ok(())
            }
            // Connections to Cassandra are no server's own.
            Failure::Cut => Ok(()),
        }
    }

    async fn pass(
        self: &Arc<Self>,
        time: Duration,
        begin: impl FnOnce(&Own) + Send + 'static,
        end: impl FnOnce(&Own) + Send + 'static,
    ) -> Result<(), String> {
        self.blocking(begin).await?;
        tokio::time::sleep(time).await;
        self.blocking(end).await
    }

    /// The scripts are waited for.
    async fn blocking(self: &Arc<Self>, act: impl FnOnce(&Own) + Send + 'static) -> Result<(), String> {
        let this = Arc::clone(self);
        let acting = tokio::task::spawn_blocking(move || this.own.as_ref().map(act));
        acting.await.map(|_| ()).map_err(|e| e.to_string())
    }
}

/// A keyspace on a shared node, dropped with this.
struct Keyspace {
    name: String,
    contact_points: Vec<String>,
}

impl Drop for Keyspace {
    fn drop(&mut self) {
        let (name, contact_points) = (self.name.clone(), self.contact_points.clone());
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                if let Ok(driver) = SessionBuilder::new().known_nodes(contact_points).build().await {
                    let _ = driver.query_unpaged(format!("DROP KEYSPACE IF EXISTS \"{name}\""), ()).await;
                }
            });
        });
        let _ = dropping.join();
    }
}
