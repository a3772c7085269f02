//! The composition root: it turns [`Settings`] into a running application, and owns the order of start and stop.
//!
//! It also owns the actix system. Arbiters need one, and cannot run on a bare tokio runtime.

mod access;
mod agreement;
mod bootstrap;
mod bounds;
#[cfg(feature = "cql")]
mod cql;
mod error;
mod issuer_keys;
mod maintain;
mod open_files;
mod options;
#[cfg(feature = "postgres")]
mod postgres;
mod replay;
pub mod restored;
mod signals;
mod steps;
mod stores;
mod threads;
mod unreachable;
#[cfg(not(feature = "cql"))]
mod without_cql;
#[cfg(not(feature = "postgres"))]
mod without_postgres;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use crate::access::Access;
use crate::access::jwt::Issuers;
use crate::actors::{ListPool, MetadataHandle, PoolOptions};
use crate::admin_socket::{self, AdminSocket};
use crate::api::{self, ApiState, Handles, Tls};
use crate::background::{Answered, Cleaner, Jobs, Settle, Worker};
use crate::backup::{BackupScope, Backups};
use crate::config::Settings;
use crate::data_dir::DataDir;
use crate::domain::{Clock, SystemClock};
use crate::http::{self, Bound, ListenOptions, Listening};
use crate::operations::OPERATIONS;
#[cfg(target_os = "linux")]
use crate::scheduling;
use crate::telemetry::Log;
pub use error::StartError;
pub use maintain::{Finding, check, migrate, verify};
use signals::Signals;
pub use steps::Migration;
pub use stores::Stores;
#[cfg(not(feature = "cql"))]
use without_cql as cql;
#[cfg(not(feature = "postgres"))]
use without_postgres as postgres;

/// How often the start checks whether everything is ready.
const READY_CHECK_INTERVAL: Duration = Duration::from_millis(5);
/// How long a stopping server continues to serve. Each answer asks its caller to leave.
const FAREWELL: Duration = Duration::from_millis(200);
/// How long the actors may take to finish after the last request.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Stops a running application from another place, as SIGTERM does. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Stopper(Arc<watch::Sender<bool>>);

impl Stopper {
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

/// The report of a started application.
#[derive(Debug, Clone)]
pub struct Ready {
    pub url: String,
    /// The address of administration, if it is a separate one.
    pub administration_url: Option<String>,
    /// Whether callers need no API key.
    pub is_open: bool,
    /// Whether any list feature exists.
    pub has_features: bool,
    pub stopper: Stopper,
}

/// Runs the server on a new actix system until a signal or a [`Stopper`] stops it.
///
/// It calls `on_ready` once, when the server first answers `/readyz` with 200.
pub fn run(settings: Settings, log: Arc<Log>, on_ready: impl FnOnce(Ready) + 'static) -> Result<(), StartError> {
    run_with(settings, Arc::new(SystemClock), log, on_ready)
}

/// Does the same as [`run`], with another clock.
pub fn run_with(
    settings: Settings,
    clock: Arc<dyn Clock>,
    log: Arc<Log>,
    on_ready: impl FnOnce(Ready) + 'static,
) -> Result<(), StartError> {
    open_files::raise_limit(settings.http.connections_max);
    threads::require(&settings)?;
    #[cfg(target_os = "linux")]
    scheduling::take_turns();
    actix::System::new().block_on(async move {
        let mut signals = Signals::listen().map_err(StartError::Signals)?;
        let starting = async {
            let addresses = Addresses::bind(&settings)?;
            let stores = Stores::open(&settings, &clock).await?;
            Application::build_at(addresses, &settings, stores, clock, log).await
        };
        let application = tokio::select! {
            started = starting => started?,
            () = signals.next() => stopped_while_starting(),
        };
        application.serve(signals, on_ready).await;
        Ok(())
    })
}

/// Exits immediately. The server has acknowledged nothing yet, and every change that a start makes survives a crash, so
/// waiting has no benefit.
fn stopped_while_starting() -> ! {
    tracing::info!("stopped by a signal during start");
    std::process::exit(0)
}

/// The addresses of a server, bound before the start creates a directory.
pub struct Addresses {
    lists: Bound,
    administration: Option<Bound>,
}

impl Addresses {
    pub fn bind(settings: &Settings) -> Result<Self, StartError> {
        let address = settings.http.listen.to_string();
        let lists = http::bind(&address).map_err(|source| StartError::Bind { address, source })?;
        let administration = settings.admin.listen.as_ref().map(ToString::to_string).map(|address| {
            let bound = http::bind(&address);
            bound.map_err(|source| StartError::BindAdmin { address, source })
        });
        Ok(Self { lists, administration: administration.transpose()? })
    }
}

/// A listening server.
pub struct Application {
    scheme: &'static str,
    address: SocketAddr,
    server: actix_web::dev::Server,
    state: Arc<ApiState>,
    lists: ListPool,
    metadata: MetadataHandle,
    items: Arc<dyn crate::items::ItemStore>,
    backups: Backups,
    worker: Worker,
    cleaner: Cleaner,
    draining: Arc<AtomicBool>,
    access: Access,
    stopper: Stopper,
    grace: Duration,
    admin: Option<AdminSocket>,
    administration: Option<Listening>,
    drain_delay: Duration,
    /// Locked for the lifetime of the application.
    data_dir: Option<DataDir>,
}

impl Application {
    /// Binds the addresses, and builds the server on them.
    pub async fn build(
        settings: &Settings,
        stores: Stores,
        clock: Arc<dyn Clock>,
        log: Arc<Log>,
    ) -> Result<Self, StartError> {
        Self::build_at(Addresses::bind(settings)?, settings, stores, clock, log).await
    }

