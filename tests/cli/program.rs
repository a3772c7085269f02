//! Runs the binary: servers in separate directories, and commands against them.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::thread::JoinHandle;

pub use liststore_testkit::secrets;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// A busy machine is slow, and most tests want every answer.
const PATIENT: [(&str, &str); 3] = [
    ("LISTSTORE__ITEMS__OPERATION_TIMEOUT_MS", "20000"),
    ("LISTSTORE__METADATA__CALL_TIMEOUT_MS", "20000"),
    ("LISTSTORE__HTTP__SOCKET_WAIT_MS", "20000"),
];

/// The binary, without the settings in the environment of the test.
pub fn liststore(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_liststore"));
    for (name, _) in std::env::vars() {
        if name.starts_with("LISTSTORE") {
            command.env_remove(name);
        }
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

/// The binary as the first process of a PID namespace: the child of the started process.
pub fn first_process(arguments: &[&str]) -> Command {
    let binary = liststore(arguments);
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child"]);
    command.arg(binary.get_program()).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    for (name, _) in binary.get_envs() {
        command.env_remove(name);
    }
    command
}

/// The output of a finished command.
#[derive(Debug)]
pub struct CommandOutput {
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl CommandOutput {
    #[track_caller]
    pub fn ok(self) -> String {
        assert!(self.status == 0 && self.err.is_empty(), "{self:?}");
        self.out
    }

    /// The one line with the reason of its failure.
    #[track_caller]
    pub fn failed(self, status: i32) -> String {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.err.lines().count(), 1, "{self:?}");
        self.err.trim_end().to_owned()
    }
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code().expect("it was ended by a signal"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

pub fn run(arguments: &[&str]) -> CommandOutput {
    liststore(arguments).output().unwrap().into()
}

/// A running server, which ends with the test.
pub struct Server {
    process: Child,
    pub url: String,
    /// The ready line and the lines directly after it.
    pub ready: String,
    log: Option<JoinHandle<String>>,
    /// Texts that it must not log.
    secrets: Vec<String>,
    pub dir: TempDir,
}

impl Server {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// A fresh server with these environment variables, on a free port.
    pub fn start_with(environment: &[(&str, &str)]) -> Self {
        Self::start_in(TempDir::new().unwrap(), "127.0.0.1:0", environment)
    }

    /// A server on the data of another one.
    pub fn start_in(dir: TempDir, listen: &str, environment: &[(&str, &str)]) -> Self {
        let mut command = liststore(&["serve", "--listen", listen, "--data-dir", "data"]);
        command.envs(environment.iter().copied());
        Self::launch(command, dir)
    }

    /// Does the same, or returns why it does not start.
    pub fn try_start_in(dir: TempDir, environment: &[(&str, &str)]) -> Result<Self, String> {
        let mut command = liststore(&["serve", "--listen", "127.0.0.1:0", "--data-dir", "data"]);
        command.envs(environment.iter().copied());
        Self::try_launch(command, dir)
    }

    /// A fresh server with this configuration file, on a free port.
    pub fn start_configured(text: &str) -> Self {
        let dir = TempDir::new().unwrap();
        std::fs::write(dir.path().join("liststore.toml"), text).unwrap();
        Self::launch(liststore(&["serve", "--config", "liststore.toml", "--listen", "127.0.0.1:0"]), dir)
    }

    /// A fresh server in a process that a shell command has prepared.
    pub fn start_after(shell: &str) -> Self {
        Self::start_in_after(TempDir::new().unwrap(), shell, &[])
    }

    /// Does the same with a directory and environment variables.
    pub fn start_in_after(dir: TempDir, shell: &str, environment: &[(&str, &str)]) -> Self {
        let server = liststore(&["serve", "--listen", "127.0.0.1:0", "--data-dir", "data"]);
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{shell} && exec \"$0\" \"$@\"")]);
        command.arg(server.get_program()).args(server.get_args()).stdin(Stdio::null());
        for (name, _) in server.get_envs() {
            command.env_remove(name);
        }
        command.envs(environment.iter().copied());
        Self::launch(command, dir)
    }

    fn launch(command: Command, dir: TempDir) -> Self {
        Self::try_launch(command, dir).unwrap_or_else(|log| panic!("the server did not start: {log}"))
    }

    fn try_launch(mut command: Command, dir: TempDir) -> Result<Self, String> {
        let given = command.get_envs().filter_map(|(key, value)| Some((key.to_str()?, value?.to_str()?)));
        let secrets = secrets::in_settings(given);
        for (name, value) in PATIENT {
            if command.get_envs().all(|(given, value)| given != name || value.is_none()) {
                command.env(name, value);
            }
        }
        let mut process =
            command.current_dir(dir.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let log = collect(process.stderr.take().unwrap());
        let mut out = BufReader::new(process.stdout.take().unwrap());
        let mut ready = String::new();
        // The ready line and three commands. A server that does not start closes its output instead.
        for _ in 0..4 {
            out.read_line(&mut ready).unwrap();
        }
        let is_url = |word: &&str| word.starts_with("http://") || word.starts_with("https://");
        let url = ready.split_whitespace().find(is_url);
        let Some(url) = url.map(|url| url.trim_end_matches(';').to_owned()) else {
            process.wait().unwrap();
            let log = log.join().unwrap();
            secrets::check(&log, &secrets);
            return Err(log);
        };
        Ok(Self { process, url, ready, log: Some(log), secrets, dir })
    }

    pub fn address(&self) -> &str {
        self.url.strip_prefix("http://").unwrap()
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// A command for this server.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = liststore(arguments);
        command.env("LISTSTORE_URL", &self.url).current_dir(self.dir.path());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> CommandOutput {
        self.command(arguments).output().unwrap().into()
    }

    #[track_caller]
    pub fn ok(&self, arguments: &[&str]) -> String {
        self.run(arguments).ok()
    }

    /// Runs a command with `input` as its standard input.
    pub fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> CommandOutput {
        let mut process = self.spawn(arguments);
        let mut stdin = process.stdin.take().unwrap();
        let input = input.to_vec();
        // It may end before it has read everything.
        let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let finished = process.wait_with_output().unwrap().into();
        writer.join().unwrap();
        finished
    }

    /// A command with piped input and outputs.
    pub fn spawn(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Creates the feature `customer` `name`.
    pub fn feature(&self, name: &str, value_type: &str) {
        self.ok(&["feature", "create", "customer", name, "--value-type", value_type, "--ttl", "7300d", "-o", "json"]);
    }

    /// All items of a list of `customer`, as `timestamp value` each, newest first.
    pub fn items(&self, feature: &str, entity_id: &str) -> Vec<String> {
        let out = self.ok(&["list", "get", "customer", feature, "--all", "-o", "ndjson", "--", entity_id]);
        out.lines()
            .map(|line| {
                let item: serde_json::Value = serde_json::from_str(line).unwrap();
                format!("{} {}", item["timestamp"].as_str().unwrap(), item["value"])
            })
            .collect()
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub fn signal(&self, by: Signal) {
        signal(&self.process, by);
    }

    /// Ends the server with a signal. Returns its exit status, if it has one, and its log.
    pub fn end(mut self, by: Signal) -> (Option<i32>, String, TempDir) {
        signal(&self.process, by);
        let status = self.process.wait().unwrap().code();
        let log = self.log.take().unwrap().join().unwrap();
        secrets::check(&log, &self.secrets);
        let dir = std::mem::replace(&mut self.dir, TempDir::new().unwrap());
        (status, log, dir)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have been ended by the test.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let Some(Ok(log)) = self.log.take().map(JoinHandle::join) {
            secrets::check(&log, &self.secrets);
        }
    }
}

pub fn signal(process: &Child, signal: Signal) {
    kill(Pid::from_raw(process.id() as i32), signal).unwrap();
}

/// Reads everything, so that the process never waits for a reader.
fn collect(mut err: ChildStderr) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut log = Vec::new();
        err.read_to_end(&mut log).unwrap();
        String::from_utf8_lossy(&log).into_owned()
    })
}

pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
