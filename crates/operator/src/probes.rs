//! Health and metrics of the operator, over plain HTTP: `/livez`, `/readyz` and `/metrics`.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// A caller sends its request, and takes the answer, within this time.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// Callers that are served at once.
const CALLERS_MAX: usize = 32;
/// The longest head of a request.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// The loop hangs if there are pools and no check ends for this long. Each check ends within a minute.
const HANGS_AFTER: Duration = Duration::from_secs(300);

/// The state of one pool, for the metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolHealth {
    pub name: String,
    pub is_ready: bool,
}

type ShowPools = Box<dyn Fn() -> Vec<PoolHealth> + Send + Sync>;

/// The progress of the loop.
pub struct Progress {
    is_listed: AtomicBool,
    checks: [AtomicU64; 2],
    resizes: [AtomicU64; 2],
    scalings: AtomicU64,
    last_check: Mutex<Instant>,
    pools: OnceLock<ShowPools>,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            is_listed: AtomicBool::new(false),
            checks: Default::default(),
            resizes: Default::default(),
            scalings: AtomicU64::new(0),
            last_check: Mutex::new(Instant::now()),
            pools: OnceLock::new(),
        }
    }
}

impl Progress {
    /// Sets the function that reads the pools. The first one stays.
    pub fn show_pools(&self, show: impl Fn() -> Vec<PoolHealth> + Send + Sync + 'static) {
        let _first = self.pools.set(Box::new(show));
    }

    /// Notes that all pools of the namespace have been read.
    pub fn listed(&self) {
        self.is_listed.store(true, Ordering::Release);
    }

    pub fn record_check(&self, succeeded: bool) {
        self.checks[usize::from(succeeded)].fetch_add(1, Ordering::Relaxed);
        *self.last_check.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    pub fn resized(&self, succeeded: bool) {
        self.resizes[usize::from(succeeded)].fetch_add(1, Ordering::Relaxed);
    }

    pub fn scaled(&self) {
        self.scalings.fetch_add(1, Ordering::Relaxed);
    }

    fn pools(&self) -> Vec<PoolHealth> {
        self.pools.get().map(|show| show()).unwrap_or_default()
    }

    fn hangs(&self, now: Instant) -> bool {
        let last = *self.last_check.lock().unwrap_or_else(PoisonError::into_inner);
        now.saturating_duration_since(last) > HANGS_AFTER && !self.pools().is_empty()
    }

    fn metrics(&self) -> String {
        let mut text = String::new();
        let mut family = |name: &str, kind: &str, help: &str, series: &[(String, u64)]| {
            // Writing to a string cannot fail.
            let _infallible = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, value) in series {
                let _infallible = writeln!(text, "{name}{labels} {value}");
            }
        };
        let outcomes = |counts: &[AtomicU64; 2]| {
            ["failed", "ok"]
                .map(|outcome| format!("{{outcome=\"{outcome}\"}}"))
                .into_iter()
                .zip(counts)
                .map(|(labels, count)| (labels, count.load(Ordering::Relaxed)))
                .collect::<Vec<_>>()
        };
        let help = "Checks of pools, by outcome.";
        family("liststore_operator_reconciliations_total", "counter", help, &outcomes(&self.checks));
        let resizes = "Pods that were given another number of list actors, by outcome.";
        family("liststore_operator_resizes_total", "counter", resizes, &outcomes(&self.resizes));
        let scalings = [(String::new(), self.scalings.load(Ordering::Relaxed))];
        family("liststore_operator_scalings_total", "counter", "Changes of a Deployment's replicas.", &scalings);
        let pools: Vec<_> = self
            .pools()
            .into_iter()
            .map(|pool| (format!("{{pool=\"{}\"}}", pool.name), u64::from(pool.is_ready)))
            .collect();
        family("liststore_operator_pool_ready", "gauge", "1 while a pool is as wanted, else 0.", &pools);
        text
    }

    /// The status and the body of an answer.
    fn answer(&self, path: &str, now: Instant) -> (&'static str, String) {
        match path {
            "/livez" if self.hangs(now) => ("503 Service Unavailable", "the loop hangs\n".to_owned()),
            "/readyz" if !self.is_listed.load(Ordering::Acquire) => {
                ("503 Service Unavailable", "the pools have not been listed yet\n".to_owned())
            }
            "/livez" | "/readyz" => ("200 OK", "pass\n".to_owned()),
            "/metrics" => ("200 OK", self.metrics()),
            _ => ("404 Not Found", "/livez, /readyz and /metrics exist\n".to_owned()),
        }
    }
}

/// Listens for probes and scrapers.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, String> {
    TcpListener::bind(address).await.map_err(|error| format!("cannot listen on {address}: {error}; set --listen"))
}

/// Answers until it is dropped.
pub async fn serve(listener: TcpListener, progress: Arc<Progress>) {
    let places = Arc::new(Semaphore::new(CALLERS_MAX));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            // Too many open files: connections of other callers close soon.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let progress = Arc::clone(&progress);
        tokio::spawn(async move {
            let _gone = timeout(CALL_TIMEOUT, call(stream, &progress)).await;
            drop(place);
        });
    }
}

async fn call(mut stream: TcpStream, progress: &Progress) -> std::io::Result<()> {
    let (mut head, mut part) = (Vec::new(), [0; 1_024]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut part).await?;
        if read == 0 || head.len() + read > HEAD_BYTES_MAX {
            return Ok(());
        }
        head.extend_from_slice(&part[..read]);
    }
    let line = String::from_utf8_lossy(&head);
    let path = line.split(' ').nth(1).unwrap_or_default();
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let (status, body) = progress.answer(path, Instant::now());
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: \
         close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(progress: &Progress, path: &str, now: Instant) -> &'static str {
        &progress.answer(path, now).0[..3]
    }

    #[test]
    fn a_loop_with_pools_that_completes_no_check_is_not_alive() {
        let progress = Progress::default();
        let late = Instant::now() + HANGS_AFTER + Duration::from_secs(1);
        assert_eq!(status(&progress, "/livez", late), "200", "there is nothing to look at");
        progress.show_pools(|| vec![PoolHealth { name: "lists".to_owned(), is_ready: false }]);
        assert_eq!((status(&progress, "/livez", Instant::now()), status(&progress, "/livez", late)), ("200", "503"));
        progress.record_check(false);
        assert_eq!(status(&progress, "/livez", Instant::now() + HANGS_AFTER / 2), "200");
    }

    #[test]
    fn it_is_ready_once_the_pools_are_listed() {
        let progress = Progress::default();
        assert_eq!(status(&progress, "/readyz", Instant::now()), "503");
        progress.listed();
        assert_eq!(status(&progress, "/readyz", Instant::now()), "200");
        assert_eq!(status(&progress, "/secrets", Instant::now()), "404");
    }

    #[tokio::test]
    async fn metrics_are_answered_over_http() {
        let progress = Arc::new(Progress::default());
        progress.show_pools(|| vec![PoolHealth { name: "lists".to_owned(), is_ready: true }]);
        progress.record_check(true);
        progress.resized(false);
        progress.scaled();
        let listener = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, Arc::clone(&progress)));
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        for line in [
            "HTTP/1.1 200 OK\r\n",
            "\nliststore_operator_reconciliations_total{outcome=\"ok\"} 1\n",
            "\nliststore_operator_resizes_total{outcome=\"failed\"} 1\n",
            "\nliststore_operator_scalings_total 1\n",
            "\nliststore_operator_pool_ready{pool=\"lists\"} 1\n",
        ] {
            assert!(answer.contains(line), "{line:?} in {answer}");
        }
    }
}
