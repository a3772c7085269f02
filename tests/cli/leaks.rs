//! The search for secrets in server logs finds existing ones.

use crate::program::Server;
use crate::program::secrets::{in_settings, leak};

const KEY: &str = "ls_0123456789ab_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklm";

#[test]
fn planted_secrets_are_found_and_nothing_else() {
    let known = in_settings([
        ("LISTSTORE__ITEMS__CQL__PASSWORD", "hush-hush-login"),
        ("LISTSTORE__METADATA__POSTGRES__URL", "postgres://u:between-us-two@127.0.0.1/db?sslmode=disable"),
        ("LISTSTORE__HTTP__LISTEN", "127.0.0.1:0"),
    ]);
    assert_eq!(known, ["hush-hush-login", "between-us-two"]);
    for (line, what) in [
        (format!("INFO created key={KEY}"), "an API key"),
        ("{\"message\":\"eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJhbGljZSJ9.c2ln\"}".to_owned(), "a token"),
        ("cannot reach postgres://ann:s3cret@db.example.org/x".to_owned(), "a password in a URL"),
        ("connect host=db sslpassword=s3cret".to_owned(), "a password"),
        ("-----BEGIN EC PRIVATE KEY-----".to_owned(), "a private key"),
        ("sent Authorization: Bearer abcdefgh1234".to_owned(), "credentials"),
        ("login failed with hush-hush-login".to_owned(), "a secret of its settings"),
    ] {
        let log = format!("INFO one line\n{line}\nINFO another");
        let found = leak(&log, &known).unwrap_or_else(|| panic!("{line}"));
        assert!(found.starts_with(what), "{found}");
    }
    for line in [
        "postgres://ann:********@db.example.org/x?sslpassword=********",
        "listening on http://127.0.0.1:8080; key feed was created, id=ls_0123456789ab",
        "http://[::1]:8080/v1/features?page_token=eyJhbGciOiJ9",
        "send a valid API key or token: Authorization: Bearer …",
    ] {
        assert_eq!(leak(line, &known), None);
    }
}

/// The log shows its filter. A key in it fails the test when the server ends.
#[test]
#[should_panic(expected = "an API key in the log")]
fn a_server_that_logs_a_key_fails_its_test() {
    let server = Server::start();
    let filter = format!("info,{KEY}=debug");
    server.ok(&["log", "set", "--local", "--data-dir", "data", "--filter", &filter]);
    drop(server);
}
