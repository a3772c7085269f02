//! Late servers: the first answers to creations are lost, or all answers after a certain one wait.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::callers::ask;

const CREATES: [&str; 4] = ["/features", "/versions", "/entity-types", "/indexes"];

/// A proxy of a server: definitions are created, but the first answer states an unknown outcome.
pub fn in_doubt(address: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut reported = BTreeSet::new();
        // The commands send one request after another.
        while let Ok((stream, _)) = listener.accept() {
            let mut stream = BufReader::new(stream);
            let (method, path, body) = request(&mut stream);
            let answer = ask(&address, &method, &path, &body);
            let creates = method == "POST" && CREATES.iter().any(|end| path.ends_with(end));
            let (status, body) = if creates && answer.status == 201 && reported.insert(body) {
                let doubt = json!({
                    "type": "/docs/errors/deadline_exceeded", "title": "late", "status": 504,
                    "code": "deadline_exceeded", "detail": "late", "retryable": true, "outcome_unknown": true,
                });
                (504, doubt)
            } else {
                (answer.status, answer.body)
            };
            respond(stream.get_mut(), status, &body).unwrap();
        }
    });
    url
}

/// A proxy of a server whose reads of items fail.
pub fn unreadable(address: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let mut stream = BufReader::new(stream);
            let (method, path, body) = request(&mut stream);
            let (status, body) = if method == "GET" && path.contains("/items") {
                let refused = json!({
                    "type": "/docs/errors/permission_denied", "title": "denied", "status": 403,
                    "code": "permission_denied", "detail": "may not read", "retryable": false,
                });
                (403, refused)
            } else {
                let answer = ask(&address, &method, &path, &body);
                (answer.status, answer.body)
            };
            respond(stream.get_mut(), status, &body).unwrap();
        }
    });
    url
}

/// A proxy of a server: the first requests are answered, and later ones wait until the gate opens.
pub struct Gate {
    pub url: String,
    answers: Arc<(Mutex<usize>, Condvar)>,
    waiting: Receiver<()>,
}

impl Gate {
    pub fn start(address: String, answers: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answers = Arc::new((Mutex::new(answers), Condvar::new()));
        let (held_back, waiting) = sync_channel(100);
        let shared = Arc::clone(&answers);
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let mut stream = BufReader::new(stream);
                let (method, path, body) = request(&mut stream);
                let (left, opened) = &*shared;
                let mut left = left.lock().unwrap();
                if *left == 0 && held_back.send(()).is_err() {
                    return;
                }
                left = opened.wait_while(left, |left| *left == 0).unwrap();
                *left -= 1;
                drop(left);
                let answer = ask(&address, &method, &path, &body);
                // A caller that was killed reads no answer.
                let _gone = respond(stream.get_mut(), answer.status, &answer.body);
            }
        });
        Self { url, answers, waiting }
    }

    /// Waits for the first blocked request.
    pub fn until_closed(&self) {
        self.waiting.recv_timeout(Duration::from_secs(120)).unwrap();
    }

    pub fn open(&self) {
        *self.answers.0.lock().unwrap() = usize::MAX;
        self.answers.1.notify_all();
    }
}

/// Reads a request: its method, path and body.
fn request(stream: &mut BufReader<TcpStream>) -> (String, String, String) {
    let (mut first, mut length) = (String::new(), 0);
    stream.read_line(&mut first).unwrap();
    let mut line = String::from("...");
    while line.trim_end() != "" {
        line.clear();
        stream.read_line(&mut line).unwrap();
        if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = text.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    let mut words = first.split(' ').map(str::to_owned);
    (words.next().unwrap(), words.next().unwrap(), String::from_utf8(body).unwrap())
}

fn respond(stream: &mut TcpStream, status: u16, body: &Value) -> std::io::Result<()> {
    let body = body.to_string();
    let head = format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    let kind = if status < 400 { "json" } else { "problem+json" };
    stream.write_all(format!("{head}Content-Type: application/{kind}\r\n\r\n{body}").as_bytes())
}
