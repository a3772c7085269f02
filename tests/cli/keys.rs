//! API keys on the command line: the first key, a server that requires keys, and its log.

use std::io::{Read, Write};
use std::path::PathBuf;

use liststore::domain::Timestamp;
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::certificates;
use crate::program::{Server, run};

/// Creates the first key, over the socket in the data directory.
fn first_key(server: &Server) -> String {
    let finished = server.run(&["key", "create", "admin", "--role", "admin", "--local", "--data-dir", "data"]);
    assert!(finished.status == 0 && finished.err.contains("store the token now"), "{finished:?}");
    let token = finished.out;
    let token = token.trim().to_owned();
    assert!(token.starts_with("ls_") && token.len() == 65, "{token}");
    token
}

#[test]
fn the_first_key_is_created_over_the_socket_and_closes_the_server() {
    let server = Server::start();
    assert!(
        server.ready.lines().next().unwrap().contains("anyone who can reach it has full access"),
        "{}",
        server.ready
    );
    server.feature("purchase", "string");
    let token = first_key(&server);
    let refused = server.run(&["feature", "list"]).failed(1);
    assert!(refused.contains("unauthenticated") || refused.contains("API key"), "{refused}");
    let asked = |arguments: &[&str]| server.command(arguments).env("LISTSTORE_TOKEN", &token).output().unwrap();
    assert!(asked(&["feature", "list"]).status.success());
    let file = server.write("admin.key", format!("{token}\n"));
    assert!(server.ok(&["--help"]).contains("key"));
    assert!(server.ok(&["feature", "list", "--token-file", &file]).contains("purchase"));
    let listed = server.ok(&["key", "list", "--token-file", &file]);
    assert!(listed.contains("admin") && listed.contains("active") && !listed.contains(&token[16..]), "{listed}");
    let trail = server.ok(&["audit", "--token-file", &file]);
    assert!(trail.contains("create_key") && trail.contains("local") && trail.contains("customer.purchase"), "{trail}");
    let id = &token[3..15];
    let rotated = server.run(&["key", "rotate", id, "--overlap", "1h", "--token-file", &file]).out;
    assert!(rotated.starts_with(&token[..16]) && rotated.trim() != token);
    assert!(server.ok(&["key", "revoke", id, "--token-file", &file, "--yes"]).contains("revoked"));
    server.run(&["feature", "list", "--token-file", &file]).failed(1);
    let cut = server.write("cut.key", &token[..60]);
    assert!(server.run(&["feature", "list", "--token-file", &cut]).failed(2).contains("no valid API key"));
}

/// As on Kubernetes, where the secret comes from a mounted file and the server has no directory to connect to.
#[test]
fn the_first_key_comes_from_a_file_once() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("bootstrap.key");
    let token = run(&["key", "generate"]).ok();
    std::fs::write(&file, &token).unwrap();
    let environment = [("LISTSTORE__ACCESS__BOOTSTRAP_KEY_FILE", file.to_str().unwrap())];
    let server = Server::start_in(dir, "127.0.0.1:0", &environment);
    let asked = |server: &Server, arguments: &[&str]| {
        server.command(arguments).env("LISTSTORE_TOKEN", token.trim()).output().unwrap().status.success()
    };
    assert!(asked(&server, &["feature", "list"]));
    server.run(&["feature", "list"]).failed(1);
    let (_, log, dir) = server.end(Signal::SIGTERM);
    assert!(log.contains("created the first API key") && !log.contains(&token[16..]), "{log}");

    let server = Server::start_in(dir, "127.0.0.1:0", &environment);
    assert!(asked(&server, &["key", "revoke", &token[3..15], "--yes"]));
    let (_, log, dir) = server.end(Signal::SIGTERM);
    assert!(!log.contains("created the first API key"), "{log}");
    // A revocation is final.
    let server = Server::start_in(dir, "127.0.0.1:0", &environment);
    assert!(!asked(&server, &["feature", "list"]));
    let (_, _, dir) = server.end(Signal::SIGTERM);
    std::fs::write(&file, "hunter2").unwrap();
    let refused = Server::try_start_in(dir, &environment).err().expect("a file without a key is refused");
    assert!(refused.contains("bootstrap.key: it has no API key"), "{refused}");
}

