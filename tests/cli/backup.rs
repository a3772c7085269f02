//! Backups of a real server under load, restored by starting on them.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::{CommandOutput, Server, liststore, run};

const WRITERS: usize = 4;
const ITEMS: u64 = 5;
/// The timestamp of the first item.
const BASE_SECS: u64 = 1_700_000_000;

/// A keep-alive connection with additional headers as lines.
struct Connection<S = TcpStream>(BufReader<S>);

impl Connection {
    fn open(address: &str) -> Self {
        Self(BufReader::new(TcpStream::connect(address).unwrap()))
    }
}

impl<S: Read + Write> Connection<S> {
    /// Sends a request, and reads the status and body of its answer; `None` if the server is gone.
    fn post(&mut self, path: &str, headers: &str, body: &Value) -> Option<(u16, Value)> {
        let body = body.to_string();
        let request =
            format!("POST {path} HTTP/1.1\r\nHost: test\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len());
        self.0.get_mut().write_all(request.as_bytes()).ok()?;
        let mut status = String::new();
        self.0.read_line(&mut status).ok()?;
        let status = status.split(' ').nth(1)?.parse().ok()?;
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).ok()?;
            if line == "\r\n" {
                break;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).ok()?;
        Some((status, serde_json::from_slice(&body).unwrap()))
    }
}

/// The progress of one writer: sent adds, and acknowledged adds.
#[derive(Default)]
struct Writer {
    sent: AtomicU64,
    acknowledged: AtomicU64,
}

/// Adds to one list, one add after another, until the server is gone or `done` is set.
fn keep_adding(address: &str, number: usize, writer: &Writer, done: &AtomicBool) {
    let mut connection = Connection::open(address);
    let path = format!("/v1/lists/customer/seen/c-{number}/items");
    for add in 0_u64.. {
        if done.load(Ordering::Acquire) {
            return;
        }
        writer.sent.store(add + 1, Ordering::Release);
        let item = |i: u64| {
            let n = add * ITEMS + i;
            json!({"timestamp": (BASE_SECS * 1_000_000_000 + n).to_string(), "value": format!("{n:0200}")})
        };
        let items: Vec<Value> = (0..ITEMS).map(item).collect();
        match connection.post(&path, "", &json!({"items": items})) {
            Some((200, _)) => writer.acknowledged.store(add + 1, Ordering::Release),
            Some((503, _)) => {}
            Some(other) => panic!("{other:?}"),
            None => return,
        }
    }
}

