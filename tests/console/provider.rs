//! An identity provider of a test, as permissive as the worst: only the console's requests are correct.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use liststore::domain::{Clock, SystemClock};
use reqwest::Url;
use ring::digest;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::test_tokens::{Signer, header, signed};

pub const CLIENT: &str = "liststore-console";

pub struct Provider {
    pub url: String,
    reported: Arc<Reported>,
}

/// The lies of a compromised provider.
#[derive(Debug, Clone, PartialEq)]
pub enum Lie {
    /// That it is another one.
    OtherIssuer,
    /// The address for exchanging a code.
    TokensAt(String),
    /// Redirects requests for tokens.
    LedTo(String),
    /// A token of another sign-in.
    OtherNonce,
}

struct Reported {
    url: String,
    signer: Signer,
    /// The request of the last person, and the codes that were given for it, each valid once.
    asked: Mutex<HashMap<String, String>>,
    exchanges: Mutex<Vec<u16>>,
    lie: Mutex<Option<Lie>>,
}

impl Provider {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (asked, exchanges, lie) = (Mutex::default(), Mutex::default(), Mutex::default());
        let reported = Arc::new(Reported { url: url.clone(), signer: Signer::ed(), asked, exchanges, lie });
        let provider = Self { url, reported: Arc::clone(&reported) };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, Arc::clone(&reported)));
            }
        });
        provider
    }

    /// The value of `access.jwt.issuers`.
    pub fn settings(&self) -> String {
        let rules = json!([{"claim": "sub", "value": "alice", "roles": ["admin"]}]);
        json!([{
            "issuer": self.url, "audience": "liststore", "jwks_url": format!("{}/jwks", self.url), "rules": rules,
            "client_id": CLIENT, "console_scopes": ["openid", "groups"],
        }])
        .to_string()
    }

    pub fn lie(&self, lie: Option<Lie>) {
        *self.reported.lie.lock().unwrap() = lie;
    }

    /// The statuses of token requests.
    pub fn exchanges(&self) -> Vec<u16> {
        self.reported.exchanges.lock().unwrap().clone()
    }
}

async fn answer(stream: TcpStream, reported: Arc<Reported>) -> Option<()> {
    let mut stream = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    stream.read_line(&mut first).await.ok()?;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = text.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let target = first.split(' ').nth(1)?;
    let url = Url::parse(&format!("{}{target}", reported.url)).ok()?;
    let lie = reported.lie.lock().unwrap().clone();
    let mut location = String::new();
    let (status, kind, text) = match url.path() {
        "/.well-known/openid-configuration" => (200, "application/json", reported.description().to_string()),
        "/jwks" => (200, "application/json", json!({"keys": [reported.signer.jwk("k")]}).to_string()),
        "/authorize" => (200, "text/html", reported.page(&url)),
        "/token" if matches!(lie, Some(Lie::LedTo(_))) => {
            let Some(Lie::LedTo(to)) = lie else { return None };
            location = format!("Location: {to}\r\n");
            (307, "text/plain", String::new())
        }
        "/token" => {
            let (status, tokens) = reported.tokens(&String::from_utf8(body).ok()?);
            reported.exchanges.lock().unwrap().push(status);
            (status, "application/json", tokens.to_string())
        }
        // Browsers request an icon.
        _ => (204, "text/plain", String::new()),
    };
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nAccess-Control-Allow-Origin: *\r\n\
         {location}Connection: close\r\n\r\n",
        text.len()
    );
    stream.write_all((head + &text).as_bytes()).await.ok()
}

impl Reported {
    fn description(&self) -> Value {
        let Self { url, .. } = self;
        let [authorization, token] = ["authorize", "token"].map(|path| format!("{url}/{path}"));
        let (issuer, token) = match &*self.lie.lock().unwrap() {
            Some(Lie::OtherIssuer) => ("https://id.example.org", token),
            Some(Lie::TokensAt(elsewhere)) => (url.as_str(), elsewhere.clone()),
            _ => (url.as_str(), token),
        };
        json!({"issuer": issuer, "authorization_endpoint": authorization, "token_endpoint": token})
    }

    /// The page on which a person signs in.
    fn page(&self, url: &Url) -> String {
        let asked: HashMap<String, String> = url.query_pairs().into_owned().collect();
        let mut back = Url::parse(&asked["redirect_uri"]).unwrap();
        back.query_pairs_mut().append_pair("code", "c-1").append_pair("state", &asked["state"]);
        *self.asked.lock().unwrap() = asked;
        let back = back.as_str().replace('&', "&amp;");
        format!(
            "<!doctype html><html lang=en><title>Who?</title><h1>Who are you?</h1><a href=\"{back}\">I am alice</a>"
        )
    }

    fn tokens(&self, body: &str) -> (u16, Value) {
        let sent = Url::parse(&format!("http://x/?{body}")).unwrap();
        let sent: HashMap<String, String> = sent.query_pairs().into_owned().collect();
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        let text = |map: &HashMap<String, String>, name: &str| map.get(name).cloned().unwrap_or_default();
        let verifier = text(&sent, "code_verifier");
        let challenge = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.as_bytes()));
        let fits = [
            text(&sent, "grant_type") == "authorization_code",
            text(&sent, "code") == "c-1",
            text(&sent, "client_id") == CLIENT && text(&asked, "client_id") == CLIENT,
            text(&sent, "redirect_uri") == text(&asked, "redirect_uri"),
            text(&asked, "code_challenge_method") == "S256" && text(&asked, "code_challenge") == challenge,
            text(&asked, "response_type") == "code" && text(&asked, "scope") == "openid groups",
            verifier.len() >= 43,
        ];
        if fits.contains(&false) {
            return (400, json!({"error": "invalid_grant", "error_description": format!("{fits:?}")}));
        }
        let until = SystemClock.now().as_nanos() / 1_000_000_000 + 600;
        let claims = |audience: &str| json!({"iss": self.url, "aud": audience, "sub": "alice", "exp": until});
        let mut id = claims(CLIENT);
        let is_other = *self.lie.lock().unwrap() == Some(Lie::OtherNonce);
        id["nonce"] = json!(if is_other { "n-0".to_owned() } else { text(&asked, "nonce") });
        let token = |claims: &Value| signed(&self.signer, &header("EdDSA"), claims);
        (200, json!({"token_type": "Bearer", "access_token": token(&claims("liststore")), "id_token": token(&id)}))
    }
}
