//! TLS on the server: admitted clients, and files that change during a run.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, HandshakeKind, RootCertStore, SupportedProtocolVersion};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::client::Answer;
use super::support::{TestServer, settings, spawn_server};

const PATIENCE: Duration = Duration::from_secs(60);
const SPIFFE_ID: &str = "spiffe://example.org/feeds";

fn openssl(dir: &Path, arguments: &str) {
    let output = Command::new("openssl").args(arguments.split(' ')).current_dir(dir).stdin(Stdio::null()).output();
    let output = output.unwrap();
    assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

const NEW_KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";

/// An authority of this name.
fn authority(dir: &Path, name: &str) {
    openssl(dir, &format!("req -x509 {NEW_KEY} -subj /CN={name} -days 2 -keyout {name}-key.pem -out {name}.pem"));
}

/// A certificate of this name that an authority signed, for these alternative names.
fn certificate(dir: &Path, authority: &str, name: &str, alternatives: &str) {
    openssl(dir, &format!("req {NEW_KEY} -subj /O=example/CN={name} -keyout {name}-key.pem -out {name}.csr"));
    fs::write(dir.join("names"), format!("subjectAltName={alternatives}")).unwrap();
    openssl(
        dir,
        &format!(
            "x509 -req -in {name}.csr -CA {authority}.pem -CAkey {authority}-key.pem -CAcreateserial -days 2 -extfile \
             names -out {name}.pem"
        ),
    );
}

fn certificates(dir: &Path) {
    authority(dir, "ca");
    authority(dir, "other");
    certificate(dir, "ca", "server", "IP:127.0.0.1");
    certificate(dir, "ca", "feeds", &format!("URI:{SPIFFE_ID},DNS:feeds.example.org"));
    certificate(dir, "other", "stranger", "DNS:feeds.example.org");
}

async fn server(dir: &TempDir, client_auth: &str, given: &[(&'static str, &str)]) -> TestServer {
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (certificate, key, ca) = (path("server.pem"), path("server-key.pem"), path("ca.pem"));
    let mut all = vec![("http.tls.certificate_file", certificate.as_str()), ("http.tls.key_file", &key)];
    if client_auth != "none" {
        all.extend([("http.tls.client_auth", client_auth), ("http.tls.client_ca_file", &ca)]);
    }
    all.extend(given);
    spawn_server(settings(&all)).await
}

/// How to connect, with the certificate of this name.
fn connector(dir: &TempDir, name: Option<&str>, versions: &[&'static SupportedProtocolVersion]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(dir.path().join("ca.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
    let config = config.with_root_certificates(roots);
    let config = match name {
        Some(name) => {
            let chain = vec![CertificateDer::from_pem_file(dir.path().join(format!("{name}.pem"))).unwrap()];
            let key = PrivateKeyDer::from_pem_file(dir.path().join(format!("{name}-key.pem"))).unwrap();
            config.with_client_auth_cert(chain, key).unwrap()
        }
        None => config.with_no_client_auth(),
    };
    TlsConnector::from(Arc::new(config))
}

fn address(server: &TestServer) -> &str {
    server.url.strip_prefix("https://").expect("the URL says that TLS is spoken")
}

async fn connect(server: &TestServer, connector: &TlsConnector) -> std::io::Result<TlsStream<TcpStream>> {
    connect_to(address(server), connector).await
}

async fn connect_to(address: &str, connector: &TlsConnector) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("127.0.0.1").unwrap();
    timeout(PATIENCE, connector.connect(name, stream)).await.expect("the handshake ends")
}

async fn ask(stream: &mut TlsStream<TcpStream>, method: &str, path: &str, body: &str) -> std::io::Result<Answer> {
    let length = body.len();
    let request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await?;
    let mut first = [0; 1];
    // With TLS 1.3 a client learns only here that its certificate was refused.
    stream.read_exact(&mut first).await?;
    let mut all = std::io::Cursor::new(first).chain(stream);
    Ok(timeout(PATIENCE, Answer::read(&mut all, false)).await.expect("an answer"))
}

/// Requests health over a separate connection.
async fn health(server: &TestServer, connector: &TlsConnector) -> std::io::Result<u16> {
    let mut stream = connect(server, connector).await?;
    Ok(ask(&mut stream, "GET", "/livez", "").await?.status)
}

async fn metric(server: &TestServer, connector: &TlsConnector, name: &str) -> f64 {
    let mut stream = connect(server, connector).await.unwrap();
    let text = ask(&mut stream, "GET", "/metrics", "").await.unwrap().text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("there is no {name}")).parse().unwrap()
}

const BOTH: &[&SupportedProtocolVersion] = &[&rustls::version::TLS12, &rustls::version::TLS13];

#[tokio::test]
async fn requests_over_tls_are_answered_and_plain_ones_are_not() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path());
    let server = server(&dir, "none", &[("http.connections_max", "8")]).await;
    for version in BOTH {
        assert_eq!(health(&server, &connector(&dir, None, &[*version])).await.unwrap(), 200);
    }
    let connector = connector(&dir, None, BOTH);
    let mut plain = TcpStream::connect(address(&server)).await.unwrap();
    plain.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut reported = Vec::new();
    let _ = timeout(PATIENCE, plain.read_to_end(&mut reported)).await.expect("the server ends the connection");
    assert!(!reported.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&reported));
    assert!(metric(&server, &connector, "liststore_http_tls_handshakes_failed_total").await >= 1.0);
    // Incomplete handshakes keep no other client out.
    let mut silent = Vec::new();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(address(&server)).await.unwrap();
        stream.write_all(&[0x16, 3, 1, 2]).await.unwrap();
        silent.push(stream);
    }
    assert_eq!(health(&server, &connector).await.unwrap(), 200);
    // A large body and a large answer, several on a connection.
    let mut stream = connect(&server, &connector).await.unwrap();
    let feature = json!({"entity_type": "user", "name": "seen", "value_type": "string", "ttl": "30d"});
    ask(&mut stream, "POST", "/v1/features", &feature.to_string()).await.unwrap().expect(201);
    let now = super::client::ago(100);
    let values: Vec<_> = (0..30).map(|n| json!({"timestamp": now + n, "value": "x".repeat(60_000)})).collect();
    let list = "/v1/lists/user/seen/u/items";
    ask(&mut stream, "POST", list, &json!({ "items": values }).to_string()).await.unwrap().expect(200);
    assert_eq!(ask(&mut stream, "GET", list, "").await.unwrap().values().len(), 30);
}