/// The data directory of a server that starts in this directory.
pub fn data_in(dir: &TempDir) -> PathBuf {
    dir.path().join("data")
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The command that makes this server write a backup.
pub fn backup(server: &Server, to: &Path) -> Command {
    server.command(&["backup", text(to), "--data-dir", text(&data_in(&server.dir))])
}

pub fn run_command(command: &mut Command) -> CommandOutput {
    command.output().unwrap().into()
}

#[test]
fn a_backup_under_load_has_all_writes_acknowledged_before_it() {
    let small = [("LISTSTORE__ITEMS__EMBEDDED__CACHE_BYTES", "4 MiB")];
    let server = Server::start_with(&small);
    server.feature("seen", "string");
    server.feature("renewed", "string");
    server.ok(&["list", "add", "customer", "renewed", "c-1", "--value", "old"]);
    let writers: [Writer; WRITERS] = Default::default();
    let done = AtomicBool::new(false);
    let mut backups = Vec::new();
    std::thread::scope(|scope| {
        for (number, writer) in writers.iter().enumerate() {
            let (address, done) = (server.address(), &done);
            scope.spawn(move || keep_adding(address, number, writer, done));
        }
        for round in 1..=3_u64 {
            while writers.iter().any(|writer| writer.acknowledged.load(Ordering::Acquire) < round * 150) {
                std::thread::yield_now();
            }
            // The list of a recreated feature begins empty, in a backup too.
            server.ok(&["feature", "delete", "customer", "renewed", "-o", "json", "--yes"]);
            server.feature("renewed", "string");
            let before = writers.each_ref().map(|writer| writer.acknowledged.load(Ordering::Acquire));
            let dir = TempDir::new().unwrap();
            let made = run_command(backup(&server, &data_in(&dir)).args(["-o", "json"])).ok();
            let made: Value = serde_json::from_str(&made).unwrap();
            assert_eq!((&made["definitions"], &made["dir"]), (&json!(true), &json!(text(&data_in(&dir)))));
            assert_eq!(made["copied_files"], 0, "a hard link is enough here: {made}");
            backups.push((dir, before, made["data_files"].as_u64().unwrap()));
            server.ok(&["list", "add", "customer", "renewed", "c-1", "--value", "newer than the backup"]);
        }
        server.signal(Signal::SIGKILL);
        done.store(true, Ordering::Release);
    });
    assert!(backups.last().unwrap().2 > 0, "the load was too small for data files");
    let sent = writers.each_ref().map(|writer| writer.sent.load(Ordering::Acquire));
    for (dir, before, _) in backups {
        let checked = run(&["check", "--dir", text(&data_in(&dir))]).ok();
        assert!(checked.ends_with(" is whole\n") && checked.contains("2 features"), "{checked}");
        let server = Server::start_in(dir, "127.0.0.1:0", &small);
        for number in 0..WRITERS {
            let items = server.items("seen", &format!("c-{number}"));
            let adds = items.len() as u64 / ITEMS;
            assert!((before[number]..=sent[number]).contains(&adds), "{adds} adds of {before:?} to {sent:?}");
            let expected = (0..adds * ITEMS).rev().map(|n| format!("\"{n:0200}\""));
            let found = items.iter().map(|item| item.split(' ').nth(1).unwrap().to_owned());
            assert!(found.eq(expected), "list {number} is no beginning of what was added");
        }
        let renewed = server.items("renewed", "c-1");
        assert!(renewed.is_empty(), "{renewed:?}");
        // It is a complete server.
        server.ok(&["list", "add", "customer", "renewed", "c-1", "--value", "on"]);
        assert_eq!(server.items("renewed", "c-1").len(), 1);
    }
}

/// More adds than may wait in the memtable for a flush.
const FILLED: u64 = 1_500;

/// A server with some items in data files, and some in the log.
fn filled() -> Server {
    let server = Server::start_with(&[("LISTSTORE__ITEMS__EMBEDDED__CACHE_BYTES", "4 MiB")]);
    server.feature("seen", "string");
    let writer = Writer::default();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| keep_adding(server.address(), 0, &writer, &done));
        while writer.acknowledged.load(Ordering::Acquire) < FILLED {
            std::thread::yield_now();
        }
        done.store(true, Ordering::Release);
    });
    server
}

#[test]
fn a_flipped_byte_is_reported_with_its_file() {
    let server = filled();
    let dir = TempDir::new().unwrap();
    let to = dir.path().join("backup");
    let made = run_command(&mut backup(&server, &to)).ok();
    assert!(made.starts_with(&format!("backup written to {}", to.display())), "{made}");
    assert!(made.contains("metadata  included"), "{made}");
    drop(server);
    let check = || run(&["check", "--dir", text(&to)]);
    check().ok();
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(to.join("items")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.push(to.join("metadata.redb"));
    assert!(files.iter().filter(|file| file.extension().is_some_and(|kind| kind == "items")).count() > 0, "{files:?}");
    for file in files {
        let whole = std::fs::read(&file).unwrap();
        let mut bytes = whole.clone();
        let at = match file.extension().and_then(|kind| kind.to_str()) {
            // Its first page has the header.
            Some("redb") => 100,
            // The backup omits log changes that data files contain, but never the end of the log.
            Some("log") => whole.len() - 10,
            _ => whole.len() * 2 / 3,
        };
        bytes[at] ^= 1;
        // A replacement, because the server's own directory shares the bytes.
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, bytes).unwrap();
        let finished = check();
        assert_eq!(finished.status, 1, "{}: {finished:?}", file.display());
        assert!(finished.out.contains("FAILED") && finished.err.contains("is incomplete or damaged"), "{finished:?}");
        assert!(finished.out.contains(text(file.parent().unwrap())), "{finished:?}");
        if file.extension().is_some() {
            assert!(finished.out.contains(text(&file)), "{}: {finished:?}", file.display());
        }
        std::fs::write(&file, whole).unwrap();
    }
    check().ok();
}