    /// Starts the actors, and listens. Sessions and the catalog load in the background, and `/readyz` reports their
    /// progress.
    pub async fn build_at(
        addresses: Addresses,
        settings: &Settings,
        stores: Stores,
        clock: Arc<dyn Clock>,
        log: Arc<Log>,
    ) -> Result<Self, StartError> {
        let Stores { items, metadata, registry, data_dir } = stores;
        let pool_options = PoolOptions {
            actors: settings.items.actors,
            // A store with separate permits bounds its work. Operations wait there, where equal operations share one
            // request. A connection has one operation at a time.
            permits_per_actor: match Arc::clone(&items).abilities().permits {
                Some(_) => settings.http.connections_max,
                None => settings.items.permits_per_actor,
            },
            permit_wait: Duration::from_millis(settings.items.permit_wait_ms),
            timestamp_ahead_max: settings.items.timestamp_ahead_max,
        };
        let scope = stores::backup_scope(settings, data_dir.as_ref());
        let backups = backups(scope, &items, &metadata, &clock, &registry)?;
        let entrance = access::entrance(settings, &*metadata).await?;
        let definitions = Arc::clone(&metadata);
        let metadata = MetadataHandle::start(metadata, Arc::clone(&clock), options::metadata(&settings.metadata)?)
            .await
            .map_err(|error| StartError::Metadata(error.to_string()))?;
        bootstrap::create_first_key(settings.access.bootstrap_key_file.as_deref(), &metadata).await?;
        bounds::provide(&items, metadata.catalog(), &definitions);
        let lists = ListPool::start(Arc::clone(&items), Arc::clone(&clock), pool_options, &registry)
            .map_err(StartError::Metrics)?;
        let tls = options::tls(&settings.http.tls).map(|options| Tls::open(options, &registry)).transpose()?;
        let limits = options::limits(&settings.access.rate_limits);
        let issuers = Arc::new(Issuers::new(options::issuers(&settings.access.jwt), limits));
        let (sources, times) = options::issuer_keys(&settings.access.jwt);
        issuer_keys::start_reading(&issuers, sources, times, &registry).await.map_err(StartError::Metrics)?;
        let certificates = options::certificates(&settings.access.certificates);
        let ring = metadata.key_ring().clone();
        let access = Access::new(entrance.mode, ring, issuers, certificates, limits, Arc::clone(&clock));
        let jobs = Jobs::new(metadata.clone(), Arc::clone(&clock));
        let cleaner = Cleaner::new(&registry).map_err(StartError::Metrics)?;
        let draining = Arc::new(AtomicBool::new(false));
        let state = Arc::new(
            ApiState::new(
                Handles {
                    lists: lists.clone(),
                    metadata: metadata.clone(),
                    backups: backups.clone(),
                    jobs: jobs.clone(),
                    cleaner: cleaner.clone(),
                    access: access.clone(),
                    log,
                    clock,
                },
                OPERATIONS.len(),
                registry,
                Arc::clone(&draining),
                options::service(settings),
                options::api(settings, entrance.is_insecure),
            )
            .map_err(StartError::Metrics)?,
        );
        if data_dir.is_some() {
            restored::complete(&settings.items.embedded.dir, &state, &lists, &metadata).await?;
        }
        let worker = Worker::new(jobs, lists.clone(), settle(settings), answered_by(&state));
        let grace = Duration::from_secs(settings.http.shutdown_grace_secs);
        let options = ListenOptions {
            workers: settings.http.workers,
            connections_max: settings.http.connections_max,
            shutdown_grace: grace,
            tls: tls.map(Arc::new),
        };
        let (admin, admin_listener) = open_admin_socket(settings)?.unzip();
        let listen = settings.http.listen.to_string();
        let administration = administration(settings, addresses.administration, &state, options.tls.as_ref())?;
        let Listening { server, address, scheme } =
            http::listen(Arc::clone(&state), addresses.lists, admin_listener, options)
                .map_err(|source| StartError::Bind { address: listen, source })?;
        let stopper = Stopper(Arc::new(watch::Sender::new(false)));
        Ok(Self {
            scheme,
            address,
            server,
            state,
            worker,
            cleaner,
            lists,
            metadata,
            items,
            backups,
            draining,
            access,
            stopper,
            grace,
            admin,
            administration,
            drain_delay: Duration::from_secs(settings.http.drain_delay_secs),
            data_dir,
        })
    }

