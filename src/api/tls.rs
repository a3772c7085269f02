//! TLS on the server: a certificate and its key from PEM files, which are read again when they change.
//! [`tls_clients`](super::tls_clients) checks clients' certificates.
//!
//! It supports TLS 1.2 and 1.3, with the ciphers that rustls considers safe. With an unusable certificate or key the
//! previous pair stays in use, and the log and a metric show that. The files for clients' certificates are separate, so
//! neither blocks a change of the other.

use std::future::poll_fn;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use prometheus::{IntCounter, IntGauge, Registry};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::server::NoServerSessionStorage;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio::net::TcpStream;
use tokio::time::{Duration, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::tls_clients::{ClientTls, Clients, ShownCertificate, Verifier};
use crate::tls_files::{self, FileProblem, TlsFiles};

/// The time limit of a handshake, the same as for the head of a first request.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
pub struct TlsOptions {
    /// The chain, the server's own certificate first.
    pub certificate_file: PathBuf,
    pub key_file: PathBuf,
    pub clients: Option<ClientTls>,
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{0}; see http.tls")]
    File(#[from] FileProblem),
    #[error("TLS is unavailable: {0}; see http.tls")]
    Library(#[from] rustls::Error),
    #[error("cannot register metrics: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// The server's side of TLS. Shared by all workers.
pub struct Tls {
    files: TlsFiles<Arc<CertifiedKey>>,
    clients: Option<Arc<Clients>>,
    provider: Arc<CryptoProvider>,
    /// The latest configuration.
    made: Mutex<Made>,
    metrics: TlsMetrics,
}

/// A configuration, and its source.
struct Made {
    key: Arc<CertifiedKey>,
    verifier: Option<Verifier>,
    config: Arc<ServerConfig>,
}

struct TlsMetrics {
    unusable: IntGauge,
    clients_refused: IntGauge,
    failed: IntCounter,
}

impl Tls {
    /// Reads the files. Registers its metrics with `registry`.
    pub fn open(options: TlsOptions, registry: &Registry) -> Result<Self, TlsError> {
        // Named explicitly, because several providers may be linked.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let TlsOptions { certificate_file, key_file, clients } = options;
        let clients = clients.map(|clients| Clients::open(&clients, &provider)).transpose()?.map(Arc::new);
        let paths = vec![certificate_file.clone(), key_file.clone()];
        let by = Arc::clone(&provider);
        let files = TlsFiles::open(paths, move |texts| certified(&certificate_file, &key_file, texts, &by))?;
        let (key, verifier) = (files.current().0, clients.as_ref().map(|clients| clients.current().verifier));
        let config = config(&key, verifier.as_ref(), &provider)?;
        let (made, metrics) = (Mutex::new(Made { key, verifier, config }), TlsMetrics::new(registry)?);
        Ok(Self { files, clients, provider, made, metrics })
    }

    /// Completes the TLS handshake, unless it takes too long or the connection must leave; `None` is counted.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
        asked_to_leave: impl Fn(&Context<'_>) -> Poll<()>,
    ) -> Option<TlsStream<TcpStream>> {
        let mut accepting = pin!(TlsAcceptor::from(self.current()).accept(stream));
        let accepting = poll_fn(|context| match accepting.as_mut().poll(context) {
            Poll::Ready(accepted) => Poll::Ready(accepted),
            Poll::Pending => asked_to_leave(context).map(|()| Err(io::ErrorKind::ConnectionAborted.into())),
        });
        let accepted = match timeout(HANDSHAKE_TIMEOUT, accepting).await {
            Ok(accepted) => accepted.inspect_err(|error| tracing::debug!(%error, "TLS handshake failed")).ok(),
            Err(_) => None,
        };
        if accepted.is_none() {
            self.metrics.failed.inc();
        }
        accepted
    }

    /// The configuration of the current files, or of the last usable ones.
    fn current(&self) -> Arc<ServerConfig> {
        let (key, problem) = self.files.current();
        let clients = self.clients.as_ref().map(|clients| clients.current());
        let is = |yes: bool| i64::from(yes);
        let clients_are_unusable = clients.as_ref().is_some_and(|clients| clients.are_unusable);
        self.metrics.unusable.set(is(problem.is_some() || clients_are_unusable));
        self.metrics.clients_refused.set(is(clients.as_ref().is_some_and(|clients| clients.are_too_old)));
        let verifier = clients.map(|clients| clients.verifier);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same_verifier = match (&made.verifier, &verifier) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        if !Arc::ptr_eq(&made.key, &key) || !is_same_verifier {
            match config(&key, verifier.as_ref(), &self.provider) {
                Ok(config) => *made = Made { key, verifier, config },
                Err(error) => tracing::error!(%error, "changed TLS files are unusable"),
            }
        }
        Arc::clone(&made.config)
    }

    /// The certificate that the client presented.
    pub(crate) fn shown(&self, stream: &TlsStream<TcpStream>) -> Option<Arc<ShownCertificate>> {
        let chain = stream.get_ref().1.peer_certificates()?;
        ShownCertificate::of(chain, self.clients.as_ref()?).map(Arc::new)
    }
}

impl TlsMetrics {
    fn new(registry: &Registry) -> prometheus::Result<Self> {
        let unusable = IntGauge::new(
            "liststore_http_tls_files_unusable",
            "1 while the TLS files are unusable and their previous contents stay in use.",
        )?;
        let clients_refused = IntGauge::new(
            "liststore_http_tls_clients_refused",
            "1 while no client certificate is accepted because their files have been unusable for too long.",
        )?;
        let failed = IntCounter::new("liststore_http_tls_handshakes_failed_total", "Failed TLS handshakes.")?;
        registry.register(Box::new(unusable.clone()))?;
        registry.register(Box::new(clients_refused.clone()))?;
        registry.register(Box::new(failed.clone()))?;
        Ok(Self { unusable, clients_refused, failed })
    }
}

fn certified(
    certificate_file: &Path,
    key_file: &Path,
    texts: &[Vec<u8>],
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, FileProblem> {
    let [chain, key] = texts else { return Err(FileProblem::of(key_file, "it has not been read yet")) };
    let key = tls_files::private_key(key_file, key)?;
    let chain = tls_files::certificates(certificate_file, chain)?;
    let certified = CertifiedKey::from_der(chain, key, provider)
        .map_err(|_| FileProblem::of(certificate_file, "the certificate and the key do not match"))?;
    Ok(Arc::new(certified))
}

fn config(
    key: &Arc<CertifiedKey>,
    verifier: Option<&Verifier>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let builder = ServerConfig::builder_with_provider(Arc::clone(provider)).with_safe_default_protocol_versions()?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier)),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(key))));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    if verifier.is_some() {
        // A resumed session would skip the check, so that a certificate would remain valid beyond its expiry.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(Arc::new(config))
}