#[tokio::test]
async fn the_address_of_administration_has_tls_where_that_is_set() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path());
    for (given, scheme) in [("true", "https"), ("false", "http")] {
        let server = server(&dir, "none", &[("admin.listen", "127.0.0.1:0"), ("admin.tls", given)]).await;
        let url = server.administration_url.clone().unwrap();
        let (reported, address) = url.split_once("://").unwrap();
        assert_eq!(reported, scheme);
        match connect_to(address, &connector(&dir, None, BOTH)).await {
            Ok(mut stream) => {
                assert_eq!(scheme, "https");
                assert_eq!(ask(&mut stream, "GET", "/v1/pool", "").await.unwrap().status, 200);
            }
            Err(error) => assert_eq!(scheme, "http", "{error}"),
        }
    }
}

#[tokio::test]
async fn clients_need_certificates_of_the_configured_authority() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path());
    for (client_auth, without) in [("required", false), ("optional", true), ("none", true)] {
        let server = server(&dir, client_auth, &[]).await;
        for version in BOTH {
            let reported = async |name| health(&server, &connector(&dir, name, &[*version])).await;
            assert_eq!(reported(None).await.is_ok(), without, "{client_auth}");
            assert_eq!(reported(Some("feeds")).await.unwrap(), 200, "{client_auth}");
            assert_eq!(reported(Some("stranger")).await.is_ok(), client_auth == "none", "{client_auth}");
        }
    }
}

/// A resumed session would have a certificate that is not checked again.
#[tokio::test]
async fn certificates_are_checked_on_every_connection() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path());
    for (client_auth, resumed) in [("none", true), ("optional", false), ("required", false)] {
        let server = server(&dir, client_auth, &[]).await;
        for version in BOTH {
            let connector = connector(&dir, Some("feeds"), &[*version]);
            let mut kinds = Vec::new();
            for _ in 0..3 {
                let mut stream = connect(&server, &connector).await.unwrap();
                assert_eq!(ask(&mut stream, "GET", "/livez", "").await.unwrap().status, 200);
                kinds.push(stream.get_ref().1.handshake_kind().unwrap());
            }
            assert_eq!(kinds.contains(&HandshakeKind::Resumed), resumed, "{client_auth} {kinds:?}");
        }
    }
}

/// A client with a certificate is known by it.
#[tokio::test]
async fn changes_are_audited_under_the_name_of_the_certificate() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path());
    certificate(dir.path(), "ca", "plain", "DNS:plain.example.org");
    let server = server(&dir, "optional", &[]).await;
    for (name, noted) in [(Some("feeds"), SPIFFE_ID), (Some("plain"), "plain"), (None, "anonymous")] {
        let mut stream = connect(&server, &connector(&dir, name, BOTH)).await.unwrap();
        let feature = name.unwrap_or("nobody");
        let body = json!({"entity_type": "user", "name": feature, "value_type": "string", "ttl": "30d"});
        ask(&mut stream, "POST", "/v1/features", &body.to_string()).await.unwrap().expect(201);
        let history = ask(&mut stream, "GET", &format!("/v1/features/user/{feature}/history"), "").await.unwrap();
        assert_eq!(history.expect(200)["history"][0]["by"], noted);
    }
}