#[test]
fn a_revocation_includes_created_keys() {
    let server = Server::start();
    let root = server.write("root.key", first_key(&server));
    let create = |by: &str, name: &str| {
        let token = server.run(&["key", "create", name, "--role", "admin", "--token-file", by]).out;
        (server.write(&format!("{name}.key"), &token), token[3..15].to_owned())
    };
    let (ops, id) = create(&root, "ops");
    let (child, child_id) = create(&ops, "child");
    create(&child, "grandchild");
    let revoked = server.run(&["key", "revoke", &id, "--token-file", &root, "--yes"]);
    assert!(revoked.status == 0 && revoked.err.contains("2 keys it created are not revoked"), "{revoked:?}");
    assert!(revoked.err.contains(&child_id) && revoked.err.contains("grandchild"), "{revoked:?}");
    server.ok(&["feature", "list", "--token-file", &child]);
    let revoked = server.ok(&["key", "revoke", &id, "--created-keys", "--token-file", &root, "--yes"]);
    assert!(revoked.contains("revoked the keys it created"), "{revoked}");
    server.run(&["feature", "list", "--token-file", &child]).failed(1);
    server.ok(&["log", "set", "--filter", "off", "--user", "alice", "--token-file", &root]);
    let trail = server.ok(&["audit", "--target", "log", "--token-file", &root]);
    assert!(trail.contains("change_log") && trail.contains("key:admin") && trail.contains("alice"), "{trail}");
}

#[test]
fn an_entity_is_erased_with_a_receipt_and_not_by_mistake() {
    let server = Server::start_with(&[("LISTSTORE__ITEMS__EMBEDDED__ERASE_WITHIN_SECS", "5400")]);
    server.feature("purchase", "string");
    server.ok(&["list", "add", "customer", "purchase", "c-1", "book"]);
    let refused = server.run(&["entity", "erase", "customer", "c-1"]).failed(2);
    assert!(refused.contains("--yes"), "{refused}");
    assert!(server.ok(&["list", "get", "customer", "purchase", "c-1"]).contains("book"));
    let receipt = server.ok(&["entity", "erase", "customer", "c-1", "--yes"]);
    assert!(receipt.contains("purchase") && receipt.contains("cleared"), "{receipt}");
    assert!(receipt.contains("will be free of the erased bytes by"), "{receipt}");
    assert_eq!(server.run(&["list", "get", "customer", "purchase", "c-1"]).out, "");
    let document = server.ok(&["entity", "erase", "customer", "c-1", "--yes", "--output", "json", "--user", "alice"]);
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!((&document["complete"], &document["erased_by"]), (&true.into(), &"alice".into()));
    let moment = |field: &str| Timestamp::parse(document[field].as_str().unwrap()).unwrap().as_nanos();
    let minutes = (moment("bytes_erased_by").abs_diff(moment("erased_at")) + 30_000_000_000) / 60_000_000_000;
    assert_eq!(minutes, 90);
    let trail = server.ok(&["audit"]);
    assert!(trail.contains("erase_entity") && trail.contains("entity:customer/c-1"), "{trail}");
}

