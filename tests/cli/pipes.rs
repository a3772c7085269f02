//! `import` from a pipe: rows do not wait for its end, and an interruption loses no row that was read.

use std::io::Write;
use std::os::fd::AsFd;
use std::process::Child;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::program::{Server, signal};

fn follow(server: &Server) -> Child {
    server.spawn(&["import", "customer", "seen", "-", "--format", "ndjson"])
}

fn row(entity_id: &str, n: usize) -> String {
    format!("{{\"entity_id\":\"{entity_id}\",\"timestamp\":{},\"value\":\"x\"}}\n", 1_760_000_000_000_000_000 + n)
}

fn write(process: &mut Child, entity_id: &str) {
    process.stdin.as_mut().unwrap().write_all(row(entity_id, 0).as_bytes()).unwrap();
}

/// Waits until a condition holds.
fn await_that(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn rows_of_a_pipe_are_sent_before_it_ends() {
    let server = Server::start();
    server.feature("seen", "string");
    let mut process = follow(&server);
    for entity_id in ["a", "b"] {
        write(&mut process, entity_id);
        await_that("the row is stored while the pipe is open", || server.items("seen", entity_id).len() == 1);
    }
    drop(process.stdin.take());
    let output = process.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8(output.stdout).unwrap().starts_with("2 rows: 2 items added"));
}

/// A reader takes many rows from a pipe at once, and cannot give them back.
#[test]
fn an_interruption_loses_no_row_that_was_taken_from_a_pipe() {
    const ROWS: usize = 700;
    let server = Server::start();
    server.feature("seen", "string");
    let mut process = follow(&server);
    write(&mut process, "a");
    await_that("the import has begun", || server.items("seen", "a").len() == 1);
    let rows: String = (0..ROWS).map(|n| row("b", n)).collect();
    // The reader gets them in one piece.
    assert!(rows.len() < 64 << 10, "{}", rows.len());
    let mut pipe = process.stdin.take().unwrap();
    pipe.write_all(rows.as_bytes()).unwrap();
    await_that("the rows are taken", || rustix::io::ioctl_fionread(&pipe).unwrap() == 0);
    signal(&process, Signal::SIGINT);
    let output = process.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted; all rows that were read are sent"));
    let counted = server.ok(&["list", "count", "customer", "seen", "b"]);
    assert!(counted.starts_with(&ROWS.to_string()), "{counted}");
    drop(pipe);
}

#[test]
fn an_interrupted_import_sends_rows_already_read_from_a_pipe() {
    let server = Server::start();
    server.feature("seen", "string");
    let mut process = follow(&server);
    write(&mut process, "a");
    await_that("the import has begun", || server.items("seen", "a").len() == 1);
    write(&mut process, "b");
    let pipe = process.stdin.take().unwrap();
    await_that("the row is read", || rustix::io::ioctl_fionread(&pipe).unwrap() == 0);
    // When a command has ended, the row has been read too.
    server.ok(&["list", "count", "customer", "seen", "b"]);
    signal(&process, Signal::SIGINT);
    let output = process.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted; all rows that were read are sent"));
    assert_eq!(server.items("seen", "b").len(), 1);
    drop(pipe);
}

/// The encoder's writer flushes, such as a program that writes a log.
#[test]
fn rows_of_a_compressed_pipe_are_sent_as_those_of_another_one() {
    const ROWS: usize = 700;
    let server = Server::start();
    server.feature("seen", "string");
    for coding in ["gzip", "zstd"] {
        let mut process = follow(&server);
        let pipe = process.stdin.take().unwrap();
        let peek = pipe.as_fd().try_clone_to_owned().unwrap();
        let mut encoder: Box<dyn Write> = match coding {
            "gzip" => Box::new(flate2::write::GzEncoder::new(pipe, flate2::Compression::default())),
            _ => Box::new(zstd::Encoder::new(pipe, zstd::DEFAULT_COMPRESSION_LEVEL).unwrap()),
        };
        let mut write = |rows: String| {
            encoder.write_all(rows.as_bytes()).unwrap();
            encoder.flush().unwrap();
        };
        for n in 0..2 {
            let entity_id = format!("{coding}{n}");
            write(row(&entity_id, 0));
            await_that("the row is stored while the pipe is open", || server.items("seen", &entity_id).len() == 1);
        }
        write((0..ROWS).map(|n| row(coding, n)).collect());
        await_that("the rows are taken", || rustix::io::ioctl_fionread(&peek).unwrap() == 0);
        signal(&process, Signal::SIGINT);
        let output = process.wait_with_output().unwrap();
        assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted; all rows that were read are sent"));
        let counted = server.ok(&["list", "count", "customer", "seen", coding]);
        assert!(counted.starts_with(&ROWS.to_string()), "{coding}: {counted}");
    }
}
