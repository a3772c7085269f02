//! Callers that use as much memory as they can: the server stays within its bounds, and serves other callers.
//!
//! Each server runs in a separate control group with a hard limit. Beyond it, the kernel ends the server.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use liststore::domain::{Clock, SystemClock};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::certificates;
use crate::control_group::Group;
use crate::program::Server;

/// The kernel ends a server that needs more.
const GROUP_BYTES: u64 = 512 << 20;
/// `items.embedded.cache_bytes` and `http.buffered_bytes_max`.
const BUDGET_BYTES: u64 = (16 + 64) << 20;
/// The memory that a server may need in addition.
const OTHER_BYTES: u64 = 64 << 20;
const PATIENCE: Duration = Duration::from_secs(60);
/// How long an attack lasts while the test watches the server.
const SIEGE: Duration = Duration::from_secs(3);
const LIST: &str = "/v1/lists/customer/seen/c-1/items";
const BIG: &str = "/v1/lists/customer/seen/big/items?limit=10000";

/// A server under attack.
struct Target {
    server: Server,
    group: Group,
    key: String,
    tls: Option<Arc<ClientConfig>>,
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

impl Target {
    /// `None` if this process may not make control groups, unless tests must have their tools.
    fn start(name: &str, with_tls: bool) -> Option<Self> {
        let Some(group) = Group::new(name, GROUP_BYTES) else {
            let required = std::env::var("LISTSTORE_TEST_TOOLS").is_ok_and(|value| value == "required");
            assert!(!required, "this test needs the right to make control groups");
            eprintln!("ignored: this process may not make control groups");
            return None;
        };
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
        let dir = TempDir::new().unwrap();
        let mut environment = vec![
            ("LISTSTORE__ITEMS__EMBEDDED__CACHE_BYTES", "16 MiB".to_owned()),
            ("LISTSTORE__HTTP__BUFFERED_BYTES_MAX", "64 MiB".to_owned()),
            ("LISTSTORE__HTTP__CONNECTIONS_MAX", "2000".to_owned()),
            ("LISTSTORE__ACCESS__MODE", "required".to_owned()),
        ];
        let mut tls = None;
        if with_tls {
            certificates::make(dir.path());
            let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
            environment.push(("LISTSTORE__HTTP__TLS__CERTIFICATE_FILE", path("server.pem")));
            environment.push(("LISTSTORE__HTTP__TLS__KEY_FILE", path("server-key.pem")));
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_file(dir.path().join("ca.pem")).unwrap()).unwrap();
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
            tls = Some(Arc::new(config.with_root_certificates(roots).with_no_client_auth()));
        }
        let environment: Vec<_> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let server = Server::start_in_after(dir, &group.entry(), &environment);
        let key = server.run(&["key", "create", "admin", "--role", "admin", "--local", "--data-dir", "data"]).out;
        let target = Self { server, group, key: key.trim().to_owned(), tls };
        let feature = json!({"entity_type": "customer", "name": "seen", "value_type": "string", "ttl": "30d"});
        assert_eq!(target.ask("POST", "/v1/features", &feature.to_string()), Some(201));
        Some(target)
    }

