//! Valid tokens, and forged ones.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use liststore_testkit::tokens::{Signer, header, message, signed, with, with_signature};
use ring::hmac;
use serde_json::json;

use super::*;
use crate::access::Grant;
use crate::domain::{Role, Scope};

const ISSUER: &str = "https://id.example.org";
const NOW_SECS: u64 = 1_000_000;

fn claims() -> Value {
    json!({"iss": ISSUER, "aud": "liststore", "sub": "alice", "exp": NOW_SECS + 100, "groups": ["readers"]})
}

fn keys(keys: &[Value]) -> KeySet {
    KeySet::read(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
}

fn issuers(set: Option<KeySet>) -> Issuers {
    let grant = Grant { roles: vec![Role::Reader], scopes: vec![Scope::all()] };
    let rule = Rule { claim: "groups".to_owned(), value: "readers".to_owned(), grant, acts_for_others: false };
    let issuer = IssuerOptions {
        issuer: ISSUER.to_owned(),
        audiences: vec!["liststore".to_owned()],
        label: None,
        leeway: Duration::from_secs(30),
        rules: vec![rule],
    };
    let issuers = Issuers::new(vec![issuer], LimitOptions::default());
    if let Some(set) = set {
        assert!(issuers.publish(0, set));
    }
    issuers
}

fn secs(secs: u64) -> Timestamp {
    Timestamp::from_nanos(secs * 1_000_000_000).unwrap()
}

fn verdict(issuers: &Issuers, token: &str) -> Verdict {
    issuers.verify(token.as_bytes(), secs(NOW_SECS))
}

#[track_caller]
fn assert_known(issuers: &Issuers, token: &str) {
    match verdict(issuers, token) {
        Verdict::Known(identity) => assert_eq!(identity.name().as_str(), "jwt:alice"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_token_signed_by_an_issuer_is_accepted_and_cached() {
    for (signer, alg) in [(Signer::ed(), "EdDSA"), (Signer::ec(), "ES256"), (Signer::rsa(2048), "RS256")] {
        let issuers = issuers(Some(keys(&[signer.jwk("k")])));
        let token = signed(&signer, &header(alg), &claims());
        assert_known(&issuers, &token);
        assert_eq!(issuers.verified.len(), 1);
        assert_known(&issuers, &token);
        assert_eq!(issuers.verified.len(), 1);
        // At a place where only the audience decides.
        let audiences = with(&claims(), &json!({"aud": ["other", "liststore"], "exp": NOW_SECS as f64 + 0.5}));
        assert_known(&issuers, &signed(&signer, &json!({"alg": alg, "typ": "at+jwt"}), &audiences));
    }
}

#[test]
fn forged_tokens_are_refused() {
    let (signer, stranger) = (Signer::ed(), Signer::ed());
    let issuers = issuers(Some(keys(&[signer.jwk("k")])));
    let good = signed(&signer, &header("EdDSA"), &claims());
    assert_known(&issuers, &good);
    let own = message(&header("EdDSA"), &claims());
    let parts: Vec<_> = good.split('.').collect();
    let admin = message(&header("EdDSA"), &with(&claims(), &json!({"sub": "admin"})));
    let (_, changed) = admin.split_once('.').unwrap();
    let none = message(&header("none"), &claims());
    let confused = message(&header("HS256"), &claims());
    // A server that uses a public key as a shared secret would accept this.
    let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, signer.public()), confused.as_bytes());
    let jwk_in_it = with(&header("EdDSA"), &json!({"jwk": stranger.jwk("k")}));
    for (token, why) in [
        (signed(&stranger, &header("EdDSA"), &claims()), NoToken::Forged),
        (signed(&stranger, &jwk_in_it, &claims()), NoToken::Forged),
        (format!("{}.{changed}.{}", parts[0], parts[2]), NoToken::Forged),
        (with_signature(&own, &[]), NoToken::Forged),
        (with_signature(&own, &[0; 64]), NoToken::Forged),
        (with_signature(&confused, mac.as_ref()), NoToken::Forged),
        (signed(&signer, &header("ES256"), &claims()), NoToken::Forged),
        (signed(&signer, &header("RS256"), &claims()), NoToken::Forged),
        (format!("{none}."), NoToken::Malformed),
        (signed(&signer, &header("none"), &claims()), NoToken::Malformed),
        (format!("{}.{}.{}=", parts[0], parts[1], parts[2]), NoToken::Malformed),
    ] {
        assert_eq!(verdict(&issuers, &token), Verdict::Refused(why), "{token}");
    }
    assert_eq!(issuers.verified.len(), 1, "what was refused is not remembered");
}

#[test]
fn forbidden_claims_and_headers_are_refused() {
    let signer = Signer::ed();
    let issuers = issuers(Some(keys(&[signer.jwk("k")])));
    for (members, why) in [
        (json!({"aud": "other"}), NoToken::OtherAudience),
        (json!({"aud": ["other", "liststore2"]}), NoToken::OtherAudience),
        (json!({"aud": []}), NoToken::OtherAudience),
        (json!({"aud": null}), NoToken::Incomplete),
        (json!({"iss": "https://id.example.org/"}), NoToken::UnknownIssuer),
        (json!({"iss": "https://ID.example.org"}), NoToken::UnknownIssuer),
        (json!({"iss": [ISSUER]}), NoToken::Malformed),
        (json!({"iss": null}), NoToken::Malformed),
        (json!({"sub": null}), NoToken::Incomplete),
        (json!({"sub": ""}), NoToken::Incomplete),
        (json!({"sub": 7}), NoToken::Incomplete),
        (json!({"exp": null}), NoToken::Incomplete),
        (json!({"exp": "soon"}), NoToken::Incomplete),
        (json!({"exp": -1}), NoToken::Incomplete),
        (json!({"nbf": "soon"}), NoToken::Incomplete),
        (json!({"exp": "9999999999"}), NoToken::Incomplete),
        (json!({"nbf": -1}), NoToken::Incomplete),
        (json!({"aud": "liststore "}), NoToken::OtherAudience),
        (json!({"aud": "liststore,other"}), NoToken::OtherAudience),
    ] {
        let token = signed(&signer, &header("EdDSA"), &with(&claims(), &members));
        assert_eq!(verdict(&issuers, &token), Verdict::Refused(why), "{members}");
    }
    // Of another type than the claim has.
    for members in [
        json!({"exp": [NOW_SECS + 100]}),
        json!({"exp": true}),
        json!({"aud": {"liststore": true}}),
        json!({"sub": ["alice"]}),
        json!({"nbf": {}}),
    ] {
        let found = verdict(&issuers, &signed(&signer, &header("EdDSA"), &with(&claims(), &members)));
        assert!(matches!(found, Verdict::Refused(_)), "{members}: {found:?}");
    }
    for (members, why) in [
        (json!({"crit": ["exp"]}), Some(NoToken::Critical)),
        (json!({"crit": []}), Some(NoToken::Critical)),
        (json!({"b64": false}), Some(NoToken::Critical)),
        (json!({"typ": "logout+jwt"}), Some(NoToken::Malformed)),
        (json!({"typ": null}), None),
        // They are ignored, and nothing is fetched for them.
        (json!({"jku": "http://127.0.0.1:1/jwks", "x5u": "http://127.0.0.1:1/"}), None),
    ] {
        let token = signed(&signer, &with(&header("EdDSA"), &members), &claims());
        match why {
            Some(why) => assert_eq!(verdict(&issuers, &token), Verdict::Refused(why), "{members}"),
            None => assert_known(&issuers, &token),
        }
    }
}

/// Duplicate members, and texts that no writer of JSON would make.
#[test]
fn ambiguous_texts_are_refused() {
    let signer = Signer::ed();
    let issuers = issuers(Some(keys(&[signer.jwk("k")])));
    let signed_text = |header: &str, claims: &str| {
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        let message = format!("{}.{}", part(header), part(claims));
        with_signature(&message, &signer.sign(message.as_bytes()))
    };
    let (head, claims) = (r#"{"alg":"EdDSA","kid":"k"}"#, claims().to_string());
    assert_known(&issuers, &signed_text(head, &claims));
    let more = |member: &str| format!("{},{member}}}", claims.strip_suffix('}').unwrap());
    for twice in [
        r#""iss":"https://id.example.org""#,
        r#""aud":"liststore""#,
        r#""sub":"root""#,
        r#""exp":9999999999"#,
        // The claims that give roles.
        r#""groups":["admins"]"#,
    ] {
        let found = verdict(&issuers, &signed_text(head, &more(twice)));
        assert!(matches!(found, Verdict::Refused(_)), "{twice}: {found:?}");
    }
    let deep = more(&format!(r#""deep":{}{}"#, "[".repeat(4_000), "]".repeat(4_000)));
    for (header, claims) in [
        (r#"{"alg":"EdDSA","alg":"HS256","kid":"k"}"#, claims.as_str()),
        (r#"{"alg":["EdDSA"],"kid":"k"}"#, &claims),
        (r#"{"alg":"EdDSA","kid":{"k":"k"}}"#, &claims),
        (r#"{"kid":"k"}"#, &claims),
        (head, &deep),
        (head, "[]"),
        (head, "null"),
        (head, &format!("{claims} {claims}")),
    ] {
        assert_eq!(verdict(&issuers, &signed_text(header, claims)), Verdict::Refused(NoToken::Malformed), "{header}");
    }
}

/// A key's name is only compared, and never looked up elsewhere.
#[test]
fn key_ids_are_never_followed() {
    let signer = Signer::ed();
    let issuers = issuers(Some(keys(&[signer.jwk("k")])));
    for kid in ["", "K", "k ", "../k", "/dev/null", "k' OR '1'='1", "https://evil.example/jwks", "k\u{0}"] {
        let token = signed(&signer, &with(&header("EdDSA"), &json!({"kid": kid})), &claims());
        assert_eq!(verdict(&issuers, &token), Verdict::KeysWanted(0), "{kid}");
    }
}

#[test]
fn clocks_may_differ_by_at_most_the_leeway() {
    let signer = Signer::ed();
    let issuers = issuers(Some(keys(&[signer.jwk("k")])));
    let times = json!({"nbf": 1_000, "exp": 2_000});
    let token = signed(&signer, &header("EdDSA"), &with(&claims(), &times));
    // Before it is remembered, and since.
    for _ in 0..2 {
        for (now, expected) in [
            (0, Some(NoToken::Early)),
            (969, Some(NoToken::Early)),
            (970, None),
            (1_500, None),
            (2_029, None),
            (2_030, Some(NoToken::Expired)),
            (u64::MAX / 2_000_000_000, Some(NoToken::Expired)),
        ] {
            let found = issuers.verify(token.as_bytes(), Timestamp::saturating_from_nanos(now as u128 * 1_000_000_000));
            match expected {
                Some(why) => assert_eq!(found, Verdict::Refused(why), "{now}"),
                None => assert!(matches!(found, Verdict::Known(_)), "{now}: {found:?}"),
            }
        }
    }
    let endless = signed(&signer, &header("EdDSA"), &with(&claims(), &json!({"exp": u64::MAX})));
    assert_known(&issuers, &endless);
    let beyond = signed(&signer, &header("EdDSA"), &with(&claims(), &json!({"exp": 1e300})));
    assert_eq!(verdict(&issuers, &beyond), Verdict::Refused(NoToken::Incomplete));
}

#[test]
fn rotated_keys_are_no_longer_valid() {
    let (old, new) = (Signer::ed(), Signer::ed());
    let issuers = issuers(None);
    let token = signed(&old, &header("EdDSA"), &claims());
    assert_eq!(verdict(&issuers, &token), Verdict::NoKeys(0));
    assert!(issuers.publish(0, keys(&[old.jwk("k")])));
    assert!(!issuers.publish(0, keys(&[old.jwk("k")])), "they are the same");
    assert_known(&issuers, &token);
    let next = signed(&new, &with(&header("EdDSA"), &json!({"kid": "k2"})), &claims());
    assert_eq!(verdict(&issuers, &next), Verdict::KeysWanted(0));
    assert!(issuers.publish(0, keys(&[old.jwk("k"), new.jwk("k2")])));
    assert_known(&issuers, &token);
    assert_known(&issuers, &next);
    assert!(issuers.publish(0, keys(&[new.jwk("k2")])));
    assert_eq!(verdict(&issuers, &token), Verdict::KeysWanted(0), "although it was remembered");
    // Another key under the same name.
    assert!(issuers.publish(0, keys(&[new.jwk("k")])));
    assert_eq!(verdict(&issuers, &token), Verdict::Refused(NoToken::Forged));
}

#[test]
fn withdrawn_and_too_old_keys_are_no_longer_valid() {
    let (old, other) = (Signer::ed(), Signer::ed());
    let issuers = issuers(Some(keys(&[old.jwk("k")])));
    let token = signed(&old, &header("EdDSA"), &claims());
    let published = with(&old.jwk("k"), &json!({"d": "AQAB"}));
    for set in [vec![], vec![json!({"kty": "oct", "kid": "k", "k": "c2VjcmV0"})], vec![published]] {
        assert_known(&issuers, &token);
        assert!(issuers.publish(0, keys(&set)));
        assert_eq!(verdict(&issuers, &token), Verdict::KeysWanted(0), "{set:?}");
        assert!(issuers.publish(0, keys(&[other.jwk("k2"), old.jwk("k")])));
    }
    assert_known(&issuers, &token);
    issuers.expire(0);
    assert_eq!(verdict(&issuers, &token), Verdict::KeysTooOld(0), "although it was remembered");
    assert!(issuers.publish(0, keys(&[old.jwk("k")])));
    assert_known(&issuers, &token);
}

#[test]
fn many_tokens_take_bounded_memory() {
    let signer = Signer::ed();
    let issuers = issuers(Some(keys(&[signer.jwk("k")])));
    for n in 0..5_000 {
        let broken = signed(&signer, &header("EdDSA"), &with(&claims(), &json!({"aud": n.to_string()})));
        assert_eq!(verdict(&issuers, &broken), Verdict::Refused(NoToken::OtherAudience));
    }
    assert_eq!(issuers.verified.len(), 0);
    for n in 0..REMEMBERED_MAX + 2_000 {
        let token = signed(&signer, &header("EdDSA"), &with(&claims(), &json!({"jti": n})));
        assert_known(&issuers, &token);
    }
    assert!(issuers.verified.len() <= REMEMBERED_MAX);
    let huge = signed(&signer, &header("EdDSA"), &with(&claims(), &json!({"more": "x".repeat(TOKEN_BYTES_MAX)})));
    assert_eq!(verdict(&issuers, &huge), Verdict::Refused(NoToken::Malformed));
    for garbage in ["..", "a.b.c", "e30.e30.", "eyJhbGciOiJFZERTQSJ9..", "\u{fffd}.\u{fffd}.\u{fffd}"] {
        assert_eq!(verdict(&issuers, garbage), Verdict::Refused(NoToken::Malformed), "{garbage}");
    }
}

#[test]
fn a_caller_without_a_matching_rule_is_known_without_permissions() {
    use crate::access::{Permission, Principal, Resource, decide};
    let signer = Signer::ed();
    let issuers = issuers(Some(keys(&[signer.jwk("k")])));
    for (groups, may) in [(json!(["readers"]), true), (json!(["reader"]), false), (json!(null), false)] {
        let token = signed(&signer, &header("EdDSA"), &with(&claims(), &json!({ "groups": groups })));
        let Verdict::Known(identity) = verdict(&issuers, &token) else { panic!("unknown") };
        let decided = decide(&Principal::Known(identity), Permission::ListsRead, Resource::Whole);
        assert_eq!(decided.is_ok(), may, "{groups}");
    }
}
