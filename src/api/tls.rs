//! TLS on the server: a certificate and its key from PEM files, which are read again when they have
//! changed, and what clients' certificates must be.
//!
//! TLS 1.2 and 1.3, with the ciphers that rustls holds to be safe. Files that cannot be used leave what
//! they held before in use; that is logged, and shown as a metric.

use std::future::poll_fn;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use prometheus::{IntCounter, IntGauge, Registry};
use rustls::ServerConfig;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio::net::TcpStream;
use tokio::time::{Duration, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::certificate::ClientCertificate;
use crate::tls_files::{self, FileProblem, TlsFiles};

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
    #[error("{0}; see http.tls")]
    File(#[from] FileProblem),
    #[error("cannot register metrics: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// The server's side of TLS. Shared by all workers.
pub struct Tls {
    files: TlsFiles<Arc<ServerConfig>>,
    unusable: IntGauge,
    failed: IntCounter,
}

impl Tls {
    /// Reads the files. Registers its metrics with `registry`.
    pub fn open(options: TlsOptions, registry: &Registry) -> Result<Self, TlsError> {
        let clients = options.clients.iter().map(|clients| clients.ca_file.clone());
        let paths = [options.certificate_file.clone(), options.key_file.clone()].into_iter().chain(clients).collect();
        let files = TlsFiles::open(paths, move |texts| config(&options, texts))?;
        let (unusable, failed) = metrics(registry)?;
        Ok(Self { files, unusable, failed })
    }

    /// Brings TLS about, unless that takes too long or the connection is told to leave; `None` is
    /// counted.
    pub(super) async fn accept(
        &self,
        stream: TcpStream,
        told_to_leave: impl Fn(&Context<'_>) -> Poll<()>,
    ) -> Option<TlsStream<TcpStream>> {
        let mut accepting = pin!(TlsAcceptor::from(self.current()).accept(stream));
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
    fn current(&self) -> Arc<ServerConfig> {
        let (config, problem) = self.files.current();
        self.unusable.set(problem.is_some().into());
        config
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

fn config(options: &TlsOptions, texts: &[Vec<u8>]) -> Result<Arc<ServerConfig>, FileProblem> {
    let [chain, key, authorities @ ..] = texts else {
        return Err(FileProblem::of(&options.key_file, "it was not read"));
    };
    // Named here, since more than one may be linked in.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|_| FileProblem::of(&options.certificate_file, "no version of TLS is available"))?;
    let builder = match (&options.clients, authorities.first()) {
        (Some(clients), Some(authorities)) => {
            let roots = tls_files::authorities(&clients.ca_file, authorities)?;
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = if clients.required { verifier } else { verifier.allow_unauthenticated() };
            let verifier = verifier
                .build()
                .map_err(|_| FileProblem::of(&clients.ca_file, "its certificates cannot be used to check others"))?;
            builder.with_client_cert_verifier(verifier)
        }
        _ => builder.with_no_client_auth(),
    };
    let key = tls_files::private_key(&options.key_file, key)?;
    let chain = tls_files::certificates(&options.certificate_file, chain)?;
    let mut config = builder.with_single_cert(chain, key).map_err(|_| {
        FileProblem::of(&options.certificate_file, "the certificate and the key do not belong together")
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    if options.clients.is_some() {
        // A session that is taken up again is not checked again: a certificate would hold beyond its expiry.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(Arc::new(config))
}
