//! Faulty peers for the load generator: an HTTP server whose answers a test chooses, and a small part of a Redis.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;

/// The answer of a peer to a request about a list.
pub enum Reply {
    /// Status and body.
    Answer(u16, String),
    /// These bytes as they are.
    Raw(Vec<u8>),
    /// The connection ends.
    HangUp,
}

/// An HTTP server with a feature `bench.lists` that was not loaded. `reply` answers for lists, from the request's
/// number, from 0, and its first line.
pub struct Peer {
    pub url: String,
}

impl Peer {
    pub fn start(reply: impl Fn(u64, &str) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (counter, reply) = (Arc::new(AtomicU64::new(0)), Arc::new(reply));
        // These threads end with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (counter, reply) = (Arc::clone(&counter), Arc::clone(&reply));
                std::thread::spawn(move || serve(stream.unwrap(), &counter, &*reply));
            }
        });
        Self { url }
    }
}

/// Serves one connection until either side closes it.
fn serve(mut stream: TcpStream, requests: &AtomicU64, reply: &dyn Fn(u64, &str) -> Reply) {
    stream.set_nodelay(true).unwrap();
    let mut input = BufReader::new(stream.try_clone().unwrap());
    while let Some(line) = read_request(&mut input) {
        let bytes = if line.contains(" /v1/features") {
            answer(200, &feature())
        } else {
            match reply(requests.fetch_add(1, Ordering::SeqCst), &line) {
                Reply::Answer(status, body) => answer(status, &body),
                Reply::Raw(bytes) => bytes,
                Reply::HangUp => return,
            }
        };
        if stream.write_all(&bytes).is_err() {
            return;
        }
    }
}

/// Reads one request; answers with its first line.
fn read_request(input: &mut impl BufRead) -> Option<String> {
    let mut first = String::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        if input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            input.read_exact(&mut vec![0; length]).ok()?;
            return Some(first);
        }
        if first.is_empty() {
            first = line;
        }
    }
}

fn answer(status: u16, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        .into_bytes()
}

fn feature() -> String {
    json!({
        "entity_type": "bench", "name": "lists", "value_type": "string", "ttl": "30d", "description": "", "owner": "",
        "labels": {}, "versions": [], "created_at": "", "updated_at": "",
    })
    .to_string()
}

pub fn problem(code: &str) -> String {
    json!({"type": "about:blank", "title": "", "status": 503, "code": code, "detail": "", "retryable": true})
        .to_string()
}

/// A get's answer with these items: seconds and values.
pub fn items(items: &[(u64, &str)]) -> String {
    let item = |(second, value): &(u64, &str)| json!({"timestamp": format!("2024-08-29T16:44:{second:02}.000000000Z"), "value": value});
    json!({"items": items.iter().map(item).collect::<Vec<_>>()}).to_string()
}

/// Sorted sets and hashes, by the commands that the generator uses.
#[derive(Default)]
struct Store {
    sets: BTreeMap<String, BTreeMap<String, u64>>,
    hashes: BTreeMap<String, BTreeMap<String, String>>,
}

/// Starts a partial Redis, and returns its address.
pub fn redis() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let store = Arc::new(Mutex::new(Store::default()));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let store = Arc::clone(&store);
            std::thread::spawn(move || {
                let mut stream = stream.unwrap();
                let mut input = BufReader::new(stream.try_clone().unwrap());
                while let Some(words) = read_command(&mut input) {
                    let reply = store.lock().unwrap().run(&words);
                    if stream.write_all(reply.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn read_command(input: &mut impl BufRead) -> Option<Vec<String>> {
    fn number(input: &mut impl BufRead, mark: char) -> Option<usize> {
        let mut line = String::new();
        input.read_line(&mut line).ok()?;
        line.trim_end().strip_prefix(mark)?.parse().ok()
    }
    let mut words = Vec::new();
    for _ in 0..number(input, '*')? {
        let mut word = vec![0; number(input, '$')? + 2];
        input.read_exact(&mut word).ok()?;
        words.push(String::from_utf8(word[..word.len() - 2].to_vec()).unwrap());
    }
    Some(words)
}

impl Store {
    fn run(&mut self, words: &[String]) -> String {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            ["HGETALL", key] => {
                let fields = self.hashes.get(key).into_iter().flatten();
                array(fields.flat_map(|(name, value)| [name.clone(), value.clone()]).collect())
            }
            ["HSET", key, ref fields @ ..] => {
                let hash = self.hashes.entry(key.to_owned()).or_default();
                hash.extend(fields.chunks(2).map(|field| (field[0].to_owned(), field[1].to_owned())));
                ":1\r\n".into()
            }
            ["ZADD", key, ref members @ ..] => {
                let set = self.sets.entry(key.to_owned()).or_default();
                let before = set.len();
                set.extend(members.chunks(2).map(|member| (member[1].to_owned(), member[0].parse().unwrap())));
                format!(":{}\r\n", set.len() - before)
            }
            ["ZREM", key, member] => {
                let removed = self.sets.get_mut(key).and_then(|set| set.remove(member)).is_some();
                format!(":{}\r\n", u8::from(removed))
            }
            ["ZRANGE", key, "0", last, "REV", "WITHSCORES"] => {
                let mut members: Vec<(u64, &String)> =
                    self.sets.get(key).into_iter().flatten().map(|(member, score)| (*score, member)).collect();
                members.sort_by(|a, b| b.cmp(a));
                members.truncate(last.parse::<usize>().unwrap() + 1);
                array(members.into_iter().flat_map(|(score, member)| [member.clone(), score.to_string()]).collect())
            }
            _ => format!("-ERR unknown command '{words:?}'\r\n"),
        }
    }
}

fn array(words: Vec<String>) -> String {
    let bulk = |word: &String| format!("${}\r\n{word}\r\n", word.len());
    format!("*{}\r\n{}", words.len(), words.iter().map(bulk).collect::<String>())
}