#[test]
fn a_check_reads_the_directory_of_a_killed_server_and_refuses_that_of_a_running_one() {
    let server = filled();
    let data = data_in(&server.dir);
    let finished = run(&["check", "--dir", text(&data)]);
    assert_eq!(finished.status, 1, "{finished:?}");
    assert!(
        finished.out.contains("is in use by another process") && finished.out.contains("metadata  FAILED"),
        "{finished:?}"
    );
    let (_, _, dir) = server.end(Signal::SIGKILL);
    let state = |data: &Path| {
        let mut files = Vec::new();
        for dir in [data.to_owned(), data.join("items")] {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                files.extend(std::fs::read(&path).ok().map(|bytes| (path, bytes)));
            }
        }
        files.sort();
        files
    };
    let before = state(&data);
    let checked = run(&["check", "--dir", text(&data)]).ok();
    assert!(checked.contains("1 features"), "{checked}");
    assert!(state(&data) == before, "checking has changed something");
    let server = Server::start_in(dir, "127.0.0.1:0", &[]);
    assert!(server.items("seen", "c-0").len() as u64 >= FILLED * ITEMS);
}

#[test]
fn an_existing_target_is_refused_and_left_unchanged() {
    let server = Server::start();
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("precious"), "x").unwrap();
    let reported = run_command(&mut backup(&server, dir.path())).failed(1);
    assert!(reported.contains("is not empty") && reported.contains("backup_dir_not_empty"), "{reported}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    std::fs::create_dir(dir.path().join("other.partial")).unwrap();
    let reported = run_command(&mut backup(&server, &dir.path().join("other"))).failed(1);
    assert!(reported.contains("other.partial exists") && reported.contains("backup_failed"), "{reported}");
    let reported = run_command(&mut backup(&server, &dir.path().join("missing/parent"))).failed(1);
    assert!(reported.contains("missing") && reported.contains("invalid_argument"), "{reported}");
    let empty = dir.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    // A relative path is the caller's.
    let finished = backup(&server, Path::new("empty")).current_dir(dir.path()).output().unwrap();
    assert!(finished.status.success(), "{finished:?}");
    run(&["check", "--dir", text(&empty)]).ok();
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&empty).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o700);
    let missing = run(&["check", "--dir", text(&dir.path().join("nowhere"))]);
    assert_eq!(missing.status, 1, "{missing:?}");
}

/// A relay on the server's machine, a proxy's sidecar, a page in a browser: all of them have a loopback address.
#[test]
fn the_data_port_makes_no_backups() {
    let server = Server::start();
    let dir = TempDir::new().unwrap();
    let to = dir.path().join("backup");
    let mut connection = Connection::open(server.address());
    for header in ["", "X-Forwarded-For: 127.0.0.1\r\n"] {
        let (status, body) = connection.post("/v1/backups", header, &json!({ "dir": text(&to) })).unwrap();
        assert_eq!((status, &body["code"]), (403, &json!("local_only")), "{body}");
        assert!(body["detail"].as_str().unwrap().contains("liststore backup"), "{body}");
    }
    assert!(!to.exists());
}

#[test]
fn requests_over_the_socket_are_validated_like_others() {
    let server = Server::start();
    let dir = TempDir::new().unwrap();
    let to = data_in(&dir);
    let socket = data_in(&server.dir).join("admin.sock");
    let mut connection = Connection(BufReader::new(UnixStream::connect(socket).unwrap()));
    let mut ask = |headers: &str, body: Value| {
        let (status, body) = connection.post("/v1/backups", headers, &body).unwrap();
        (status, body["code"].as_str().unwrap_or_default().to_owned())
    };
    let invalid = (400, "invalid_argument".to_owned());
    assert_eq!(ask("", json!({ "dir": "relative/path" })), invalid);
    assert_eq!(ask("", json!({ "dir": text(&to), "surprise": 1 })), invalid);
    assert_eq!(ask("Liststore-Timeout-Ms: 0\r\n", json!({ "dir": text(&to) })), invalid);
    assert!(!to.exists());
    assert_eq!(ask("", json!({ "dir": text(&to) })), (201, String::new()));
    assert!(to.join("metadata.redb").exists());
    // The audit trail has each of them. After a refused one, another entry shows the effective state.
    assert_eq!(ask("", json!({ "dir": text(&to) })).1, "backup_dir_not_empty");
    let trail = |server: &Server| {
        let printed = server.ok(&["audit", "--target", "backup", "--output", "ndjson"]);
        let entries = printed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let shown = entries.map(|entry| {
            assert_eq!((&entry["by"], &entry["action"]), (&json!("local"), &json!("create_backup")), "{entry}");
            [&entry["before"]["dir"], &entry["after"]["dir"]].map(|dir| dir == text(&to))
        });
        shown.collect::<Vec<_>>()
    };
    assert_eq!(trail(&server), [[true, false], [false, true], [false, true]]);
    // A backup has its own entry.
    assert_eq!(trail(&Server::start_in(dir, "127.0.0.1:0", &[])), [[false, true]]);
}

