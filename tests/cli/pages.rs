//! Tutorials and recipes of `docs/`, each followed from its first command to its last on a fresh server.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, UNIX_EPOCH};

use tempfile::TempDir;

use crate::ports::free_port;
use crate::program::{Server, repository};
use crate::walkthrough::{Shell, follow};

/// Commands of `sh` blocks that the test replaces.
const SETUP: [&str; 7] = [
    // A server runs already.
    "liststore serve",
    // The directory of these packages is linked into the working directory.
    "npm install --save-dev typescript@5.9.3 @types/node@20.19.25",
    // The program is a part of this one.
    "cargo new feed && cd feed",
    "cargo add liststore-client --path ../liststore/crates/client",
    "cargo add tokio --features macros,rt-multi-thread",
    // Their programs are on the search path.
    "pip install cassandra-driver",
    "pip install feast ./clients/feast",
];

/// Timeouts of programs of the pages. A busy machine needs longer ones.
const TIMEOUTS: [(&str, &str); 5] = [
    ("timeout=0.2)", "timeout=60)"),
    ("timeout=1)", "timeout=60)"),
    ("timeout=5)", "timeout=60)"),
    ("5 * time.Second", "60 * time.Second"),
    ("AbortSignal.timeout(5_000)", "AbortSignal.timeout(60_000)"),
];

