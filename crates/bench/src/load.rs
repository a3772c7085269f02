//! Loads the data set: every list, a few adds in flight at a time, each until it is acknowledged.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use liststore_contract::domain::ADD_ITEMS_MAX;
use tokio::task::{JoinSet, LocalSet};

use super::connection::Connection;
use super::data::DataSet;
use super::protocol::Protocol;
use super::response::ResponseStatus;

/// Well below the default limit of a server for a body (2 MiB).
const ADD_BYTES_MAX: usize = 1 << 20;
/// An item's size in JSON in addition to its value, with a reserve.
const ITEM_BYTES_MAX: usize = 64;
/// More in flight would only wait.
const CONNECTIONS_MAX: usize = 64;
/// How long the generator retries an add that the server temporarily refuses.
const RETRIES_FOR: Duration = Duration::from_secs(60);
const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

struct Loading {
    protocol: Protocol,
    addresses: Vec<SocketAddr>,
    data: DataSet,
    timeout: Duration,
    next_list: Cell<u64>,
    progress: ProgressBar,
}

/// Loads everything; returns how long it took. Adding an item again changes nothing, so a load that
/// failed can be run again.
pub fn run(
    protocol: Protocol,
    addresses: &[SocketAddr],
    data: DataSet,
    connections: usize,
    timeout: Duration,
) -> Result<Duration, String> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| format!("cannot start: {e}"))?;
    let progress = ProgressBar::new(data.items());
    if let Ok(style) =
        ProgressStyle::with_template("loading {bar:30} {human_pos} of {human_len} items, {per_sec}, {eta} left")
    {
        progress.set_style(style);
    }
    let began = Instant::now();
    let loading = Rc::new(Loading {
        protocol,
        addresses: addresses.to_vec(),
        data,
        timeout,
        next_list: Cell::new(0),
        progress: progress.clone(),
    });
    let loaded = runtime.block_on(LocalSet::new().run_until(async {
        let mut tasks = JoinSet::new();
        for _ in 0..connections.min(CONNECTIONS_MAX) {
            tasks.spawn_local(Rc::clone(&loading).load_lists());
        }
        while let Some(done) = tasks.join_next().await {
            done.map_err(|e| e.to_string())??;
        }
        Ok(())
    }));
    progress.finish_and_clear();
    loaded.map(|()| began.elapsed())
}

impl Loading {
    async fn load_lists(self: Rc<Self>) -> Result<(), String> {
        let mut connection = Connection::new();
        let batch = (ADD_ITEMS_MAX as u64).min((ADD_BYTES_MAX / (self.data.value_bytes + ITEM_BYTES_MAX)) as u64);
        loop {
            let list = self.next_list.get();
            if list >= self.data.lists {
                return Ok(());
            }
            self.next_list.set(list + 1);
            let mut from = 0;
            while from < self.data.length {
                let to = self.data.length.min(from + batch);
                connection.request.clear();
                match &self.protocol {
                    Protocol::Http(http) => http.render_load(list, from, to, &mut connection.request),
                    Protocol::Resp(resp) => resp.render_load(list, from, to, &mut connection.request),
                }
                self.add(&mut connection).await.map_err(|reason| format!("cannot load list {list}: {reason}"))?;
                self.progress.inc(to - from);
                from = to;
            }
        }
    }

    async fn add(&self, connection: &mut Connection) -> Result<(), String> {
        let began = Instant::now();
        let mut pause = PAUSE_FIRST;
        loop {
            let reason = match self.try_add(connection).await {
                Ok(()) => return Ok(()),
                Err(Failed { reason, retryable: true }) if began.elapsed() < RETRIES_FOR => reason,
                Err(Failed { reason, .. }) => return Err(reason),
            };
            tracing::debug!(reason, "retrying an add");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn try_add(&self, connection: &mut Connection) -> Result<(), Failed> {
        let broken = |error: super::connection::Broken| Failed { reason: error.to_string(), retryable: true };
        if !connection.is_open() {
            connection.open(&self.addresses).await.map_err(broken)?;
        }
        let answer = connection.exchange(&self.protocol, self.timeout).await.map_err(broken)?;
        match &answer.status {
            ResponseStatus::Done => Ok(()),
            ResponseStatus::Refused { code, retryable } => {
                let text = String::from_utf8_lossy(connection.body(&answer));
                Err(Failed { reason: format!("{code}: {}", text.trim()), retryable: *retryable })
            }
        }
    }
}

struct Failed {
    reason: String,
    retryable: bool,
}