/// Names give roles according to rules of the settings, and only then.
#[tokio::test]
async fn a_certificate_has_the_roles_of_its_names() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path());
    certificate(dir.path(), "ca", "ops", "DNS:ops.example.org");
    // With another's name where that does not count.
    certificate(dir.path(), "ca", "pretender", "URI:spiffe://example.org/none,DNS:ops");
    let rules = json!([
        {"uri": "spiffe://example.org/*", "roles": ["reader"], "scopes": ["user.seen"]},
        {"common_name": "ops", "roles": ["admin"]},
    ]);
    let server = server(&dir, "optional", &[("access.certificates", &rules.to_string())]).await;
    let ask_as = async |name: Option<&str>, method: &str, path: &str, body: &str| {
        let mut stream = connect(&server, &connector(&dir, name, BOTH)).await.unwrap();
        ask(&mut stream, method, path, body).await.unwrap()
    };
    let feature = json!({"entity_type": "user", "name": "seen", "value_type": "string", "ttl": "30d"}).to_string();
    ask_as(None, "POST", "/v1/features", &feature).await.refused("unauthenticated", "");
    ask_as(Some("feeds"), "POST", "/v1/features", &feature).await.refused("permission_denied", "");
    ask_as(Some("pretender"), "POST", "/v1/features", &feature).await.refused("permission_denied", "");
    ask_as(Some("ops"), "POST", "/v1/features", &feature).await.expect(201);
    ask_as(Some("feeds"), "GET", "/v1/lists/user/seen/u/items", "").await.expect(200);
    ask_as(Some("feeds"), "GET", "/v1/lists/user/other/u/items", "").await.refused("permission_denied", "");
    let audit = ask_as(Some("ops"), "GET", "/v1/audit", "").await.expect(200);
    // By the name that gives the role, and not by another name of the certificate.
    certificate(dir.path(), "ca", "ops", "URI:spiffe://elsewhere.example.org/chosen");
    let feature = json!({"entity_type": "user", "name": "more", "value_type": "string", "ttl": "30d"}).to_string();
    ask_as(Some("ops"), "POST", "/v1/features", &feature).await.expect(201);
    let more = ask_as(Some("ops"), "GET", "/v1/audit?target=user.more", "").await.expect(200);
    assert_eq!((&audit["changes"][0]["by"], &more["changes"][0]["by"]), (&json!("cert:ops"), &json!("cert:ops")));
    assert_eq!(audit["changes"][0].get("on_behalf_of"), None);
}

/// A list in which an authority revokes these certificates.
fn revoke(dir: &Path, authority: &str, names: &[&str]) {
    let config = format!(
        "[ca]\ndefault_ca=d\n[d]\ndatabase={authority}.index\ncrlnumber={authority}.number\ndefault_md=sha256\n\
         certificate={authority}.pem\nprivate_key={authority}-key.pem\ndefault_crl_days=1\ncrl_extensions=e\n\
         [e]\nauthorityKeyIdentifier=keyid\n"
    );
    fs::write(dir.join("ca.conf"), config).unwrap();
    fs::write(dir.join(format!("{authority}.index")), "").unwrap();
    fs::write(dir.join(format!("{authority}.number")), "01\n").unwrap();
    for name in names {
        openssl(dir, &format!("ca -config ca.conf -revoke {name}.pem"));
    }
    openssl(dir, "ca -config ca.conf -gencrl -out new-crl.pem");
    fs::rename(dir.join("new-crl.pem"), dir.join("crl.pem")).unwrap();
}

/// Waits until a client with this certificate is admitted, or is no longer.
async fn wait_until_admitted(server: &TestServer, connector: &TlsConnector, expected: bool) {
    let changed = async { while health(server, connector).await.is_ok() != expected {} };
    timeout(PATIENCE, changed).await.unwrap_or_else(|_| panic!("let in: {}", !expected));
}

