//! TLS on the server: a certificate and its key from PEM files, which are read again when they have
//! changed, and what clients' certificates must be.
//!
//! TLS 1.2 and 1.3, with the ciphers that rustls holds to be safe. Files that cannot be used leave what
//! they held before in use; that is logged, and shown as a metric.

use std::future::poll_fn;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use prometheus::{IntCounter, IntGauge, Registry};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio::time::{Duration, Instant, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::certificate::ClientCertificate;

/// How often the files are looked at, at most, and only when a connection is made.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a handshake may take: as long as the head of a first request.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
pub struct TlsOptions {
    /// The chain, the server's own certificate first.
    pub certificate_file: PathBuf,
    pub key_file: PathBuf,
    pub clients: Option<ClientTls>,
}

/// Clients' certificates.
#[derive(Debug, Clone)]
pub struct ClientTls {
    /// Who may have signed them.
    pub ca_file: PathBuf,
    /// Whether a client must have one.
    pub required: bool,
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot use the TLS file {}: {problem}; see http.tls", path.display())]
    File { path: PathBuf, problem: &'static str },
    #[error("cannot register metrics: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// The server's side of TLS. Shared by all workers.
pub struct Tls {
    options: TlsOptions,
    state: Mutex<State>,
    unusable: IntGauge,
    failed: IntCounter,
}

struct State {
    texts: Vec<Vec<u8>>,
    config: Arc<ServerConfig>,
    looked_at: Instant,
    /// What was wrong at the last look, which is said once.
    problem: Option<String>,
}

impl Tls {
    /// Reads the files. Registers its metrics with `registry`.
    pub fn open(options: TlsOptions, registry: &Registry) -> Result<Self, TlsError> {
        let texts = read(&options)?;
        let config = config(&options, &texts)?;
        let (unusable, failed) = metrics(registry)?;
        let state = Mutex::new(State { texts, config, looked_at: Instant::now(), problem: None });
        Ok(Self { options, state, unusable, failed })
    }

    /// Brings TLS about, unless that takes too long or the connection is told to leave; `None` is
    /// counted.
    pub(super) async fn accept(
        &self,
        stream: TcpStream,
        told_to_leave: impl Fn(&Context<'_>) -> Poll<()>,
    ) -> Option<TlsStream<TcpStream>> {
        let mut accepting = pin!(TlsAcceptor::from(self.current(Instant::now())).accept(stream));
        let accepting = poll_fn(|context| match accepting.as_mut().poll(context) {
            Poll::Ready(accepted) => Poll::Ready(accepted),
            Poll::Pending => told_to_leave(context).map(|()| Err(io::ErrorKind::ConnectionAborted.into())),
        });
        let accepted = match timeout(HANDSHAKE_TIMEOUT, accepting).await {
            Ok(accepted) => accepted.inspect_err(|error| tracing::debug!(%error, "a TLS handshake failed")).ok(),
            Err(_) => None,
        };
        if accepted.is_none() {
            self.failed.inc();
        }
        accepted
    }

    /// What the files hold now, or held when they could last be used.
    fn current(&self, now: Instant) -> Arc<ServerConfig> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(state.looked_at) < LOOK_INTERVAL {
            return Arc::clone(&state.config);
        }
        state.looked_at = now;
        let changed = read(&self.options).and_then(|texts| match texts == state.texts {
            true => Ok(None),
            false => config(&self.options, &texts).map(|config| Some((texts, config))),
        });
        match changed {
            Ok(changed) => {
                if let Some((texts, config)) = changed {
                    tracing::info!("the TLS files have changed: connections from now on use them");
                    (state.texts, state.config) = (texts, config);
                }
                state.problem = None;
                self.unusable.set(0);
            }
            Err(problem) => {
                let problem = problem.to_string();
                if state.problem.as_ref() != Some(&problem) {
                    tracing::error!(
                        problem,
                        "the TLS files have changed and cannot be used: what they held before stays in use"
                    );
                    state.problem = Some(problem);
                }
                self.unusable.set(1);
            }
        }
        Arc::clone(&state.config)
    }
}

fn metrics(registry: &Registry) -> prometheus::Result<(IntGauge, IntCounter)> {
    let unusable = IntGauge::new(
        "liststore_http_tls_files_unusable",
        "1 while the TLS files cannot be used, and what they held before stays in use.",
    )?;
    let failed =
        IntCounter::new("liststore_http_tls_handshakes_failed_total", "Connections on which no TLS came about.")?;
    registry.register(Box::new(unusable.clone()))?;
    registry.register(Box::new(failed.clone()))?;
    Ok((unusable, failed))
}

/// What the client has shown of itself, if it did.
pub(super) fn client_certificate(stream: &TlsStream<TcpStream>) -> Option<Arc<ClientCertificate>> {
    let shown = stream.get_ref().1.peer_certificates()?.first()?;
    ClientCertificate::of(shown).map(Arc::new)
}

/// The files' contents, in one order.
fn read(options: &TlsOptions) -> Result<Vec<Vec<u8>>, TlsError> {
    let clients = options.clients.iter().map(|clients| &clients.ca_file);
    let files = [&options.certificate_file, &options.key_file].into_iter().chain(clients);
    files.map(|path| std::fs::read(path).map_err(|error| unreadable(path, &error))).collect()
}

fn config(options: &TlsOptions, texts: &[Vec<u8>]) -> Result<Arc<ServerConfig>, TlsError> {
    let [chain, key, authorities @ ..] = texts else { return Err(unusable(&options.key_file, "it was not read")) };
    // Named here, since more than one may be linked in.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|_| unusable(&options.certificate_file, "no version of TLS is available"))?;
    let builder = match (&options.clients, authorities.first()) {
        (Some(clients), Some(authorities)) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(&clients.ca_file, authorities)? {
                roots.add(certificate).map_err(|_| unusable(&clients.ca_file, "a certificate in it is malformed"))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = if clients.required { verifier } else { verifier.allow_unauthenticated() };
            let verifier = verifier
                .build()
                .map_err(|_| unusable(&clients.ca_file, "its certificates cannot be used to check others"))?;
            builder.with_client_cert_verifier(verifier)
        }
        _ => builder.with_no_client_auth(),
    };
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| unusable(&options.key_file, "it must be a readable PEM file with one private key"))?;
    let chain = certificates(&options.certificate_file, chain)?;
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|_| unusable(&options.certificate_file, "the certificate and the key do not belong together"))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    if options.clients.is_some() {
        // A session that is taken up again is not checked again: a certificate would hold beyond its expiry.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(Arc::new(config))
}

fn certificates(path: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let malformed = || unusable(path, "it must be a readable PEM file with certificates");
    let found = CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>().map_err(|_| malformed())?;
    if found.is_empty() { Err(malformed()) } else { Ok(found) }
}

fn unreadable(path: &Path, error: &io::Error) -> TlsError {
    let problem = match error.kind() {
        io::ErrorKind::NotFound => "it is not there",
        io::ErrorKind::PermissionDenied => "this user may not read it",
        _ => "it cannot be read",
    };
    unusable(path, problem)
}

fn unusable(path: &Path, problem: &'static str) -> TlsError {
    TlsError::File { path: path.to_owned(), problem }
}