    /// The report of the application once it is ready.
    pub fn about(&self) -> Ready {
        let is_open = self.access.is_open() == Some(true);
        let administration = self.administration.as_ref();
        let url = |listening: &Listening| format!("{}://{}", listening.scheme, reachable(listening.address));
        Ready {
            url: format!("{}://{}", self.scheme, reachable(self.address)),
            administration_url: administration.map(url),
            is_open,
            has_features: false,
            stopper: self.stopper.clone(),
        }
    }

    /// The state that answers requests, for another server in this process.
    pub fn state(&self) -> Arc<ApiState> {
        Arc::clone(&self.state)
    }

    /// Serves until a signal or the stopper ends it, and stops in order.
    pub async fn run_until_stopped(self, on_ready: impl FnOnce(Ready) + 'static) -> Result<(), StartError> {
        let signals = Signals::listen().map_err(StartError::Signals)?;
        self.serve(signals, on_ready).await;
        Ok(())
    }

    /// Serves until a signal or the stopper ends it, then stops in order:
    /// 1. readiness goes off;
    /// 2. a running backup ends;
    /// 3. the HTTP server answers all accepted requests;
    /// 4. the list actors stop with their sessions and arbiters;
    /// 5. the item store closes;
    /// 6. the metadata actor and its store stop.
    async fn serve(self, mut signals: Signals, on_ready: impl FnOnce(Ready) + 'static) {
        let (about, access) = (self.about(), self.access.clone());
        let Self { server, lists, metadata, items, backups, worker, cleaner, draining, stopper, grace, .. } = self;
        let (admin, data_dir) = (self.admin, self.data_dir);
        let administration = self.administration.map(|listening| {
            let handle = listening.server.handle();
            (handle, actix::spawn(listening.server))
        });
        let handle = server.handle();
        let serving = actix::spawn(server);
        let working = actix::spawn(worker.run());
        let cleaning = actix::spawn(cleaner.run(metadata.clone(), lists.clone()));
        let announced = actix::spawn(announce(about, access, lists.clone(), metadata.clone(), on_ready));
        stop_requested(&stopper, &mut signals).await;
        tracing::info!(drain_delay_secs = self.drain_delay.as_secs(), "stopping: finishing open requests");
        actix::spawn(second_signal_exits(signals));
        announced.abort();
        // A job continues after the next start, or on another server.
        working.abort();
        cleaning.abort();
        draining.store(true, Ordering::Release);
        let farewell = tokio::time::Instant::now() + self.drain_delay.max(FAREWELL);
        if tokio::time::timeout(DRAIN_TIMEOUT, backups.stop()).await.is_err() {
            tracing::warn!("server stopped during a backup");
        }
        // A stopping HTTP server closes idle connections without reading new data from them. Before that, busy callers
        // leave on their own, and load balancers notice the stop.
        tokio::time::sleep_until(farewell).await;
        handle.stop(true).await;
        if let Ok(Err(error)) = serving.await {
            tracing::error!(%error, "the HTTP server failed");
        }
        // The data directory is still locked, so the socket cannot belong to the next server.
        drop(admin);
        if !lists.stop(grace.min(DRAIN_TIMEOUT)).await {
            tracing::warn!("server stopped with list operations in flight: the outcome of their writes is unknown");
        }
        if let Err(error) = items.close().await {
            tracing::error!(%error, "the item store did not close cleanly");
        }
        metadata.stop(DRAIN_TIMEOUT).await;
        // Stops last, so that probes can follow the stop.
        if let Some((handle, serving)) = administration {
            handle.stop(false).await;
            let _ended = serving.await;
        }
        drop(data_dir);
        tracing::info!("stopped");
    }
}

/// Backups of the stores, with the metric of their age.
fn backups(
    scope: BackupScope,
    items: &Arc<dyn crate::items::ItemStore>,
    metadata: &Arc<dyn crate::metadata::MetadataStore>,
    clock: &Arc<dyn Clock>,
    registry: &prometheus::Registry,
) -> Result<Backups, StartError> {
    let backup = Arc::clone(items).abilities().backup;
    let backups = Backups::new(scope, backup, Arc::clone(metadata), Arc::clone(clock));
    backups.register(registry).map_err(StartError::Metrics)?;
    Ok(backups)
}

/// The address where this machine or container reaches a server that listens on all addresses.
fn reachable(address: SocketAddr) -> SocketAddr {
    let loopback = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(loopback, address.port())
}

/// Opens the socket of local administration, if a store of this server has locked the data directory.
fn open_admin_socket(settings: &Settings) -> Result<Option<(AdminSocket, UnixListener)>, StartError> {
    if stores::parts_here(settings).is_empty() {
        return Ok(None);
    }
    let dir = &settings.items.embedded.dir;
    let failed = |source| StartError::AdminSocket { path: dir.join(admin_socket::NAME), source };
    AdminSocket::listen(dir).map(Some).map_err(failed)
}

/// Calls `on_ready` once everything that a request needs is ready.
async fn announce(
    about: Ready,
    access: Access,
    lists: ListPool,
    metadata: MetadataHandle,
    on_ready: impl FnOnce(Ready),
) {
    while !(api::is_ready(&lists, &metadata)) {
        tokio::time::sleep(READY_CHECK_INTERVAL).await;
    }
    // The keys are loaded at this point.
    let has_features = metadata.catalog().snapshot().is_some_and(|snapshot| !snapshot.is_empty());
    on_ready(Ready { is_open: access.is_open() == Some(true), has_features, ..about });
}

/// Listens for administration, if it has a separate address.
fn administration(
    settings: &Settings,
    bound: Option<Bound>,
    state: &Arc<ApiState>,
    tls: Option<&Arc<Tls>>,
) -> Result<Option<Listening>, StartError> {
    let (Some(listen), Some(bound)) = (&settings.admin.listen, bound) else { return Ok(None) };
    let address = listen.to_string();
    let tls = tls.filter(|_| settings.admin.tls).cloned();
    let listening = http::listen_for_administration(Arc::clone(state), bound, tls, DRAIN_TIMEOUT)
        .map_err(|source| StartError::BindAdmin { address, source })?;
    tracing::info!(address = %listening.address, "listening for administration");
    Ok(Some(listening))
}

async fn stop_requested(stopper: &Stopper, signals: &mut Signals) {
    let mut stopped = stopper.0.subscribe();
    tokio::select! {
        _ = stopped.wait_for(|stop| *stop) => {}
        () = signals.next() => {}
    }
}

/// How long a change of a definition takes to reach all servers.
fn settle(settings: &Settings) -> Settle {
    Settle(options::in_step_for(&settings.metadata) + Duration::from_millis(settings.items.operation_timeout_ms))
}

/// The counter by which jobs detect requests.
fn answered_by(state: &Arc<ApiState>) -> Answered {
    let state = Arc::clone(state);
    Arc::new(move || state.answered())
}

/// A second signal means that the operator does not want to wait.
async fn second_signal_exits(mut signals: Signals) {
    signals.next().await;
    tracing::warn!("stopped immediately by a second signal");
    std::process::exit(1);
}
