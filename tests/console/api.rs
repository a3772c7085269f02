//! A server of one test, and data that reaches it without the console.

use std::cell::RefCell;
use std::rc::Rc;

use futures_util::{StreamExt, stream};
use liststore::domain::{Clock, SystemClock, Timestamp};
use reqwest::Method;
use serde_json::{Value, json};

use crate::page::Page;
use crate::support::{TestServer, settings, spawn_server};

thread_local! {
    /// The servers of the scene that is played.
    static SERVERS: RefCell<Vec<Rc<TestServer>>> = const { RefCell::new(Vec::new()) };
}

/// Ends the servers of a scene, once no page uses them: refusals during loading or polling are in the browser's log.
pub fn end_servers() {
    drop(SERVERS.take());
}

pub struct Api {
    pub server: Rc<TestServer>,
    client: reqwest::Client,
    token: Option<String>,
}

impl Api {
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    pub async fn start_with(given: &[(&'static str, &str)]) -> Self {
        let server = Rc::new(spawn_server(settings(given)).await);
        SERVERS.with_borrow_mut(|servers| servers.push(Rc::clone(&server)));
        Self { server, client: reqwest::Client::new(), token: None }
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.server.url)
    }

    /// Sends, and reads the answer's JSON; the answer must be a success.
    pub async fn send(&self, method: Method, path: &str, body: Value) -> Value {
        serde_json::from_str(&self.send_for_text(method, path, body).await).unwrap_or_default()
    }

    /// As the server wrote it.
    pub async fn send_for_text(&self, method: Method, path: &str, body: Value) -> String {
        let mut request = self.client.request(method, self.url(path)).header("Liststore-User", "ada");
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if !body.is_null() {
            request = request.json(&body);
        }
        let answer = request.send().await.unwrap();
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        assert!(status.is_success(), "{path}: {status} {text}");
        text
    }

    pub async fn get(&self, path: &str) -> Value {
        self.send(Method::GET, path, Value::Null).await
    }

    pub async fn feature(&self, name: &str, value_type: &str, ttl: &str) {
        let body = json!({"entity_type": "user", "name": name, "value_type": value_type, "ttl": ttl});
        self.send(Method::POST, "/v1/features", body).await;
    }

    /// Creates many features of text.
    pub async fn features(&self, names: impl Iterator<Item = String>) {
        let created = |name: String| async move { self.feature(&name, "string", "30d").await };
        stream::iter(names).for_each_concurrent(64, created).await;
    }

    /// Adds items of the list of user u-1, with how many seconds ago they happened.
    pub async fn add(&self, feature: &str, items: &[(u64, Value)]) {
        let items: Vec<_> =
            items.iter().map(|(ago, value)| json!({"timestamp": ago_text(*ago), "value": value})).collect();
        self.send(Method::POST, &format!("/v1/lists/user/{feature}/u-1/items"), json!({"items": items})).await;
    }

    /// Says that users may have bags.
    pub async fn users(&self) {
        self.send(Method::POST, "/v1/entity-types", json!({"entity_type": "user", "ttl": "365d"})).await;
    }

    /// Puts the bag of a user.
    pub async fn bag(&self, id: &str, bag: Value) {
        self.send(Method::PUT, &format!("/v1/entities/user/{id}"), bag).await;
    }

    /// Creates a key. From the first one on, this API uses it.
    pub async fn key(&mut self, name: &str, roles: &[&str], scopes: &[&str]) -> String {
        let mut body = json!({"name": name, "roles": roles});
        if !scopes.is_empty() {
            body["scopes"] = json!(scopes);
        }
        let made = self.send(Method::POST, "/v1/keys", body).await;
        let token = made["token"].as_str().unwrap().to_owned();
        self.token.get_or_insert_with(|| token.clone());
        token
    }
}

/// So many seconds ago, in RFC 3339.
pub fn ago_text(seconds: u64) -> String {
    let now = SystemClock.now().as_nanos();
    Timestamp::from_nanos(now - seconds * 1_000_000_000).unwrap().to_string()
}

/// Signs in with a key.
pub async fn sign_in(page: &Page, token: &str) {
    page.fill_the("textbox", "API key", token).await;
    page.click("button", "Sign in").await;
}