/// A page, and the environment of its reader in addition to a server.
pub struct Guide {
    page: String,
    pub server: Server,
    /// The reader's working directory: next to the data of the server, and the examples and clients of the repository.
    dir: TempDir,
    programs: Vec<PathBuf>,
    environment: Vec<(&'static str, String)>,
    /// Names of the page, and their replacements in this test.
    names: Vec<(&'static str, String)>,
    /// Further commands of `sh` blocks.
    setup: Vec<&'static str>,
}

impl Guide {
    pub fn new(page: &str) -> Self {
        let path = repository().join("docs").join(page);
        let page = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let (server, dir) = (Server::start(), TempDir::new().unwrap());
        for folder in ["clients", "examples"] {
            std::os::unix::fs::symlink(repository().join(folder), dir.path().join(folder)).unwrap();
        }
        std::os::unix::fs::symlink(server.dir.path().join("data"), dir.path().join("liststore-data")).unwrap();
        let mut names = vec![("http://127.0.0.1:8080", server.url.clone())];
        names.extend(TIMEOUTS.map(|(written, there)| (written, there.to_owned())));
        Self { page, server, dir, programs: Vec::new(), environment: Vec::new(), names, setup: Vec::new() }
    }

    pub fn with_name(mut self, written: &'static str, there: impl Into<String>) -> Self {
        self.names.push((written, there.into()));
        self
    }

    /// Adds commands of `sh` blocks that only this page has.
    pub fn with_setup(mut self, commands: &[&'static str]) -> Self {
        self.setup.extend(commands);
        self
    }

    /// Puts a folder first in the search path.
    fn with_programs(mut self, folder: PathBuf) -> Self {
        self.programs.push(folder);
        self
    }

    fn with_variable(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    /// Replaces a program with a shell script.
    fn with_script(self, name: &str, script: &str) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let folder = self.dir.path().join("programs");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(name), format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(folder.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
        self.with_programs(folder)
    }

    pub fn follow(self) {
        let programs: Vec<&Path> = self.programs.iter().map(PathBuf::as_path).collect();
        let environment: Vec<_> = self.environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let mut shell = Shell::start(&self.server, self.dir.path(), &programs, &environment);
        let replace =
            |text: &str| self.names.iter().fold(text.to_owned(), |text, (written, there)| text.replace(written, there));
        for command in follow(&self.page, &mut shell, self.dir.path(), replace) {
            let is_known = SETUP.contains(&command.as_str()) || self.setup.contains(&command.as_str());
            assert!(is_known, "no test does what this command does: {command}");
        }
    }
}

/// The path of a program. Without it a test does nothing, or fails if all tools are required.
pub fn tool(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.exists());
    let required = std::env::var("LISTSTORE_TEST_TOOLS").is_ok_and(|value| value == "required");
    assert!(found.is_some() || !required, "{name} is missing");
    if found.is_none() {
        eprintln!("{name} is missing: this page is not followed");
    }
    found
}

#[test]
fn every_page_is_followed() {
    let tests = concat!(include_str!("pages.rs"), include_str!("operate.rs"));
    let mut pages = 0;
    for folder in ["tutorials", "howto", "howto/operate"] {
        for entry in std::fs::read_dir(repository().join("docs").join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") {
                pages += 1;
                assert!(tests.contains(&format!("\"{folder}/{name}\"")), "no test follows docs/{folder}/{name}");
            }
        }
    }
    assert!(pages > 4, "{pages} pages");
}

#[test]
fn first_list() {
    Guide::new("tutorials/first-list.md").follow();
}

/// Its steps are for a browser: the suite `console` follows them.
#[test]
fn console() {
    Guide::new("tutorials/console.md").follow();
}

#[test]
fn python() {
    let Some(_) = tool("python3") else { return };
    Guide::new("tutorials/python.md").follow();
}

#[test]
fn go() {
    let Some(_) = tool("go") else { return };
    // The standard library's packages are compiled with these settings, as in the operator for Kubernetes.
    Guide::new("tutorials/go.md").with_variable("CGO_ENABLED", "0").with_variable("GOFLAGS", "-trimpath").follow();
}

#[test]
fn typescript() {
    let (Some(_), Some(_), Some(compiler)) = (tool("node"), tool("npx"), tool("tsc")) else { return };
    // node_modules/typescript/bin/tsc
    let compiler = compiler.canonicalize().unwrap();
    let guide = Guide::new("tutorials/typescript.md");
    std::os::unix::fs::symlink(compiler.ancestors().nth(3).unwrap(), guide.dir.path().join("node_modules")).unwrap();
    guide.follow();
}

/// The page installs the same packages as `scripts/test`.
#[test]
fn the_page_names_the_tested_compiler_of_typescript() {
    let script = std::fs::read_to_string(repository().join("scripts/lib/common.sh")).unwrap();
    let command = SETUP.iter().find(|command| command.starts_with("npm install")).unwrap();
    let packages: Vec<_> = command.split(' ').filter(|word| word.contains("@")).collect();
    assert!(script.contains(&format!("typescript_packages=({})", packages.join(" "))), "{packages:?}");
}

#[test]
fn rust() {
    let guide = Guide::new("tutorials/rust.md");
    let program = include_str!("../../examples/clients/feed.rs");
    assert!(guide.page.contains(&format!("```rust\n{program}```")), "the page must have examples/clients/feed.rs");
    // This program, even if another one has replaced its path.
    let this = format!("/proc/{}/exe", std::process::id());
    let run =
        format!("exec {this} --exact pages::program::run --ignored --nocapture --quiet | grep -E '^(added|seen|new) '");
    guide.with_script("cargo", &run).follow();
}

/// The program of the page for Rust.
#[allow(clippy::disallowed_methods, clippy::print_stdout, reason = "it is a program of a user")]
mod program {
    include!("../../examples/clients/feed.rs");

    /// Not a separate test: its output is a program's.
    #[test]
    #[ignore = "the test above runs it, as a separate process"]
    fn run() {
        main().unwrap();
    }
}

#[test]
fn recently_viewed() {
    Guide::new("howto/recently-viewed.md").follow();
}

#[test]
fn seen_stories_filter() {
    let Some(_) = tool("python3") else { return };
    Guide::new("howto/seen-stories-filter.md").follow();
}

#[test]
fn velocity_features() {
    Guide::new("howto/velocity-features.md").follow();
}

#[test]
fn velocity_window() {
    Guide::new("howto/velocity-window.md").follow();
}

#[test]
fn last_n() {
    Guide::new("howto/last-n.md").follow();
}

#[test]
fn top_topics_this_week() {
    let Some(_) = tool("python3") else { return };
    Guide::new("howto/top-topics-this-week.md").follow();
}

#[test]
fn training_set() {
    Guide::new("howto/training-set.md").follow();
}

#[test]
fn erase_a_person() {
    let Some(_) = tool("python3") else { return };
    Guide::new("howto/erase-a-person.md").follow();
}

#[test]
fn definitions_in_git() {
    Guide::new("howto/definitions-in-git.md").follow();
}

/// `scripts/check-clients redpanda-connect` runs the configuration of the page.
#[test]
fn stream_from_kafka() {
    Guide::new("howto/stream-from-kafka.md").follow();
}

#[test]
fn from_redis() {
    let (Some(_), Some(_)) = (tool("redis-server"), tool("redis-cli")) else { return };
    let redis = Redis::start();
    redis.fill();
    Guide::new("howto/from-redis.md").with_name("-p 6379", format!("-p {}", redis.port)).follow();
}

#[test]
fn from_cassandra() {
    let (Some(cqlsh), Some(address)) = (tool("cqlsh"), cassandra()) else { return };
    // Its virtual environment has the driver.
    let programs = cqlsh.canonicalize().unwrap().parent().unwrap().to_path_buf();
    let (host, port) = address.rsplit_once(':').unwrap();
    let keyspace = format!("shop_{}", std::process::id());
    let guide = Guide::new("howto/from-cassandra.md")
        .with_programs(programs)
        .with_name("127.0.0.1 9042", format!("{host} {port}"))
        .with_name("shop", &keyspace);
    guide.follow();
    let statement = format!("DROP KEYSPACE {keyspace}");
    let dropped = Command::new(cqlsh).args([host, port, "-e", &statement]).output().unwrap();
    assert!(dropped.status.success(), "{dropped:?}");
}

/// The contact point of the tests' Cassandra.
pub fn cassandra() -> Option<String> {
    let address = std::env::var("LISTSTORE_TEST_CASSANDRA").ok().filter(|address| !address.is_empty());
    let required = std::env::var("LISTSTORE_TEST_TOOLS").is_ok_and(|value| value == "required");
    assert!(address.is_some() || !required, "LISTSTORE_TEST_CASSANDRA names no server");
    address
}

#[test]
fn from_feast() {
    let Some(feast) = tool("feast") else { return };
    // Its virtual environment has Feast, and the plug-in is used from its sources.
    let programs = feast.canonicalize().unwrap().parent().unwrap().to_path_buf();
    let plugin = repository().join("clients/feast");
    Guide::new("howto/from-feast.md")
        .with_programs(programs)
        .with_variable("PYTHONPATH", plugin.to_str().unwrap())
        .with_variable("PYTHONDONTWRITEBYTECODE", "1")
        .with_variable("FEAST_USAGE", "False")
        .follow();
}

/// A Redis that ends with the test.
struct Redis {
    process: Child,
    port: u16,
    _dir: TempDir,
}

impl Redis {
    fn start() -> Self {
        let (port, dir) = (free_port(Ipv4Addr::LOCALHOST), TempDir::new().unwrap());
        let process = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", ""])
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let redis = Self { process, port, _dir: dir };
        let began = Instant::now();
        while !redis.command(&["ping"]).output().unwrap().status.success() {
            assert!(began.elapsed() < Duration::from_secs(60), "Redis does not answer");
            std::thread::yield_now();
        }
        redis
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &self.port.to_string()]).args(arguments);
        command
    }

    /// Adds 100 members to each of 1,000 sorted sets.
    fn fill(&self) {
        let now = UNIX_EPOCH.elapsed().unwrap().as_secs();
        let mut input = String::new();
        for user in 0..1_000 {
            for story in 0..100 {
                writeln!(input, "ZADD seen:u-{user} {} story-{story}", now - 1_000 + story).unwrap();
            }
        }
        let mut filling = self.command(&["--pipe"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        filling.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        assert!(filling.wait().unwrap().success());
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
