//! A server whose first answers to what creates definitions are lost.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use serde_json::json;

use crate::callers::ask;

const CREATES: [&str; 4] = ["/features", "/versions", "/entity-types", "/indexes"];

/// In front of a server: definitions are created, but whoever asked first is told that nobody knows.
pub fn in_doubt(address: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut told = BTreeSet::new();
        // The commands ask one thing after another.
        while let Ok((stream, _)) = listener.accept() {
            let mut stream = BufReader::new(stream);
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
            let mut words = first.split(' ');
            let (method, path) = (words.next().unwrap(), words.next().unwrap());
            let answer = ask(&address, method, path, std::str::from_utf8(&body).unwrap());
            let creates = method == "POST" && CREATES.iter().any(|end| path.ends_with(end));
            let (status, body) = if creates && answer.status == 201 && told.insert(body) {
                let doubt = json!({
                    "type": "urn:liststore:problem:deadline_exceeded", "title": "late", "status": 504,
                    "code": "deadline_exceeded", "detail": "late", "retryable": true, "outcome_unknown": true,
                });
                (504, doubt)
            } else {
                (answer.status, answer.body)
            };
            let body = body.to_string();
            let head = format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
            let kind = if status < 400 { "json" } else { "problem+json" };
            let answer = format!("{head}Content-Type: application/{kind}\r\n\r\n{body}");
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
        }
    });
    url
}