/// Neither server gets the other's key.
#[test]
fn a_copy_presents_each_server_its_key() {
    let (source, target) = (Server::start(), Server::start());
    source.feature("purchase", "string");
    source.ok(&["list", "add", "customer", "purchase", "u-1", "x"]);
    source.ok(&["entity-type", "create", "user"]);
    source.ok(&["entity", "put", "user", "u-1", "{}"]);
    let (from_key, to_key) = (source.write("key", first_key(&source)), target.write("key", first_key(&target)));
    let between = ["--from", &source.url, "--to", &target.url];
    for what in [&["copy"][..], &["entity", "copy", "user"]] {
        let copy = |keys: &[&str]| run(&[what, &between, keys].concat());
        let reported = copy(&["--to-token-file", &to_key]).failed(1);
        assert!(reported.contains("the source: ") && reported.contains("--from-token-file FILE"), "{reported}");
        let reported = copy(&["--from-token-file", &from_key]).failed(1);
        assert!(reported.contains("the target: ") && reported.contains("--to-token-file FILE"), "{reported}");
        let reported = copy(&["--from-token-file", &from_key, "--to-token-file", &from_key]).failed(1);
        assert!(reported.contains("the target: "), "{reported}");
        copy(&["--from-token-file", &from_key, "--to-token-file", &to_key]).ok();
    }
}

/// A restarted server is as closed as before.
#[test]
fn a_server_with_keys_does_not_report_open_access() {
    let server = Server::start();
    let token = first_key(&server);
    let (_, _, dir) = server.end(Signal::SIGTERM);
    let server = Server::start_in(dir, "127.0.0.1:0", &[]);
    assert!(!server.ready.contains("anyone who can reach it has full access"), "{}", server.ready);
    server.run(&["feature", "list"]).failed(1);
    let asked = server.command(&["feature", "list"]).env("LISTSTORE_TOKEN", &token).output().unwrap();
    assert!(asked.status.success());
}

#[test]
fn an_open_server_listens_only_on_loopback() {
    let dir = TempDir::new().unwrap();
    let data: PathBuf = dir.path().join("data");
    let data = data.to_str().unwrap();
    let refused = run(&["serve", "--listen", "0.0.0.0:0", "--data-dir", data]);
    assert_eq!(refused.status, 1, "{refused:?}");
    let refused = refused.err;
    assert!(refused.contains("liststore key create") && refused.contains("--insecure"), "{refused}");
    let server = Server::start_in(dir, "0.0.0.0:0", &[("LISTSTORE__ACCESS__INSECURE", "true")]);
    let url = server.url.replace("0.0.0.0", "127.0.0.1");
    let ready = |server: &Server| {
        let finished = server.command(&["feature", "list", "--url", &url]).output().unwrap();
        finished.status.success()
    };
    assert!(ready(&server));
    let (_, log, dir) = server.end(Signal::SIGTERM);
    assert!(log.contains("access.insecure"), "{log}");
    let server = Server::start_in(dir, "0.0.0.0:0", &[("LISTSTORE__ACCESS__MODE", "required")]);
    first_key(&server);
    let (_, _, dir) = server.end(Signal::SIGTERM);
    // With a key the server accepts the address.
    Server::start_in(dir, "0.0.0.0:0", &[]).end(Signal::SIGTERM);
}

