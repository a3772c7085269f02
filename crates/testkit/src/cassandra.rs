//! Real Cassandra for tests: a node that tests share, and clusters that one test alone may kill,
//! pause and start again. All through `scripts/cassandra`.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use liststore::items::cql::{CqlOptions, migrate};
use tempfile::TempDir;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/cassandra");

/// Runs the script, and returns its output.
fn script(arguments: &[&str]) -> String {
    let output = Command::new(SCRIPT).args(arguments).stdin(Stdio::null()).output().unwrap();
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "scripts/cassandra {arguments:?} failed:\n{reported}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A cluster of one test's own. It ends with the test, and with the test's process however that
/// ends.
pub struct Cluster {
    dir: TempDir,
    pub contact_points: Vec<String>,
}

impl Cluster {
    /// With options of `scripts/cassandra start`.
    pub fn start(options: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        end_with_this_process(dir.path());
        let printed = script(&[&["start", dir.path().to_str().unwrap()], options].concat());
        Self { dir, contact_points: split(&printed) }
    }

    fn on_node(&self, command: &str, node: usize) {
        script(&[command, self.dir.path().to_str().unwrap(), &node.to_string()]);
    }

    /// Ends a node at once, as a crash would. Nodes count from 1. Its acknowledged writes return later if the cluster
    /// was started with `--durable`.
    pub fn kill(&self, node: usize) {
        self.on_node("kill", node);
    }

    /// Brings a dead node back, with its data, and waits until it and the others see each other.
    pub fn start_node(&self, node: usize) {
        self.on_node("start-node", node);
    }

    /// The same for all nodes that are dead, at once.
    pub fn start_dead_nodes(&self) {
        script(&["start", self.dir.path().to_str().unwrap()]);
    }

    /// Freezes a node: it retains its connections, and answers nothing.
    pub fn pause(&self, node: usize) {
        self.on_node("pause", node);
    }

    pub fn resume(&self, node: usize) {
        self.on_node("resume", node);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let dir = self.dir.path().to_str().unwrap();
        let _ = Command::new(SCRIPT).args(["kill", dir, "all"]).stdin(Stdio::null()).output();
    }
}

/// Held by tests that start a separate cluster, one at a time: each takes gigabytes.
pub async fn turn() -> tokio::sync::MutexGuard<'static, ()> {
    static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    TURN.lock().await
}

/// A shell that waits until this process is gone, and then cleans up: tests may be interrupted.
#[expect(clippy::zombie_processes, reason = "it outlives this process, which therefore cannot wait for it")]
fn end_with_this_process(dir: &Path) {
    // A Ctrl-C at the terminal is meant for the tests, and reaches everything that they started.
    let watch = "trap '' INT TERM HUP; while kill -0 \"$1\" 2>/dev/null && [ -d \"$3\" ]; do sleep 0.5; done; \
                 [ ! -d \"$3\" ] || { \"$2\" kill \"$3\" all; rm -rf \"$3\"; }";
    Command::new("sh")
        .args(["-c", watch, "sh", &std::process::id().to_string(), SCRIPT, dir.to_str().unwrap()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
}

fn split(contact_points: &str) -> Vec<String> {
    contact_points.split(',').map(|point| point.trim().to_owned()).collect()
}

/// Contact points of the shared test node: `LISTSTORE_TEST_CASSANDRA`, or one that is started for this process.
pub fn shared() -> Vec<String> {
    static SHARED: OnceLock<(Vec<String>, Option<Cluster>)> = OnceLock::new();
    let (contact_points, _) = SHARED.get_or_init(|| match std::env::var("LISTSTORE_TEST_CASSANDRA") {
        Ok(contact_points) => (split(&contact_points), None),
        Err(_) => {
            let cluster = Cluster::start(&[]);
            (cluster.contact_points.clone(), Some(cluster))
        }
    });
    contact_points.clone()
}

/// Options for the shared node and the keyspace that tests share there, which has the schema. Each test uses separate
/// lists.
pub fn shared_options() -> CqlOptions {
    static MIGRATED: OnceLock<()> = OnceLock::new();
    let options = CqlOptions { keyspace: "liststore_tests".into(), ..options(shared(), 1) };
    MIGRATED.get_or_init(|| {
        let options = options.clone();
        // Callers have separate runtimes.
        let migrating = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(migrate(&options, false)).unwrap();
        });
        migrating.join().unwrap();
    });
    options
}

pub fn options(contact_points: Vec<String>, replication_factor: u32) -> CqlOptions {
    CqlOptions { contact_points, replication_factor, ..CqlOptions::default() }
}
