//! A client that checks every answer against the contract before a test sees it.

use std::sync::Once;
use std::time::Duration;

use liststore::domain::{Clock, SystemClock};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::contract::Contract;
use super::sockets::PATIENCE;
use super::support::{self, TestServer, spawn_server};

/// A server and the way to it.
pub struct Api {
    pub server: TestServer,
    http: reqwest::Client,
    /// Where the server's embedded stores are, if it has some.
    _dir: Option<TempDir>,
}

#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// A fresh server with the embedded stores.
pub async fn api() -> Api {
    api_with(&[]).await
}

pub async fn api_with(given: &[(&'static str, &str)]) -> Api {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap().to_owned();
    let mut settings =
        [("items.store", "embedded"), ("metadata.store", "embedded"), ("items.embedded.dir", &path)].to_vec();
    settings.extend(given);
    Api { _dir: Some(dir), ..Api::of(spawn_server(support::settings(&settings)).await).await }
}

/// The path of a list's items; the entity ID is encoded.
pub fn items(feature: &str, entity_id: &str) -> String {
    let entity_id = percent_encoding::utf8_percent_encode(entity_id, percent_encoding::NON_ALPHANUMERIC);
    format!("/v1/lists/user/{feature}/{entity_id}/items")
}

/// A moment some seconds ago, in nanoseconds.
pub fn ago(secs: u64) -> u64 {
    SystemClock.now().as_nanos() - secs * 1_000_000_000
}

/// The body of an add of one item.
pub fn one(timestamp: impl Into<Value>, value: impl Into<Value>) -> Value {
    json!({"items": [{"timestamp": timestamp.into(), "value": value.into()}]})
}

impl Api {
    pub async fn of(server: TestServer) -> Self {
        // Nothing here speaks TLS, but the client is not built without a provider of it.
        static TLS_PROVIDER: Once = Once::new();
        TLS_PROVIDER.call_once(|| rustls::crypto::ring::default_provider().install_default().unwrap());
        let api = Self { server, http: reqwest::Client::new(), _dir: None };
        if Contract::known().is_none() {
            let document = api.http.get(format!("{}/openapi.json", api.server.url)).send().await.unwrap();
            let document = document.json().await.unwrap();
            Contract::get_or_init(|| document);
        }
        api
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], b"").await
    }

    /// A job or an index in a certain state.
    pub async fn until_state(&self, path: &str, state: &str) -> Value {
        let reached = async {
            loop {
                let shown = self.get(path).await.expect(200);
                if shown["state"] == state {
                    return shown;
                }
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(5 * PATIENCE, reached).await.unwrap_or_else(|_| panic!("{path} is never {state}"))
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(Method::POST, path, &[("content-type", "application/json")], body.to_string().as_bytes()).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> Answer {
        self.send(Method::PATCH, path, &[("content-type", "application/json")], body.to_string().as_bytes()).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, &[], b"").await
    }

    pub async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut request = self.http.request(method.clone(), format!("{}{path}", self.server.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if !body.is_empty() {
            request = request.body(body.to_vec());
        }
        let response = request.send().await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut answer = Answer {
            status: response.status().as_u16(),
            headers: response.headers().iter().map(|(n, v)| (n.to_string(), text(v.as_bytes()))).collect(),
            body: response.bytes().await.unwrap().to_vec(),
        };
        let decoded = match answer.header("content-encoding").filter(|_| !answer.body.is_empty()) {
            None => None,
            Some("gzip") => Some(std::io::read_to_string(flate2::read::GzDecoder::new(&*answer.body)).unwrap()),
            Some("zstd") => Some(String::from_utf8(zstd::decode_all(&*answer.body).unwrap()).unwrap()),
            Some(other) => panic!("no test asked for {other}"),
        };
        if let Some(decoded) = decoded {
            answer.body = decoded.into();
        }
        Contract::known().unwrap().check(method.as_str(), path, body, &answer);
        answer
    }

    /// Sends a request as it is, for forms that a client library would change or refuse.
    pub async fn raw(&self, head: &str, body: &[u8]) -> Answer {
        let mut request = format!("{head}\r\nHost: test\r\n").into_bytes();
        if !body.is_empty() && !head.contains("Transfer-Encoding") {
            request.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        }
        request.extend_from_slice(b"\r\n");
        request.extend_from_slice(body);
        let answer = self.exchange(&request).await;
        let mut line = head.split([' ', '\r']);
        let (method, path) = (line.next().unwrap(), line.next().unwrap());
        Contract::known().unwrap().check(method, path, body, &answer);
        answer
    }

    /// Sends bytes and reads the answer.
    pub async fn exchange(&self, request: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.server.address()).await.unwrap();
        stream.write_all(request).await.unwrap();
        let without_body = request.starts_with(b"HEAD ");
        Answer::read(&mut stream, without_body).await
    }

    /// Creates a feature of entity type `user`.
    pub async fn feature(&self, name: &str, value_type: &str, ttl: &str) -> Value {
        let body = json!({"entity_type": "user", "name": name, "value_type": value_type, "ttl": ttl});
        self.post("/v1/features", body).await.expect(201)
    }

    pub async fn add(&self, path: &str, added: &[(u64, Value)]) {
        let items: Vec<_> = added.iter().map(|(t, v)| json!({"timestamp": t, "value": v})).collect();
        let answer = self.post(path, json!({ "items": items })).await.expect(200);
        assert_eq!(answer, json!({"added": added.len(), "already_expired": 0}));
    }

    /// The values of the first page of a list.
    pub async fn values(&self, path: &str) -> Vec<Value> {
        self.get(path).await.values()
    }
}

impl Answer {
    /// Reads one answer from a connection.
    pub async fn read(stream: &mut (impl AsyncRead + Unpin), without_body: bool) -> Self {
        let mut stream = BufReader::with_capacity(1, stream);
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert!(stream.read_line(&mut line).await.unwrap() > 0, "an answer with a head: {lines:?}");
            match line.trim_end() {
                "" => break,
                text => lines.push(text.to_owned()),
            }
        }
        let status = lines.remove(0).split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines.iter().map(|line| line.split_once(": ").unwrap());
        let mut answer = Self {
            status,
            headers: headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect(),
            body: Vec::new(),
        };
        if let Some(length) = answer.header("content-length").filter(|_| !without_body) {
            answer.body.resize(length.parse().unwrap(), 0);
            stream.read_exact(&mut answer.body).await.unwrap();
        }
        answer
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub fn content_type(&self) -> Option<&str> {
        self.header("content-type")
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("no JSON ({e}): {}", self.text()))
    }

    /// The code of a problem, or nothing.
    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    /// The field of a problem.
    pub fn field(&self) -> Option<String> {
        let body: Value = serde_json::from_slice(&self.body).ok()?;
        body["field"].as_str().map(str::to_owned)
    }

    /// The body of an answer with this status.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        if self.body.is_empty() { Value::Null } else { self.json() }
    }

    /// Holds that the request was refused with this code, blaming this field (or none: `""`).
    #[track_caller]
    pub fn refused(&self, code: &str, field: &str) -> Value {
        let found = (self.code(), self.field().unwrap_or_default());
        assert_eq!(found, (code.to_owned(), field.to_owned()), "{}", self.text());
        self.json()
    }

    #[track_caller]
    pub fn values(&self) -> Vec<Value> {
        self.expect(200)["items"].as_array().unwrap().iter().map(|item| item["value"].clone()).collect()
    }

    pub fn etag(&self) -> &str {
        self.header("etag").expect("an entity tag")
    }
}