/// A backup there once made the directory unusable for any server.
#[test]
fn a_backup_never_goes_into_the_data_directory() {
    let server = Server::start();
    server.feature("seen", "string");
    let (data, elsewhere) = (data_in(&server.dir), TempDir::new().unwrap());
    let link = elsewhere.path().join("link");
    std::os::unix::fs::symlink(&data, &link).unwrap();
    std::fs::create_dir(data.join("empty")).unwrap();
    let names = || std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name()).collect::<HashSet<_>>();
    let before = names();
    for to in
        [data.join("new"), data.join("empty"), data.join("items/new"), link.join("new"), data.join("empty/../new")]
    {
        let reported = run_command(&mut backup(&server, &to)).failed(1);
        assert!(reported.contains("is in the data directory") && reported.contains("invalid_argument"), "{reported}");
    }
    let reported = run_command(&mut backup(&server, &data)).failed(1);
    assert!(reported.contains("invalid_argument") || reported.contains("backup_dir_not_empty"), "{reported}");
    assert_eq!(names(), before);
    let (status, log, dir) = server.end(Signal::SIGTERM);
    assert_eq!(status, Some(0), "{log}");
    let again = Server::start_in(dir, "127.0.0.1:0", &[]);
    assert!(again.items("seen", "c-1").is_empty());
}

#[test]
fn the_socket_belongs_to_its_owner_and_ends_with_its_server() {
    let server = Server::start();
    let socket = data_in(&server.dir).join("admin.sock");
    let metadata = std::fs::metadata(&socket).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777, 0o600);
    // A second server that finds the directory locked leaves the first one's socket.
    let mut second = liststore(&["serve", "--listen", "127.0.0.1:0", "--data-dir", text(&data_in(&server.dir))]);
    assert_eq!(run_command(&mut second).status, 1);
    let target = TempDir::new().unwrap();
    run_command(&mut backup(&server, &target.path().join("first"))).ok();
    let (_, _, dir) = server.end(Signal::SIGKILL);
    assert!(dir.path().join("data/admin.sock").exists());
    let data = data_in(&dir);
    let without_server = || run(&["backup", text(&target.path().join("nobody")), "--data-dir", text(&data)]).failed(1);
    assert!(
        without_server().contains("no server answers at") && without_server().contains("--data-dir"),
        "{}",
        without_server()
    );
    let server = Server::start_in(dir, "127.0.0.1:0", &[]);
    run_command(&mut backup(&server, &target.path().join("second"))).ok();
    let (status, log, dir) = server.end(Signal::SIGTERM);
    assert_eq!(status, Some(0), "{log}");
    assert!(!dir.path().join("data/admin.sock").exists());
    assert!(without_server().contains("no server answers at"), "{}", without_server());
}

#[test]
fn remote_stores_name_the_tool_to_use_instead() {
    let dir = TempDir::new().unwrap();
    let to = dir.path().join("backup");
    let memory = Server::start_with(&[("LISTSTORE__ITEMS__STORE", "memory")]);
    let reported = run_command(&mut backup(&memory, &to)).failed(1);
    assert!(reported.contains("items.store is memory") && reported.contains("backup_unsupported"), "{reported}");
    assert!(!to.exists());
    let split = Server::start_with(&[("LISTSTORE__METADATA__STORE", "memory")]);
    let made = run_command(&mut backup(&split, &to)).ok();
    assert!(made.contains("metadata  NOT included"), "{made}");
    let checked = run(&["check", "--dir", text(&to)]).ok();
    assert!(checked.contains("no definitions in this directory"), "{checked}");
}