#[tokio::test]
async fn revoked_certificates_are_refused_also_on_open_connections() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path());
    certificate(dir.path(), "ca", "ops", "DNS:ops.example.org");
    revoke(dir.path(), "ca", &[]);
    let crl = dir.path().join("crl.pem").to_str().unwrap().to_owned();
    let rules = json!([{"common_name": "feeds", "roles": ["admin"]}]).to_string();
    let given =
        [("http.tls.client_crl_file", crl.as_str()), ("access.certificates", &rules), ("access.metrics", "open")];
    let server = server(&dir, "required", &given).await;
    let (feeds, ops) = (connector(&dir, Some("feeds"), BOTH), connector(&dir, Some("ops"), BOTH));
    let mut open = connect(&server, &feeds).await.unwrap();
    ask(&mut open, "GET", "/v1/features", "").await.unwrap().expect(200);
    revoke(dir.path(), "ca", &["feeds"]);
    wait_until_admitted(&server, &feeds, false).await;
    until_answered(&mut open, 401).await;
    assert_eq!(health(&server, &ops).await.unwrap(), 200);
    // Not a list: the previous one stays in use, with a report.
    fs::write(dir.path().join("crl.pem"), "garbage").unwrap();
    let noted = async { while metric(&server, &ops, "liststore_http_tls_files_unusable").await < 1.0 {} };
    timeout(PATIENCE, noted).await.expect("that the list cannot be used is reported");
    assert!(health(&server, &feeds).await.is_err());
    revoke(dir.path(), "ca", &[]);
    wait_until_admitted(&server, &feeds, true).await;
    until_answered(&mut open, 200).await;
}

/// Asks on an open connection, whose certificate is checked again once a second at most, until this is the answer.
async fn until_answered(open: &mut TlsStream<TcpStream>, status: u16) {
    let answered = async { while ask(open, "GET", "/v1/features", "").await.unwrap().status != status {} };
    timeout(PATIENCE, answered).await.unwrap_or_else(|_| panic!("the answer is never {status}"));
}

#[tokio::test]
async fn a_removed_authority_is_no_longer_trusted() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path());
    let server = server(&dir, "required", &[]).await;
    let (feeds, stranger) = (connector(&dir, Some("feeds"), BOTH), connector(&dir, Some("stranger"), BOTH));
    let write = |text: &[u8]| fs::write(dir.path().join("ca.pem"), text).unwrap();
    let [own, other] = ["ca", "other"].map(|name| fs::read(dir.path().join(format!("{name}.pem"))).unwrap());
    assert_eq!(health(&server, &feeds).await.unwrap(), 200);
    let mut open = connect(&server, &feeds).await.unwrap();
    let broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_vec();
    for set in [vec![], broken.clone(), [broken, other.clone()].concat()] {
        write(&set);
        wait_until_admitted(&server, &feeds, false).await;
        assert_eq!(health(&server, &stranger).await.is_ok(), set.ends_with(&other));
        until_answered(&mut open, 401).await;
        write(&own);
        wait_until_admitted(&server, &feeds, true).await;
        until_answered(&mut open, 200).await;
    }
    // The server's own files are separate: an unusable key affects no authority.
    fs::write(dir.path().join("server-key.pem"), "garbage").unwrap();
    write(&other);
    wait_until_admitted(&server, &feeds, false).await;
}

#[tokio::test]
async fn authorities_unreadable_for_too_long_are_no_longer_trusted() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path());
    let server = server(&dir, "optional", &[("http.tls.client_files_age_max_secs", "2")]).await;
    let (feeds, without_certificate) = (connector(&dir, Some("feeds"), BOTH), connector(&dir, None, BOTH));
    fs::write(dir.path().join("ca.pem"), "<html>").unwrap();
    let noted =
        async { while metric(&server, &without_certificate, "liststore_http_tls_files_unusable").await < 1.0 {} };
    timeout(PATIENCE, noted).await.expect("that the file cannot be used is reported");
    wait_until_admitted(&server, &feeds, false).await;
    assert_eq!(metric(&server, &without_certificate, "liststore_http_tls_clients_refused").await, 1.0);
}

#[tokio::test]
async fn changed_files_are_used_if_valid() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path());
    let server = server(&dir, "none", &[]).await;
    let connector = connector(&dir, None, BOTH);
    let shown = async || {
        let stream = connect(&server, &connector).await.unwrap();
        stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    };
    let mut kept = connect(&server, &connector).await.unwrap();
    let first = shown().await;
    certificate(dir.path(), "ca", "server", "IP:127.0.0.1");
    // The files are checked once a second.
    let changed = async {
        while shown().await == first {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, changed).await.expect("the new certificate is used");
    let second = shown().await;
    for garbage in ["", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        fs::write(dir.path().join("server.pem"), garbage).unwrap();
        let noted = async { while metric(&server, &connector, "liststore_http_tls_files_unusable").await < 1.0 {} };
        timeout(PATIENCE, noted).await.expect("that it cannot be used is reported");
        assert_eq!(shown().await, second);
    }
    certificate(dir.path(), "ca", "server", "IP:127.0.0.1");
    let repaired = async { while metric(&server, &connector, "liststore_http_tls_files_unusable").await > 0.0 {} };
    timeout(PATIENCE, repaired).await.expect("the repaired files are used");
    assert_ne!(shown().await, second);
    // Earlier connections continue.
    assert_eq!(ask(&mut kept, "GET", "/livez", "").await.unwrap().status, 200);
}
