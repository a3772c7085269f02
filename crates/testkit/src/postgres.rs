//! Real Postgres servers for tests: a shared one in which every test has a separate database, and servers that only
//! one test may stop, kill and start again. All through `scripts/postgres`.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tempfile::TempDir;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/postgres");

/// Runs the script, and returns its output.
fn script(arguments: &[&str]) -> String {
    let output = Command::new(SCRIPT).args(arguments).stdin(Stdio::null()).output().unwrap();
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "scripts/postgres {arguments:?} failed:\n{reported}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A Postgres of one test's own. It ends with the test, and with the test's process however that
/// ends.
pub struct Server {
    dir: TempDir,
    pub url: String,
}

impl Server {
    pub fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let url = script(&["start", dir.path().to_str().unwrap()]);
        end_with_this_process(dir.path());
        Self { dir, url }
    }

    /// A standby of another server, with all of its databases, read-only until it is promoted.
    pub fn standby_of(primary: &Self) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let url = script(&["standby", dir.path().to_str().unwrap(), primary.path()]);
        end_with_this_process(dir.path());
        Self { dir, url }
    }
    pub fn promote(&self) {
        script(&["promote", self.path()]);
    }

    /// Where its data and its settings are.
    pub fn data(&self) -> std::path::PathBuf {
        self.dir.path().join("data")
    }

    fn path(&self) -> &str {
        self.dir.path().to_str().unwrap()
    }

    /// Ends it at once, as a crash would.
    pub fn kill(&self) {
        script(&["kill", self.path()]);
    }

    pub fn stop(&self) {
        script(&["stop", self.path()]);
    }

    /// Starts it again, with its data and on its port.
    pub fn start_again(&self) {
        assert_eq!(script(&["start", self.path()]), self.url);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new(SCRIPT).args(["kill", self.path()]).stdin(Stdio::null()).output();
    }
}

pub fn address_of(url: &str) -> String {
    url.split_once('@').unwrap().1.split_once('/').unwrap().0.to_owned()
}

/// A shell that waits until this process is gone, and then cleans up: tests may be interrupted.
fn end_with_this_process(dir: &Path) {
    let watch = "(while kill -0 \"$1\" && [ -d \"$3\" ]; do sleep 0.5; done; \
                 [ ! -d \"$3\" ] || { \"$2\" kill \"$3\"; rm -rf \"$3\"; }) &";
    let started = Command::new("sh")
        .args(["-c", watch, "sh", &std::process::id().to_string(), SCRIPT, dir.to_str().unwrap()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(started.unwrap().success());
}

/// The URL of the shared test server: `LISTSTORE_TEST_POSTGRES_URL`, or one that is started for this process.
fn shared() -> &'static str {
    static SHARED: OnceLock<(String, Option<Server>)> = OnceLock::new();
    let (url, _) = SHARED.get_or_init(|| match std::env::var("LISTSTORE_TEST_POSTGRES_URL") {
        Ok(url) => (url, None),
        Err(_) => {
            let server = Server::start();
            (server.url.clone(), Some(server))
        }
    });
    url
}

/// A database of one test's own, without a schema.
pub struct Database {
    server: String,
    name: String,
    pub url: String,
}

impl Database {
    /// In the shared server.
    pub async fn create() -> Self {
        Self::create_in(shared(), "").await
    }

    /// With options of `CREATE DATABASE`.
    pub async fn create_with(options: &str) -> Self {
        Self::create_in(shared(), options).await
    }

    pub async fn create_in(server: &str, options: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("t{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let (head, query) = server.split_once('?').map_or((server, None), |(head, query)| (head, Some(query)));
        let mut url = format!("{}/{name}", head.rsplit_once('/').unwrap().0);
        url.extend(query.map(|query| format!("?{query}")));
        execute(server, &format!("DROP DATABASE IF EXISTS {name}")).await;
        execute(server, &format!("CREATE DATABASE {name} {options}")).await;
        Self { server: server.to_owned(), name, url }
    }

    /// With this build's schema.
    pub async fn migrated() -> Self {
        let database = Self::create().await;
        liststore::metadata::postgres::migrate(&database.url, false).await.unwrap();
        database
    }

    pub async fn connect(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.unwrap()
    }

    pub async fn execute(&self, sql: &str) {
        execute(&self.url, sql).await;
    }

    /// Ends all connections to the database except its own.
    pub async fn cut_connections(&self) {
        self.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        .await;
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        // A test that stopped the server has no database left to drop.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                if let Ok(mut connection) = PgConnection::connect(&server).await {
                    let _ = connection.execute(AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)"))).await;
                }
            });
        });
        let _ = dropping.join();
    }
}

async fn execute(url: &str, sql: &str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    connection.execute(AssertSqlSafe(sql)).await.unwrap();
    connection.close().await.unwrap();
}
