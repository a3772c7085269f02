//! TLS to nodes whose certificates name no address, as in clouds, and files that change. The node is forged: it
//! completes TLS and answers OPTIONS, which is enough for these tests.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use liststore::domain::SystemClock;
use liststore::items::cql::{CqlOptions, CqlStore, CqlTls};
use liststore::items::{ItemStore, StoreError};
use prometheus::Registry;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

use crate::cassandra;

const NAME: &str = "node-1.db.example.com";

fn openssl(dir: &Path, arguments: &str) {
    let output = Command::new("openssl").args(arguments.split(' ')).current_dir(dir).stdin(Stdio::null()).output();
    let output = output.unwrap();
    assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// `ca.pem`, and `node.pem` with `node-key.pem` that it signed, which names [`NAME`] alone.
fn make_certificates(dir: &Path) {
    make_certificates_for(dir, &format!("DNS:{NAME}"));
}

/// The same, with another name in place of it.
fn make_certificates_for(dir: &Path, name: &str) {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(dir, &format!("req -x509 {key} -subj /CN=authority -days 2 -keyout ca-key.pem -out ca.pem"));
    openssl(dir, &format!("req {key} -subj /CN=node -keyout node-key.pem -out node.csr"));
    std::fs::write(dir.join("names"), format!("subjectAltName={name}")).unwrap();
    openssl(
        dir,
        "x509 -req -in node.csr -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 2 -extfile names -out node.pem",
    );
}

/// A node with the certificate of a directory. Returns where it listens.
async fn node(dir: &Path) -> String {
    let chain = CertificateDer::pem_file_iter(dir.join("node.pem")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(dir.join("node-key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config.with_no_client_auth().with_single_cert(chain, key).unwrap()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut request = [0; 9];
                if stream.read_exact(&mut request).await.is_ok() {
                    // SUPPORTED, on the stream of the request, with no options; then it is gone.
                    let _ = stream.write_all(&[0x84, 0, request[2], request[3], 6, 0, 0, 0, 2, 0, 0]).await;
                    let _ = stream.shutdown().await;
                }
            });
        }
    });
    address
}

/// Why no session opens. A node whose certificate was accepted is gone right after it.
async fn why(store: &CqlStore) -> String {
    match store.open_session().await.map(|_| ()) {
        Err(StoreError::Unavailable { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

fn store(address: &str, dir: &Path, server_names: &[&str]) -> CqlStore {
    let server_names = server_names.iter().map(ToString::to_string).collect();
    let tls = Some(CqlTls { ca_file: dir.join("ca.pem"), server_names, client: None });
    let options = CqlOptions { tls, ..cassandra::options(vec![address.to_owned()], 1) };
    CqlStore::open(options, Arc::new(SystemClock), &Registry::new()).unwrap()
}

const REFUSED: &str = "a node's certificate is not accepted";

#[tokio::test]
async fn a_certificate_may_have_the_names_of_the_settings() {
    let dir = tempfile::tempdir().unwrap();
    make_certificates(dir.path());
    let address = node(dir.path()).await;
    let by_address = why(&store(&address, dir.path(), &[])).await;
    assert!(by_address.contains(REFUSED) && by_address.contains("items.cql.tls.server_name"), "{by_address}");
    let another = why(&store(&address, dir.path(), &["node-2.db.example.com"])).await;
    assert!(another.contains(REFUSED), "{another}");
    for names in [&[NAME][..], &["node-2.db.example.com", NAME]] {
        let accepted = why(&store(&address, dir.path(), names)).await;
        assert!(!accepted.contains("certificate is not accepted"), "{accepted}");
    }
}

/// Where names are set they alone count: a certificate of the address is not enough.
#[tokio::test]
async fn with_configured_names_a_certificate_for_the_address_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    make_certificates_for(dir.path(), "IP:127.0.0.1");
    let address = node(dir.path()).await;
    let unnamed = why(&store(&address, dir.path(), &[])).await;
    assert!(!unnamed.contains(REFUSED), "{unnamed}");
    let named = why(&store(&address, dir.path(), &[NAME])).await;
    assert!(named.contains(REFUSED), "{named}");
}

#[tokio::test]
async fn a_replaced_authority_applies_without_a_restart() {
    let (dir, renewed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make_certificates(dir.path());
    make_certificates(renewed.path());
    let address = node(renewed.path()).await;
    let store = store(&address, dir.path(), &[NAME]);
    assert!(why(&store).await.contains(REFUSED));
    // Unusable files change nothing.
    std::fs::write(dir.path().join("ca.pem"), "half of a file").unwrap();
    assert!(why(&store).await.contains(REFUSED));
    std::fs::copy(renewed.path().join("ca.pem"), dir.path().join("ca.pem")).unwrap();
    let patience = Instant::now() + Duration::from_secs(30);
    while why(&store).await.contains(REFUSED) {
        assert!(Instant::now() < patience, "the file is not read again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
