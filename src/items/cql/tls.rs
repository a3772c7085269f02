//! TLS to the nodes: from PEM files, which are read again when they have changed, and by the names
//! that clouds write into nodes' certificates.
//!
//! The driver knows nodes by their addresses and asks for certificates that name those. Whether a
//! certificate names what it must is therefore decided here.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::OpenError;
use super::options::CqlTls;

/// How often the files are looked at, at most, and only when a connection is made.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The TLS configuration, read once from its files.
pub type Tls = Arc<ClientConfig>;

/// Reads the files. The names of contact points count as names of nodes, unless others are given.
pub fn load(options: &CqlTls, contact_points: &[String]) -> Result<Tls, OpenError> {
    // Named here, since more than one may be linked in.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let files = Arc::new(Files::open(options, Arc::clone(&provider))?);
    let of_contact_points = contact_points.iter().map(|point| point.rsplit_once(':').map_or(point.as_str(), |at| at.0));
    let names = if options.server_names.is_empty() {
        of_contact_points.filter_map(|host| ServerName::try_from(host.to_owned()).ok()).filter(is_host_name).collect()
    } else {
        let names = options.server_names.iter().map(|name| ServerName::try_from(name.clone()));
        names.collect::<Result<_, _>>().map_err(|_| OpenError::Option {
            option: "tls.server_name",
            problem: "must be host names or IP addresses, without ports",
        })?
    };
    let verifier = NodeVerifier { files: Arc::clone(&files), names, address_counts: options.server_names.is_empty() };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| unusable(&options.ca_file, "no version of TLS is available"))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_cert_resolver(Arc::new(OurCertificate { files }));
    // A resumed session shows no certificate, so an authority that was taken out would still count.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

fn is_host_name(name: &ServerName<'static>) -> bool {
    matches!(name, ServerName::DnsName(_))
}

/// What was read from the files last, as it is used.
#[derive(Debug)]
struct Loaded {
    texts: Vec<Vec<u8>>,
    verifier: Arc<WebPkiServerVerifier>,
    ours: Option<Arc<CertifiedKey>>,
}

/// The files, and what stood in them when they were last whole.
#[derive(Debug)]
struct Files {
    options: CqlTls,
    provider: Arc<CryptoProvider>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    loaded: Arc<Loaded>,
    looked_at: Instant,
    /// What was wrong at the last look, which is said once.
    problem: Option<String>,
}

impl Files {
    fn open(options: &CqlTls, provider: Arc<CryptoProvider>) -> Result<Self, OpenError> {
        let texts = read(options)?;
        let loaded = Arc::new(Loaded::of(options, texts, &provider)?);
        let state = Mutex::new(State { loaded, looked_at: Instant::now(), problem: None });
        Ok(Self { options: options.clone(), provider, state })
    }

    /// The files as they are now, or were when they could last be used.
    fn current(&self) -> Arc<Loaded> {
        self.look(Instant::now())
    }

    fn look(&self, now: Instant) -> Arc<Loaded> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(state.looked_at) < LOOK_INTERVAL {
            return Arc::clone(&state.loaded);
        }
        state.looked_at = now;
        let changed = read(&self.options).and_then(|texts| match texts == state.loaded.texts {
            true => Ok(None),
            false => Loaded::of(&self.options, texts, &self.provider).map(Some),
        });
        match changed {
            Ok(changed) => {
                if let Some(loaded) = changed {
                    tracing::info!(ca_file = %self.options.ca_file.display(), "the TLS files have changed: connections from now on use them");
                    state.loaded = Arc::new(loaded);
                }
                state.problem = None;
            }
            Err(problem) => {
                let problem = problem.to_string();
                if state.problem.as_ref() != Some(&problem) {
                    tracing::warn!(
                        problem,
                        "the TLS files have changed and cannot be used: what they held before stays in use"
                    );
                    state.problem = Some(problem);
                }
            }
        }
        Arc::clone(&state.loaded)
    }
}

/// The files' contents, in one order.
fn read(options: &CqlTls) -> Result<Vec<Vec<u8>>, OpenError> {
    let client = options.client.iter().flat_map(|client| [&client.cert_file, &client.key_file]);
    let read = |path: &PathBuf| std::fs::read(path).map_err(|error| unreadable(path, &error));
    std::iter::once(&options.ca_file).chain(client).map(read).collect()
}

impl Loaded {
    fn of(options: &CqlTls, texts: Vec<Vec<u8>>, provider: &Arc<CryptoProvider>) -> Result<Self, OpenError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&options.ca_file, &texts[0])? {
            roots.add(certificate).map_err(|_| unusable(&options.ca_file, "a certificate in it is malformed"))?;
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
            .build()
            .map_err(|_| unusable(&options.ca_file, "its certificates cannot be used to check others"))?;
        let ours = match (&options.client, texts.get(1), texts.get(2)) {
            (Some(client), Some(chain), Some(key)) => {
                let key = PrivateKeyDer::from_pem_slice(key)
                    .map_err(|_| unusable(&client.key_file, "it must be a readable PEM file with one private key"))?;
                let chain = certificates(&client.cert_file, chain)?;
                let ours = CertifiedKey::from_der(chain, key, provider)
                    .map_err(|_| unusable(&client.cert_file, "the certificate and the key do not belong together"))?;
                Some(Arc::new(ours))
            }
            _ => None,
        };
        Ok(Self { texts, verifier, ours })
    }
}

fn certificates(path: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, OpenError> {
    let malformed = || unusable(path, "it must be a readable PEM file with certificates");
    let found = CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>().map_err(|_| malformed())?;
    if found.is_empty() { Err(malformed()) } else { Ok(found) }
}

fn unreadable(path: &Path, error: &io::Error) -> OpenError {
    let problem = match error.kind() {
        io::ErrorKind::NotFound => "it is not there",
        io::ErrorKind::PermissionDenied => "this user may not read it",
        _ => "it cannot be read",
    };
    unusable(path, problem)
}

fn unusable(path: &Path, problem: &'static str) -> OpenError {
    OpenError::TlsFile { path: path.to_owned(), problem }
}

/// Accepts a node whose certificate our authority signed and that names what it must.
#[derive(Debug)]
struct NodeVerifier {
    files: Arc<Files>,
    names: Vec<ServerName<'static>>,
    /// Whether the node's address is such a name too.
    address_counts: bool,
}

impl ServerCertVerifier for NodeVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        address: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verifier = &self.files.current().verifier;
        let address = self.address_counts.then_some(address);
        let mut refused = rustls::Error::InvalidCertificate(CertificateError::NotValidForName);
        for name in address.into_iter().chain(&self.names) {
            match verifier.verify_server_cert(end_entity, intermediates, name, ocsp_response, now) {
                Ok(verified) => return Ok(verified),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.files.current().verifier.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.files.current().verifier.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.files.current().verifier.supported_verify_schemes()
    }
}

/// Shows our certificate to nodes that ask for one.
#[derive(Debug)]
struct OurCertificate {
    files: Arc<Files>,
}

impl ResolvesClientCert for OurCertificate {
    fn resolve(&self, _authorities: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.files.current().ours.clone()
    }

    fn has_certs(&self) -> bool {
        self.files.options.client.is_some()
    }
}