/// Readers of logs must not be able to use the keys of callers.
#[test]
fn no_key_is_ever_in_the_log() {
    let server = Server::start_with(&[("LISTSTORE__LOG__FILTER", "trace"), ("RUST_BACKTRACE", "1")]);
    let token = first_key(&server);
    let asked =
        |token: &str, arguments: &[&str]| server.command(arguments).env("LISTSTORE_TOKEN", token).output().unwrap();
    assert!(asked(&token, &["feature", "list"]).status.success());
    assert!(asked(&token, &["key", "list", "-o", "json"]).status.success());
    let made = asked(&token, &["key", "create", "feed", "--role", "reader", "--entity-types", "user"]);
    let feed = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    assert!(!asked(&feed, &["key", "list"]).status.success());
    let rotated = asked(&token, &["key", "rotate", &feed[3..15]]);
    let rotated = String::from_utf8(rotated.stdout).unwrap().trim().to_owned();
    assert!(asked(&token, &["key", "revoke", &feed[3..15], "--yes"]).status.success());
    assert!(!asked(&rotated, &["feature", "list"]).status.success());
    // In an unexpected place.
    let encoded = token.replace("ls_", "%6C%73_");
    for (path, more) in [
        (format!("/v1/features/user/{token}"), String::new()),
        (format!("/v1/features/{token}/seen"), String::new()),
        (format!("/v1/keys/{token}"), String::new()),
        (format!("/v1/keys/{encoded}"), format!("Authorization: Bearer {token}\r\n")),
        (format!("/{token}"), String::new()),
        (format!("/v1/lists/user/seen/{token}/items"), format!("Authorization: Bearer {feed}\r\n")),
        (format!("/v1/features?q={token}&{token}=1"), String::new()),
        ("/v1/features".to_owned(), format!("X-Request-Id: {token}\r\n")),
        ("/v1/features".to_owned(), format!("X-Request-Id: id-{feed}-1\r\nListstore-User: {token}\r\n")),
    ] {
        let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n{more}Connection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    let (_, log, _) = server.end(Signal::SIGTERM);
    for token in [&token, &feed, &rotated] {
        assert_eq!(token.len(), 65);
        assert!(!log.contains(&token[16..]), "the log has a key");
    }
    assert!(log.contains("key:feed") && log.contains("permission_denied"), "who was refused is logged: {log}");
    assert!(log.contains("revoked key"), "{log}");
}

#[test]
fn commands_use_tls_with_a_given_authority_and_certificate() {
    let dir = TempDir::new().unwrap();
    certificates::make(dir.path());
    let text = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    std::fs::write(dir.path().join("both.pem"), text("feeds.pem") + &text("feeds-key.pem")).unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let server = Server::start_with(&[
        ("LISTSTORE__HTTP__TLS__CERTIFICATE_FILE", &path("server.pem")),
        ("LISTSTORE__HTTP__TLS__KEY_FILE", &path("server-key.pem")),
        ("LISTSTORE__HTTP__TLS__CLIENT_CA_FILE", &path("ca.pem")),
        ("LISTSTORE__HTTP__TLS__CLIENT_AUTH", "required"),
    ]);
    let (ca, certificate) = (path("ca.pem"), path("both.pem"));
    let shown = ["--ca-file", &ca, "--certificate-file", &certificate];
    assert!(server.ok(&[&["ready"], &shown[..]].concat()).contains("ready"));
    assert_eq!(server.ok(&[&["feature", "list", "--output", "ndjson"], &shown[..]].concat()), "");
    // The client trusts no foreign server, and this server admits no strangers.
    server.run(&["feature", "list"]).failed(1);
    server.run(&["feature", "list", "--ca-file", &ca]).failed(1);
    let refused = server.run(&["feature", "list", "--ca-file", &path("names")]).failed(1);
    assert!(refused.contains("PEM"), "{refused}");
    let refused =
        server.run(&["feature", "list", "--ca-file", &ca, "--certificate-file", &path("feeds.pem")]).failed(1);
    assert!(refused.contains("private key"), "{refused}");
    let lacks = server.run(&["feature", "list", "--certificate-file", &certificate]).failed(1);
    assert!(lacks.contains("needs --ca-file too"), "{lacks}");
    let unknown = server.run(&["feature", "list"]).failed(1);
    assert!(unknown.contains("cannot trust") && unknown.contains("--ca-file"), "{unknown}");
}

#[test]
fn an_authority_in_the_place_of_a_certificate_is_named() {
    let dir = TempDir::new().unwrap();
    certificates::make(dir.path());
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let server = Server::start_with(&[
        ("LISTSTORE__HTTP__TLS__CERTIFICATE_FILE", &path("ca.pem")),
        ("LISTSTORE__HTTP__TLS__KEY_FILE", &path("ca-key.pem")),
    ]);
    let refused = server.run(&["feature", "list", "--ca-file", &path("ca.pem")]).failed(1);
    assert!(refused.contains("the certificate of an authority"), "{refused}");
    assert!(refused.contains("http.tls.certificate_file"), "{refused}");
}