    fn connect(&self) -> std::io::Result<Box<dyn Stream>> {
        let (_, address) = self.server.url.split_once("://").unwrap();
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(Duration::from_secs(2)))?;
        Ok(match &self.tls {
            None => Box::new(stream),
            Some(config) => {
                let name = ServerName::try_from("127.0.0.1").unwrap();
                Box::new(StreamOwned::new(ClientConnection::new(Arc::clone(config), name).unwrap(), stream))
            }
        })
    }

    /// The status of an answer to a caller with a key; `None` if the connection ended without one.
    fn ask(&self, method: &str, path: &str, body: &str) -> Option<u16> {
        let mut stream = self.connect().ok()?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            self.key,
            body.len()
        );
        stream.write_all(head.as_bytes()).ok()?;
        let mut status = [0; 12];
        stream.read_exact(&mut status).ok()?;
        std::str::from_utf8(&status[9..]).ok()?.parse().ok()
    }

    /// The memory of the server process, and of its sockets.
    fn bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.server.pid())).unwrap();
        let own = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("the server has ended");
        (own.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10) + self.group.socket_bytes()
    }

    /// Watches the server during an attack: it stays within its bounds, and serves a caller with a key.
    fn assert_withstands(&self, attack: &str) {
        let (began, mut most, mut served) = (Instant::now(), 0, 0);
        while began.elapsed() < SIEGE || (served == 0 && began.elapsed() < PATIENCE) {
            most = most.max(self.bytes());
            served += u32::from(self.ask("GET", LIST, "") == Some(200));
        }
        eprintln!("{attack}: at most {} MiB; {served} gets were served", most >> 20);
        assert!(served > 0, "{attack}: no get was served");
        let allowed = BUDGET_BYTES + OTHER_BYTES;
        assert!(most <= allowed, "{attack}: {} MiB, of {} that are allowed", most >> 20, allowed >> 20);
    }

    /// Connections that have sent `head` and stay silent. Refused connections are left out.
    fn besiege(&self, count: usize, head: &str) -> Vec<Box<dyn Stream>> {
        let connected = (0..count).filter_map(|_| self.connect().ok());
        connected
            .filter_map(|mut stream| match stream.write_all(head.as_bytes()) {
                Ok(()) => Some(stream),
                // It does not read on, because we do not. Its connection counts as one with everything sent.
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Some(stream),
                Err(_) => None,
            })
            .collect()
    }
}

fn withstands(name: &str, with_tls: bool) {
    let Some(target) = Target::start(name, with_tls) else { return };
    let count = if with_tls { 300 } else { 1_500 };

    // Without a key: documents that are compressed for each request.
    for encoding in ["zstd", "gzip"] {
        let head = format!("GET /openapi.json HTTP/1.1\r\nhost: 127.0.0.1\r\naccept-encoding: {encoding}\r\n\r\n");
        let attackers = target.besiege(count, &head);
        target.assert_withstands(&format!("{} documents in {encoding}", attackers.len()));
    }

    // Without a key: incomplete bodies, small and large.
    let half = format!(
        "POST {LIST} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n"
    );
    for sent in [0, 100_000] {
        let attackers = target.besiege(count, &(half.clone() + &"x".repeat(sent)));
        target.assert_withstands(&format!("{} bodies of {sent} bytes that end in the middle", attackers.len()));
    }

    // Without a key: unread answers.
    let document = "GET /openapi.json HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".repeat(40);
    let attackers = target.besiege(300, &document);
    target.assert_withstands(&format!("{} times 40 documents that are not read", attackers.len()));
    drop(attackers);

    // With a key: unread pages of 4 MB.
    for part in 0..4 {
        let value = "z".repeat(60_000);
        let now = SystemClock.now().as_nanos();
        let items: Vec<Value> = (0..16)
            .map(|n| json!({"timestamp": (now - n).to_string(), "value": format!("{part}-{n}-{value}")}))
            .collect();
        let added = target.ask("POST", "/v1/lists/customer/seen/big/items", &json!({"items": items}).to_string());
        assert_eq!(added, Some(200));
    }
    let page = format!("GET {BIG} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {}\r\n\r\n", target.key);
    let attackers = target.besiege(count / 2, &page);
    target.assert_withstands(&format!("{} pages that are not read", attackers.len()));
    drop(attackers);

    let until = Instant::now() + PATIENCE;
    while target.ask("GET", BIG, "") != Some(200) {
        assert!(Instant::now() < until, "a large page is refused after the attackers left");
    }
    assert_eq!(target.ask("GET", "/livez", ""), Some(200));
}

#[test]
fn a_server_in_a_small_control_group_withstands_attackers() {
    withstands("plain", false);
}

#[test]
fn a_server_in_a_small_control_group_withstands_attackers_over_tls() {
    withstands("tls", true);
}
