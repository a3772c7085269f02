//! Identity providers of tests: their tokens, and servers of their keys that can fail.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::client::ago;
use super::test_tokens::{Signer, header, signed, with};

pub const ISSUER: &str = "https://id.example.org";
const NANOS: u64 = 1_000_000_000;

/// Tokens, and the settings of a server that accepts them.
pub struct Issued {
    signer: Signer,
    dir: TempDir,
}

impl Issued {
    /// The keys are in a file.
    pub fn by_file() -> Self {
        let (signer, dir) = (Signer::ed(), tempfile::tempdir().unwrap());
        fs::write(dir.path().join("jwks.json"), key_set(&[signer.jwk("k")])).unwrap();
        Self { signer, dir }
    }

    pub fn settings(&self) -> String {
        settings(&json!({"jwks_file": self.dir.path().join("jwks.json")}))
    }

    /// A token of a person in these groups.
    pub fn token(&self, subject: &str, groups: &[&str]) -> String {
        signed(&self.signer, &header("EdDSA"), &claims(subject, groups))
    }

    pub fn forged(&self, subject: &str, groups: &[&str]) -> String {
        signed(&Signer::ed(), &header("EdDSA"), &claims(subject, groups))
    }

    pub fn expired(&self, subject: &str, groups: &[&str]) -> String {
        let claims = with(&claims(subject, groups), &json!({"exp": ago(60) / NANOS}));
        signed(&self.signer, &header("EdDSA"), &claims)
    }

    /// Signed with a key that its issuer has removed.
    pub fn signed_with_removed_key(&self, subject: &str, groups: &[&str]) -> String {
        signed(&Signer::ed(), &with(&header("EdDSA"), &json!({"kid": "gone"})), &claims(subject, groups))
    }
}

pub fn claims(subject: &str, groups: &[&str]) -> Value {
    json!({"iss": ISSUER, "aud": ["liststore"], "sub": subject, "exp": ago(0) / NANOS + 3_600, "groups": groups})
}

pub fn key_set(keys: &[Value]) -> String {
    json!({ "keys": keys }).to_string()
}

/// The value of `access.jwt.issuers`, for an issuer with keys at this place.
pub fn settings(place: &Value) -> String {
    let all_roles = ["reader", "writer", "editor", "scaler", "operator", "admin"];
    let rules = json!([
        {"claim": "groups", "value": "admins", "roles": ["admin"]},
        {"claim": "groups", "value": "readers", "roles": ["reader"]},
        {"claim": "groups", "value": "others", "roles": all_roles, "scopes": ["customer.*"]},
        {"claim": "groups", "value": "deputies", "roles": ["editor"], "acts_for_others": true},
        {"claim": "sub", "value": "system:serviceaccount:feeds:*", "roles": "writer", "scopes": "user.*"},
    ]);
    let issuer = json!({"issuer": ISSUER, "audience": "liststore", "leeway_secs": 30, "rules": rules});
    json!([with(&issuer, place)]).to_string()
}

/// The answer of the issuer's server.
#[derive(Debug, Clone)]
pub enum IssuerResponse {
    Keys(String),
    Status(&'static str),
    /// Nothing, until the other end gives up.
    Nothing,
    /// Without end.
    Endless,
    /// These keys, a byte now and then, which would take minutes.
    Trickle(String),
    /// This many bytes, announced before.
    Announced(u64),
    Redirect(String),
}

/// An issuer's server on loopback.
pub struct Issuer {
    pub url: String,
    pub response: Arc<Mutex<IssuerResponse>>,
    pub asked: Arc<AtomicUsize>,
}

impl Issuer {
    pub async fn start(response: IssuerResponse) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/jwks", listener.local_addr().unwrap());
        let (response, asked) = (Arc::new(Mutex::new(response)), Arc::new(AtomicUsize::new(0)));
        let issuer = Self { url, response: Arc::clone(&response), asked: Arc::clone(&asked) };
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let response = response.lock().unwrap().clone();
                asked.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    let _ = stream.read(&mut [0; 4096]).await;
                    let _ = match response {
                        IssuerResponse::Keys(text) => stream.write_all(answer("200 OK", "", &text).as_bytes()).await,
                        IssuerResponse::Status(status) => stream.write_all(answer(status, "", "").as_bytes()).await,
                        IssuerResponse::Redirect(to) => {
                            let location = format!("Location: {to}\r\n");
                            stream.write_all(answer("302 Found", &location, "").as_bytes()).await
                        }
                        IssuerResponse::Nothing => stream.read(&mut [0; 1]).await.map(drop),
                        IssuerResponse::Trickle(text) => {
                            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", text.len());
                            let mut written = stream.write_all(head.as_bytes()).await;
                            for byte in text.bytes() {
                                if written.is_err() {
                                    break;
                                }
                                tokio::time::sleep(Duration::from_millis(200)).await;
                                written = stream.write_all(&[byte]).await;
                            }
                            written
                        }
                        IssuerResponse::Announced(bytes) => {
                            let head =
                                format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\nConnection: close\r\n\r\n");
                            let mut written = stream.write_all(head.as_bytes()).await;
                            for _ in 0..bytes / 4096 {
                                written = written.and(stream.write_all(&[b' '; 4096]).await);
                            }
                            written
                        }
                        IssuerResponse::Endless => {
                            let head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"keys\":[";
                            let mut written = stream.write_all(head.as_bytes()).await;
                            while written.is_ok() {
                                written = stream.write_all(&[b' '; 4096]).await;
                            }
                            written
                        }
                    };
                });
            }
        });
        issuer
    }

    pub fn respond_with(&self, response: IssuerResponse) {
        *self.response.lock().unwrap() = response;
    }

    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    pub fn settings(&self) -> String {
        settings(&json!({"jwks_url": self.url}))
    }
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}
