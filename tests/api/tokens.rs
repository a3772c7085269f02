//! Tokens of identity providers: issuers that rotate their keys, are unavailable or slow, or lie.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::StreamExt;
use futures_util::future::join_all;
use reqwest::Method;
use ring::hmac;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::client::{Answer, Api, api_with};
use super::issuers::{ISSUER, Issued, Issuer, IssuerResponse, claims, key_set};
use super::sockets::PATIENCE;
use super::test_tokens::{Signer, header, message, signed, with, with_signature};

async fn ask(api: &Api, token: &str) -> Answer {
    let authorization = format!("Bearer {token}");
    api.send(Method::GET, "/v1/features", &[("authorization", &authorization)], b"").await
}

async fn server(issuer: &Issuer) -> Api {
    api_with(&[("access.jwt.issuers", &issuer.settings())]).await
}

#[tokio::test]
async fn a_token_of_an_issuer_has_the_roles_of_its_claims() {
    let signer = Signer::rsa(2048);
    let issuer = Issuer::start(IssuerResponse::Keys(key_set(&[signer.jwk("k")]))).await;
    let api = server(&issuer).await;
    let token = |subject: &str, groups: &[&str]| signed(&signer, &header("RS256"), &claims(subject, groups));
    wait_for_status_other_than(503, &api, &token("alice", &["readers"])).await.expect(200);
    ask(&api, &token("alice", &[])).await.refused("permission_denied", "");
    api.get("/v1/features").await.refused("unauthenticated", "");
    let send = async |token: &str, user: Option<&str>, name: &str, entity_type: &str| {
        let feature = json!({"entity_type": entity_type, "name": name, "value_type": "string", "ttl": "1h"});
        let authorization = format!("Bearer {token}");
        let mut headers = vec![("authorization", &*authorization), ("content-type", "application/json")];
        headers.extend(user.map(|user| ("liststore-user", user)));
        api.send(Method::POST, "/v1/features", &headers, feature.to_string().as_bytes()).await
    };
    send(&token("root", &["admins"]), Some("mallory"), "seen", "user").await.expect(201);
    send(&token("ui", &["deputies"]), Some("alice"), "read", "user").await.expect(201);
    send(&token("alice", &["readers"]), None, "none", "user").await.refused("permission_denied", "");
    let audit = with_path(&api, &token("root", &["admins"]), "/v1/audit").await.expect(200);
    let by = |n: usize| (audit["changes"][n]["by"].clone(), audit["changes"][n]["on_behalf_of"].clone());
    assert_eq!(by(0), (json!("jwt:ui"), json!("alice")));
    // A person acts for themselves, with any statement.
    assert_eq!(by(1), (json!("jwt:root"), Value::Null));
    // A service account of Kubernetes, within its scopes.
    let account = token("system:serviceaccount:feeds:writer", &[]);
    with_path(&api, &account, "/v1/lists/user/seen/u/items").await.expect(200);
    with_path(&api, &account, "/v1/lists/customer/seen/u/items").await.refused("permission_denied", "");
    let other = token("system:serviceaccount:other:writer", &[]);
    with_path(&api, &other, "/v1/lists/user/seen/u/items").await.refused("permission_denied", "");
}

async fn with_path(api: &Api, token: &str, path: &str) -> Answer {
    let authorization = format!("Bearer {token}");
    api.send(Method::GET, path, &[("authorization", &authorization)], b"").await
}

/// Signed with the public key, which everyone has.
#[tokio::test]
async fn a_public_rsa_key_is_not_a_shared_secret() {
    let signer = Signer::rsa(2048);
    let weak = with(&header("RS256"), &json!({"kid": "short"}));
    let (short, weakly_signed) = weak_rsa("short", &message(&weak, &claims("a", &["admins"])));
    let issuer = Issuer::start(IssuerResponse::Keys(key_set(&[signer.jwk("k"), short]))).await;
    let api = server(&issuer).await;
    wait_for_status_other_than(503, &api, &signed(&signer, &header("RS256"), &claims("a", &["admins"])))
        .await
        .expect(200);
    let forged = message(&header("HS256"), &claims("a", &["admins"]));
    let jwk = signer.jwk("k").to_string();
    for secret in [signer.public(), jwk.as_bytes(), b""] {
        let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), forged.as_bytes());
        ask(&api, &with_signature(&forged, mac.as_ref())).await.refused("unauthenticated", "");
    }
    ask(&api, &weakly_signed).await.refused("unauthenticated", "");
}

