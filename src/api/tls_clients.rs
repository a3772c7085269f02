//! Clients' certificates: their authorities and revocation lists, and the check on open connections.
//!
//! A readable file is accepted, even if it names no authority. If a file is unreadable, the previous authorities and
//! revocations stay in use for a bounded time. After that no certificate is valid.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use super::certificate::ClientCertificate;
use crate::access::Names;
use crate::domain::{Clock, SystemClock};
use crate::tls_files::{self, FileProblem, TlsFiles};

/// The interval between checks of a certificate on an open connection, because it may have expired.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// The smallest interval in which a connection compares its verifier with the current one.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How clients' certificates are checked.
#[derive(Debug, Clone)]
pub struct ClientTls {
    /// The authorities that may have signed them.
    pub ca_file: PathBuf,
    /// Their revocation lists.
    pub crl_file: Option<PathBuf>,
    /// Whether a client must have a certificate.
    pub required: bool,
    /// How long the last readable files stay in use.
    pub files_age_max: Duration,
}

pub(crate) type Verifier = Arc<dyn ClientCertVerifier>;

/// The check of clients' certificates, according to its files.
#[derive(Debug)]
pub(crate) struct Clients {
    files: TlsFiles<Verifier>,
    files_age_max: Duration,
    /// In use while the files are too old.
    refusing: Verifier,
    /// Whether the files were too old at the last check.
    too_old: AtomicBool,
}

/// The current check.
pub(crate) struct CurrentClients {
    pub verifier: Verifier,
    pub are_unusable: bool,
    pub are_too_old: bool,
}

impl Clients {
    pub fn open(options: &ClientTls, provider: &Arc<CryptoProvider>) -> Result<Self, FileProblem> {
        let paths = [Some(options.ca_file.clone()), options.crl_file.clone()].into_iter().flatten().collect();
        let refusing = RefusesAll::verifier(options.required, provider);
        let (options, provider) = (options.clone(), Arc::clone(provider));
        let files_age_max = options.files_age_max;
        let files = TlsFiles::open(paths, move |texts| verifier(&options, texts, &provider))?;
        Ok(Self { files, files_age_max, refusing, too_old: AtomicBool::new(false) })
    }

    pub fn current(&self) -> CurrentClients {
        let (verifier, problem) = self.files.current_within(self.files_age_max);
        let was_too_old = self.too_old.swap(verifier.is_none(), Ordering::AcqRel);
        if let (None, Some(problem), false) = (&verifier, &problem, was_too_old) {
            tracing::error!(%problem, "no client certificate is accepted: the TLS files have been unusable for too \
                                       long");
        }
        let (are_unusable, are_too_old) = (problem.is_some(), verifier.is_none());
        CurrentClients { verifier: verifier.unwrap_or_else(|| Arc::clone(&self.refusing)), are_unusable, are_too_old }
    }
}

fn verifier(options: &ClientTls, texts: &[Vec<u8>], provider: &Arc<CryptoProvider>) -> Result<Verifier, FileProblem> {
    let [authorities, revocations @ ..] = texts else {
        return Err(FileProblem::of(&options.ca_file, "it has not been read yet"));
    };
    let roots = tls_files::believed_authorities(&options.ca_file, authorities)?;
    let crls = match (&options.crl_file, revocations.first()) {
        (Some(path), Some(text)) => tls_files::revocations(path, text)?,
        _ => Vec::new(),
    };
    if roots.is_empty() {
        tracing::warn!(file = %options.ca_file.display(), "no client certificate is accepted: the file has no authority");
        return Ok(RefusesAll::verifier(options.required, provider));
    }
    let blamed = options.crl_file.as_ref().filter(|_| !crls.is_empty()).unwrap_or(&options.ca_file);
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    // An authority without a list in the file has revoked nothing. A list after its next update proves nothing.
    let builder = builder.with_crls(crls).allow_unknown_revocation_status().enforce_revocation_expiration();
    let builder = if options.required { builder } else { builder.allow_unauthenticated() };
    builder.build().map_err(|_| FileProblem::of(blamed, "it cannot be used to verify certificates"))
}

/// Requests certificates, and accepts none.
#[derive(Debug)]
struct RefusesAll {
    required: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

impl RefusesAll {
    fn verifier(required: bool, provider: &CryptoProvider) -> Verifier {
        Arc::new(Self { required, algorithms: provider.signature_verification_algorithms })
    }
}

impl ClientCertVerifier for RefusesAll {
    fn client_auth_mandatory(&self) -> bool {
        self.required
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Err(Error::InvalidCertificate(CertificateError::UnknownIssuer))
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::InvalidCertificate(CertificateError::UnknownIssuer))
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::InvalidCertificate(CertificateError::UnknownIssuer))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The certificate of an open connection, which passed its check in the handshake.
#[derive(Debug)]
pub(crate) struct ShownCertificate {
    certificate: ClientCertificate,
    /// The client's own certificate first.
    chain: Vec<CertificateDer<'static>>,
    clients: Arc<Clients>,
    checked: Mutex<Checked>,
}

/// The last check of a certificate.
#[derive(Debug)]
struct Checked {
    by: Verifier,
    at: Instant,
    /// When the verifier was last compared with the current one.
    checked_at: Instant,
    holds: bool,
}

impl ShownCertificate {
    pub fn of(chain: &[CertificateDer<'_>], clients: &Arc<Clients>) -> Option<Self> {
        let certificate = ClientCertificate::of(chain.first()?)?;
        let chain: Vec<_> = chain.iter().map(|part| part.clone().into_owned()).collect();
        let by = clients.current().verifier;
        let now = Instant::now();
        let checked = Checked { holds: holds(&chain, &by), by, at: now, checked_at: now };
        Some(Self { certificate, chain, clients: Arc::clone(clients), checked: Mutex::new(checked) })
    }

    pub fn names(&self) -> Names<'_> {
        self.certificate.names()
    }

    /// Whether the certificate would pass its check now. Its authority may have been removed, and it may be revoked or
    /// expired.
    pub fn holds(&self) -> bool {
        self.holds_at(Instant::now())
    }

    fn holds_at(&self, now: Instant) -> bool {
        let mut checked = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        // All connections share the files, so a connection checks them only at an interval.
        if now.saturating_duration_since(checked.checked_at) < RECHECK_INTERVAL {
            return checked.holds;
        }
        checked.checked_at = now;
        let by = self.clients.current().verifier;
        if !Arc::ptr_eq(&checked.by, &by) || now.saturating_duration_since(checked.at) >= CHECK_INTERVAL {
            *checked = Checked { holds: holds(&self.chain, &by), by, at: now, checked_at: now };
        }
        checked.holds
    }
}

fn holds(chain: &[CertificateDer<'_>], by: &Verifier) -> bool {
    let Some((own, intermediates)) = chain.split_first() else { return false };
    let now = UnixTime::since_unix_epoch(Duration::from_nanos(SystemClock.now().as_nanos()));
    by.verify_client_cert(own, intermediates, now).is_ok()
}
