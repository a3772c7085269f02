//! Callers that keep a server busy during a test: plain HTTP/1.1 connections, each with one request at a time, and a
//! record of their answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

/// 2026-01-01: items live for 20 years.
const EPOCH_NANOS: u64 = 1_767_225_600_000_000_000;
/// Longer than any operation of the server.
const TIMEOUT: Duration = Duration::from_secs(30);

pub struct Answer {
    pub status: u16,
    /// The values of a header.
    headers: Vec<(String, String)>,
    pub body: Value,
    pub took: Duration,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    pub fn has_connection_close(&self) -> bool {
        self.header("connection") == Some("close")
    }

    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.body
    }
}

/// One connection.
pub struct Caller {
    stream: TcpStream,
    input: BufReader<TcpStream>,
}

impl Caller {
    pub fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self { input: BufReader::new(stream.try_clone().unwrap()), stream }
    }

    /// Sends a request; `None` if the server ended the connection instead of answering.
    pub fn ask(&mut self, method: &str, path: &str, body: &str) -> Option<Answer> {
        let began = Instant::now();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: liststore\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.write_all(request.as_bytes()).ok()?;
        let mut line = String::new();
        if self.input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let status = line.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        loop {
            line.clear();
            self.input.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        let len = headers.iter().find(|(name, _)| name == "content-length");
        let mut body = vec![0; len.map_or(0, |(_, value)| value.parse().unwrap())];
        self.input.read_exact(&mut body).unwrap();
        let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
        Some(Answer { status, headers, body, took: began.elapsed() })
    }
}

/// A request on a separate connection.
pub fn ask(address: &str, method: &str, path: &str, body: &str) -> Answer {
    Caller::connect(address).ask(method, path, body).expect("the connection was ended")
}

/// The answers to one caller.
#[derive(Default)]
pub struct Reported {
    /// The values that were acknowledged.
    pub added: Vec<String>,
    pub gets: usize,
    pub slowest: Duration,
    /// Answers that are neither a success nor the refusal of a stopping server.
    pub wrong: Vec<String>,
    /// When the caller sent the request that the server answered by closing the connection, if it did.
    pub cut_at: Option<Instant>,
}

/// Callers that alternately add to a separate list and read it, until the test stops them or the server closes the
/// connection.
pub struct Load {
    stop: Arc<AtomicBool>,
    callers: Vec<JoinHandle<Reported>>,
}

impl Load {
    pub fn start(address: &str, path: impl Fn(usize) -> String, callers: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let callers = (0..callers)
            .map(|number| {
                let (stop, path, mut caller) = (Arc::clone(&stop), path(number), Caller::connect(address));
                std::thread::spawn(move || call(&mut caller, &path, number, &stop))
            })
            .collect();
        Self { stop, callers }
    }

    pub fn end(self) -> Vec<Reported> {
        self.stop.store(true, Ordering::SeqCst);
        self.callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    }
}

fn call(caller: &mut Caller, path: &str, number: usize, stop: &AtomicBool) -> Reported {
    let mut reported = Reported::default();
    for turn in 0.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let value = format!("{number}-{turn}");
        let body = format!(r#"{{"items":[{{"timestamp":{},"value":"{value}"}}]}}"#, EPOCH_NANOS + turn);
        let (method, body) = if turn % 2 == 0 { ("POST", body.as_str()) } else { ("GET", "") };
        let began = Instant::now();
        let Some(answer) = caller.ask(method, path, body) else {
            reported.cut_at = Some(began);
            break;
        };
        let draining = answer.status == 503 && answer.body["code"] == "draining";
        match (method, answer.status) {
            ("POST", 200) => reported.added.push(value),
            ("GET", 200) => reported.gets += 1,
            _ if draining => {}
            _ => reported.wrong.push(format!("{}: {}", answer.status, answer.body)),
        }
        reported.slowest = reported.slowest.max(answer.took);
        if answer.has_connection_close() {
            break;
        }
    }
    reported
}
