//! The server under test: a real process of the real binary, in a separate directory.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use liststore_testkit::secrets;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long a start may take: a busy machine is slow, and a hanging server must fail the test.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
const LOG_LINES_SHOWN: usize = 25;

/// How a server is started: the same each time, so that it returns after a fault.
#[derive(Debug, Clone)]
pub struct Recipe {
    pub dir: PathBuf,
    /// The program.
    pub binary: PathBuf,
    /// Settings, as `(SECTION__KEY, value)`.
    pub settings: Vec<(String, String)>,
    /// A program that runs the server, with its arguments: `strace …`.
    pub wrapper: Vec<String>,
    /// Further environment, such as a library to load.
    pub environment: Vec<(String, String)>,
}

pub struct Server {
    child: Child,
    /// `HOST:PORT`.
    pub address: String,
    log: PathBuf,
    /// Texts that it must not log.
    secrets: Vec<String>,
}

impl Recipe {
    pub fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            binary: env!("CARGO_BIN_EXE_liststore").into(),
            settings: Vec::new(),
            wrapper: Vec::new(),
            environment: Vec::new(),
        }
    }

    pub fn set(mut self, key: &str, value: impl ToString) -> Self {
        self.settings.push((key.to_owned(), value.to_string()));
        self
    }

    /// Permits steps of the wall clock, and only these: timers use the monotonic clock.
    pub fn with_faked_clock(mut self, library: &Path) -> Result<Self, String> {
        self.step_clock(0)?;
        let clock = self.clock_file();
        let mut set = |name: &str, value: &Path| self.environment.push((name.to_owned(), value.display().to_string()));
        set("LD_PRELOAD", library);
        set("FAKETIME_TIMESTAMP_FILE", &clock);
        set("FAKETIME_NO_CACHE", Path::new("1"));
        set("FAKETIME_DONT_FAKE_MONOTONIC", Path::new("1"));
        Ok(self)
    }

    fn clock_file(&self) -> PathBuf {
        self.dir.join("clock")
    }

    /// From now on the wall clock is this far from the machine's.
    pub fn step_clock(&self, offset_secs: i64) -> Result<(), String> {
        // Renamed, so that it is never read half written.
        let (new, clock) = (self.dir.join("clock.new"), self.clock_file());
        let stepped = std::fs::write(&new, format!("{offset_secs:+}")).and_then(|()| std::fs::rename(&new, &clock));
        stepped.map_err(|e| format!("cannot step the clock: {e}"))
    }

    pub fn data_dir(&self) -> PathBuf {
        self.dir.join("data")
    }

    fn secrets(&self) -> Vec<String> {
        secrets::in_settings(self.settings.iter().map(|(key, value)| (key.as_str(), value.as_str())))
    }

    pub fn log(&self) -> PathBuf {
        self.dir.join("server.log")
    }

    /// A command of the binary with these settings and nothing from the environment of the tests.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = match self.wrapper.split_first() {
            Some((program, rest)) => {
                let mut command = Command::new(program);
                command.args(rest).arg(&self.binary);
                command
            }
            None => Command::new(&self.binary),
        };
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LISTSTORE_")) {
            command.env_remove(name);
        }
        command.env("LISTSTORE__ITEMS__EMBEDDED__DIR", self.data_dir());
        command.envs(self.settings.iter().map(|(key, value)| (format!("LISTSTORE__{key}"), value)));
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.current_dir(&self.dir).args(arguments).stdin(Stdio::null());
        command
    }

    /// Starts the process, without waiting until it serves.
    pub fn spawn(&self) -> Result<Child, String> {
        let log = File::options().create(true).append(true).open(self.log()).map_err(|e| e.to_string())?;
        self.command(&["serve", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(|e| format!("cannot start the server: {e}"))
    }

    /// Starts the process and waits until it reports that it is ready.
    pub fn start(&self) -> Result<Server, String> {
        let mut child = self.spawn()?;
        match await_ready(&mut child) {
            Ok(address) => Ok(Server { child, address, log: self.log(), secrets: self.secrets() }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(format!("{error}\n{}", tail(&self.log())))
            }
        }
    }
}

/// The address in the ready line. The output is read on, so that the server can always write.
fn await_ready(child: &mut Child) -> Result<String, String> {
    let output = child.stdout.take().ok_or("the server's output is not at hand")?;
    let (found, ready) = sync_channel(1);
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if let Some((_, url)) = line.split_once("liststore is ready on http://") {
                let address = url.split(';').next().unwrap_or_default().trim_end_matches('/');
                let _ = found.try_send(address.to_owned());
            }
        }
    });
    ready.recv_timeout(START_TIMEOUT).map_err(|error| match error {
        RecvTimeoutError::Timeout => format!("the server was not ready after {START_TIMEOUT:?}"),
        RecvTimeoutError::Disconnected => "the server ended before it was ready".to_owned(),
    })
}

/// The end of a log, for a report.
pub fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let shown = &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..];
    format!("the end of the server's log:\n  {}", shown.join("\n  "))
}

impl Server {
    pub fn pid(&self) -> Pid {
        pid_of(&self.child)
    }

    pub fn signal(&self, signal: Signal) -> Result<(), String> {
        kill(self.pid(), signal).map_err(|e| format!("cannot send {signal}: {e}"))
    }

    /// SIGKILL, and waits until the process is gone.
    pub fn kill(mut self) -> Result<(), String> {
        self.signal(Signal::SIGKILL)?;
        self.child.wait().map(|_| ()).map_err(|e| e.to_string())
    }

    /// SIGTERM, and waits for the end of the process, which must exit with success.
    pub fn terminate(mut self) -> Result<(), String> {
        self.signal(Signal::SIGTERM)?;
        let status = self.wait(STOP_TIMEOUT)?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("SIGTERM ended the server with {status}\n{}", tail(&self.log)))
        }
    }

    /// Waits until the process has ended.
    pub fn wait(&mut self, at_most: Duration) -> Result<ExitStatus, String> {
        wait_for(&mut self.child, at_most).map_err(|error| format!("{error}\n{}", tail(&self.log)))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // A log that cannot be read has no secrets.
        secrets::check(&std::fs::read_to_string(&self.log).unwrap_or_default(), &self.secrets);
    }
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).expect("a process id"))
}

/// Waits until a process has ended. Kills it after `at_most`, which is an error.
pub fn wait_for(child: &mut Child, at_most: Duration) -> Result<ExitStatus, String> {
    // Signals cannot be awaited without a runtime, and `wait` has no time limit: a second thread ends the wait by
    // ending the process.
    let (done, ended) = sync_channel::<()>(1);
    let pid = pid_of(child);
    let watcher = std::thread::spawn(move || {
        let late = ended.recv_timeout(at_most) == Err(RecvTimeoutError::Timeout);
        if late {
            let _ = kill(pid, Signal::SIGKILL);
        }
        late
    });
    let began = Instant::now();
    let status = child.wait().map_err(|e| e.to_string());
    drop(done);
    match watcher.join() {
        Ok(false) => status,
        _ => Err(format!("the process did not end by itself within {:?}", began.elapsed())),
    }
}
