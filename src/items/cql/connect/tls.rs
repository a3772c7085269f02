//! TLS to the nodes: from PEM files, which are read again when they have changed, and by the names
//! that clouds write into nodes' certificates.
//!
//! The driver knows nodes by their addresses and asks for certificates that name those. So this module decides whether
//! a certificate names the node.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, SignatureScheme};

use crate::items::cql::OpenError;
use crate::items::cql::options::CqlTls;
use crate::tls_files::{self, FileProblem, TlsFiles};

/// The TLS configuration, read once from its files.
pub type Tls = Arc<ClientConfig>;

/// Reads the files. The names of contact points count as names of nodes, unless others are given.
pub fn load(options: &CqlTls, contact_points: &[String]) -> Result<Tls, OpenError> {
    // Named here, since more than one may be linked in.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let files = Arc::new(open(options, Arc::clone(&provider))?);
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
        .map_err(|_| FileProblem::of(&options.ca_file, "no version of TLS is available"))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_cert_resolver(Arc::new(OurCertificate { files, is_configured: options.client.is_some() }));
    // A resumed session shows no certificate, so an authority that was taken out would still count.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

fn is_host_name(name: &ServerName<'static>) -> bool {
    matches!(name, ServerName::DnsName(_))
}

/// The last content of the files, as it is used.
#[derive(Debug)]
struct Loaded {
    verifier: Arc<WebPkiServerVerifier>,
    ours: Option<Arc<CertifiedKey>>,
}

type Files = TlsFiles<Arc<Loaded>>;

fn open(options: &CqlTls, provider: Arc<CryptoProvider>) -> Result<Files, FileProblem> {
    let client = options.client.iter().flat_map(|client| [client.cert_file.clone(), client.key_file.clone()]);
    let paths = std::iter::once(options.ca_file.clone()).chain(client).collect();
    let options = options.clone();
    TlsFiles::open(paths, move |texts| Loaded::of(&options, texts, &provider).map(Arc::new))
}

impl Loaded {
    fn of(options: &CqlTls, texts: &[Vec<u8>], provider: &Arc<CryptoProvider>) -> Result<Self, FileProblem> {
        let [authorities, ours @ ..] = texts else {
            return Err(FileProblem::of(&options.ca_file, "it has not been read yet"));
        };
        let roots = tls_files::authorities(&options.ca_file, authorities)?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
            .build()
            .map_err(|_| FileProblem::of(&options.ca_file, "its certificates cannot be used to verify others"))?;
        let ours = match (&options.client, ours) {
            (Some(client), [chain, key]) => {
                let key = tls_files::private_key(&client.key_file, key)?;
                let chain = tls_files::certificates(&client.cert_file, chain)?;
                let apart = "the certificate and the key do not match";
                let ours = CertifiedKey::from_der(chain, key, provider);
                Some(Arc::new(ours.map_err(|_| FileProblem::of(&client.cert_file, apart))?))
            }
            _ => None,
        };
        Ok(Self { verifier, ours })
    }
}

/// Accepts a node whose certificate our authority signed and that names the node.
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
        let verifier = &self.files.current().0.verifier;
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
        self.files.current().0.verifier.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.files.current().0.verifier.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.files.current().0.verifier.supported_verify_schemes()
    }
}

/// Shows our certificate to nodes that ask for one.
#[derive(Debug)]
struct OurCertificate {
    files: Arc<Files>,
    is_configured: bool,
}

impl ResolvesClientCert for OurCertificate {
    fn resolve(&self, _authorities: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.files.current().0.ours.clone()
    }

    fn has_certs(&self) -> bool {
        self.is_configured
    }
}