/// A key of 1,024 bits, and a token that it has signed. ring would not.
fn weak_rsa(kid: &str, message: &str) -> (Value, String) {
    let dir = tempfile::tempdir().unwrap();
    let openssl = |arguments: &str| {
        let output = Command::new("openssl").args(arguments.split(' ')).current_dir(dir.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    openssl("genrsa -out key.pem 1024");
    fs::write(dir.path().join("message"), message).unwrap();
    let signature = openssl("dgst -sha256 -sign key.pem message");
    let modulus = String::from_utf8(openssl("rsa -in key.pem -modulus -noout")).unwrap();
    let digits = modulus.trim().strip_prefix("Modulus=").unwrap();
    let bytes = (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap());
    let modulus = URL_SAFE_NO_PAD.encode(bytes.collect::<Vec<_>>());
    (json!({"kty": "RSA", "kid": kid, "n": modulus, "e": "AQAB"}), with_signature(message, &signature))
}

/// The first answer of another status.
async fn wait_for_status_other_than(status: u16, api: &Api, token: &str) -> Answer {
    let other = async {
        loop {
            let answer = ask(api, token).await;
            if answer.status != status {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, other).await.unwrap_or_else(|_| panic!("{status} is all that is answered"))
}

#[tokio::test]
async fn rotated_keys_are_found_and_requested_at_a_bounded_rate() {
    let (old, new) = (Signer::ed(), Signer::ed());
    let issuer = Issuer::start(IssuerResponse::Keys(key_set(&[old.jwk("k")]))).await;
    let api = server(&issuer).await;
    let first = signed(&old, &header("EdDSA"), &claims("alice", &["readers"]));
    wait_for_status_other_than(503, &api, &first).await.expect(200);
    issuer.respond_with(IssuerResponse::Keys(key_set(&[new.jwk("k2")])));
    let second = signed(&new, &with(&header("EdDSA"), &json!({"kid": "k2"})), &claims("alice", &["readers"]));
    // A little later, if the server had just read them.
    wait_for_status_other_than(401, &api, &second).await.expect(200);
    ask(&api, &first).await.refused("unauthenticated", "");
    let (asked, began) = (issuer.asked(), Instant::now());
    for n in 0..200 {
        let unknown = with(&header("EdDSA"), &json!({"kid": format!("k{n}")}));
        let token = signed(&old, &unknown, &claims("alice", &["admins"]));
        if n != 2 {
            ask(&api, &token).await.refused("unauthenticated", "");
        }
    }
    // Once in ten seconds at most.
    let (asked, most) = (issuer.asked() - asked, 1 + began.elapsed().as_secs() / 10);
    assert!(asked as u64 <= most, "{asked} of {most}");
}

/// Until it returns its keys for the first time, no caller can be identified by them.
#[tokio::test]
async fn an_issuer_that_starts_late_is_awaited() {
    let signer = Signer::ed();
    let issuer = Issuer::start(IssuerResponse::Status("503 Service Unavailable")).await;
    let api = server(&issuer).await;
    let token = signed(&signer, &header("EdDSA"), &claims("alice", &["admins"]));
    ask(&api, &token).await.refused("issuer_unavailable", "");
    issuer.respond_with(IssuerResponse::Keys(key_set(&[signer.jwk("k")])));
    wait_for_status_other_than(503, &api, &token).await.expect(200);
}

/// Each with a separate issuer and server, whose first reading out of turn comes at once, and all at the same time,
/// because some end only by a time limit.
#[tokio::test]
async fn an_unreachable_or_broken_issuer_changes_nothing() {
    let signer = Signer::ed();
    let stranger = Signer::ed();
    let elsewhere = Issuer::start(IssuerResponse::Keys(key_set(&[stranger.jwk("k")]))).await;
    let token = signed(&signer, &header("EdDSA"), &claims("alice", &["admins"]));
    let unavailable = format!("liststore_access_issuer_keys_unavailable{{issuer=\"{ISSUER}\"}} 1");
    let lies = [
        IssuerResponse::Status("500 Internal Server Error"),
        IssuerResponse::Keys("<html>sign in</html>".to_owned()),
        IssuerResponse::Keys(format!("{{\"keys\":{}1", "[".repeat(500_000))),
        IssuerResponse::Nothing,
        IssuerResponse::Endless,
        IssuerResponse::Trickle(key_set(&[stranger.jwk("k")])),
        IssuerResponse::Announced(100 << 20),
        IssuerResponse::Redirect(elsewhere.url.clone()),
        IssuerResponse::Redirect("file:///etc/passwd".to_owned()),
        IssuerResponse::Redirect("http://169.254.169.254/latest/meta-data/".to_owned()),
    ];
    let changing_nothing = lies.map(async |response| {
        let issuer = Issuer::start(IssuerResponse::Keys(key_set(&[signer.jwk("k")]))).await;
        let api = server(&issuer).await;
        wait_for_status_other_than(503, &api, &token).await.expect(200);
        let asked = issuer.asked();
        issuer.respond_with(response.clone());
        // An unknown name causes a reading of the keys, a little later if the server had just read them.
        let unknown = with(&header("EdDSA"), &json!({"kid": "other"}));
        let unknown = signed(&signer, &unknown, &claims("alice", &["admins"]));
        let read = async {
            while issuer.asked() == asked {
                ask(&api, &unknown).await.refused("unauthenticated", "");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, read)
            .await
            .unwrap_or_else(|_| panic!("no request for keys to an issuer that responds {response:?}"));
        let metrics = async || with_path(&api, &token, "/metrics").await.text();
        let reported = async { while !metrics().await.contains(&unavailable) {} };
        timeout(PATIENCE, reported).await.unwrap_or_else(|_| panic!("no report of {response:?}"));
        ask(&api, &token).await.expect(200);
    });
    join_all(changing_nothing).await;
    assert_eq!(elsewhere.asked(), 0, "no redirect is followed");
}

/// With any keys that replace them, if the set is valid.
#[tokio::test]
async fn withdrawn_keys_are_no_longer_valid() {
    let signer = Signer::ed();
    let token = signed(&signer, &header("EdDSA"), &claims("alice", &["admins"]));
    let mut leaked = signer.jwk("k");
    leaked["d"] = json!("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A");
    let sets = [
        key_set(&[]),
        key_set(&[json!({"kty": "oct", "kid": "k", "alg": "HS256", "k": "c2VjcmV0"})]),
        key_set(&[leaked.clone()]),
        // Under another name, too.
        key_set(&[signer.jwk("k"), leaked]),
    ];
    let withdrawing = sets.map(async |set| {
        let issuer = Issuer::start(IssuerResponse::Keys(key_set(&[signer.jwk("k")]))).await;
        let api = server(&issuer).await;
        wait_for_status_other_than(503, &api, &token).await.expect(200);
        issuer.respond_with(IssuerResponse::Keys(set.clone()));
        // A name that is not known has the keys read.
        let unknown = with(&header("EdDSA"), &json!({"kid": "other"}));
        let unknown = signed(&signer, &unknown, &claims("alice", &["admins"]));
        let withdrawn = async {
            while ask(&api, &token).await.status != 401 {
                ask(&api, &unknown).await.refused("unauthenticated", "");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, withdrawn).await.unwrap_or_else(|_| panic!("{set} withdraws nothing"));
        issuer.respond_with(IssuerResponse::Keys(key_set(&[signer.jwk("k")])));
        wait_for_status_other_than(401, &api, &token).await.expect(200);
    });
    join_all(withdrawing).await;
}

#[tokio::test]
async fn keys_unreadable_for_too_long_are_no_longer_valid() {
    let signer = Signer::ed();
    let token = signed(&signer, &header("EdDSA"), &claims("alice", &["admins"]));
    let issuer = Issuer::start(IssuerResponse::Keys(key_set(&[signer.jwk("k")]))).await;
    let settings = issuer.settings();
    let given = [
        ("access.jwt.issuers", settings.as_str()),
        ("access.jwt.refresh_secs", "10"),
        ("access.jwt.keys_age_max_secs", "11"),
        ("access.metrics", "open"),
    ];
    let api = api_with(&given).await;
    wait_for_status_other_than(503, &api, &token).await.expect(200);
    issuer.respond_with(IssuerResponse::Keys("<html>sign in</html>".to_owned()));
    let refused = wait_for_status_other_than(200, &api, &token).await;
    refused.refused("issuer_unavailable", "");
    let metrics = api.get("/metrics").await.text();
    let reported = format!("liststore_access_issuer_keys_too_old{{issuer=\"{ISSUER}\"}} 1");
    assert!(metrics.contains(&reported), "{metrics}");
    issuer.respond_with(IssuerResponse::Keys(key_set(&[signer.jwk("k")])));
    wait_for_status_other_than(503, &api, &token).await.expect(200);
}

/// Addresses in a token are not fetched.
#[tokio::test]
async fn headers_with_urls_of_keys_are_not_followed() {
    let (signer, stranger) = (Signer::ed(), Signer::ed());
    let issuer = Issuer::start(IssuerResponse::Keys(key_set(&[signer.jwk("k")]))).await;
    let evil = Issuer::start(IssuerResponse::Keys(key_set(&[stranger.jwk("k")]))).await;
    let api = server(&issuer).await;
    let own = stranger.jwk("k");
    let pointing = json!({"jku": evil.url, "x5u": evil.url, "jwk": own, "x5c": ["MIIB"], "x5t": "AAAA"});
    let pointing = with(&header("EdDSA"), &pointing);
    wait_for_status_other_than(503, &api, &signed(&signer, &pointing, &claims("a", &["admins"]))).await.expect(200);
    ask(&api, &signed(&stranger, &pointing, &claims("a", &["admins"]))).await.refused("unauthenticated", "");
    assert_eq!(evil.asked(), 0);
}

/// For any number of tokens from unknown callers, the server stores only a number.
#[tokio::test]
async fn thousands_of_bad_tokens_leave_only_a_count() {
    const TOKENS: usize = 3_000;
    let issued = Issued::by_file();
    let api = api_with(&[("access.jwt.issuers", &issued.settings())]).await;
    let admin = issued.token("root", &["admins"]);
    let lines = async || with_path(&api, &admin, "/metrics").await.text().lines().count();
    // One of each kind, so that all metrics have a value.
    let bad = |n: usize| {
        let subject = format!("mallory-{n}");
        match n % 4 {
            0 => issued.forged(&subject, &["admins"]),
            1 => issued.expired(&subject, &["admins"]),
            2 => issued.signed_with_removed_key(&subject, &["admins"]),
            _ => format!("a{n}.b.c"),
        }
    };
    for n in 0..4 {
        ask(&api, &bad(n)).await.refused("unauthenticated", "");
    }
    // A request for them is an operation with separate metrics.
    lines().await;
    let before = lines().await;
    let sent = futures_util::stream::iter((0..TOKENS).map(bad)).for_each_concurrent(32, async |token| {
        ask(&api, &token).await.refused("unauthenticated", "");
    });
    sent.await;
    assert_eq!(lines().await, before, "no metric is of one token");
    let audit = with_path(&api, &admin, "/v1/audit?action=refuse&page_size=1000").await.expect(200);
    let entries = audit["changes"].as_array().unwrap();
    let count = |entry: &Value| entry["after"]["count"].as_u64().unwrap();
    assert!(entries.len() <= 20, "{} entries", entries.len());
    assert_eq!(entries.iter().map(count).sum::<u64>(), TOKENS as u64 + 4);
    assert!(entries.iter().all(|entry| entry["by"] == "anonymous"), "{audit}");
}
