//! The TLS configuration of connections to the cluster, from PEM files.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::OpenError;
use super::connect::Tls;
use super::options::CqlTls;

/// Reads the files. The crypto provider is named here, since more than one may be linked in.
pub fn load(options: &CqlTls) -> Result<Tls, OpenError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&options.ca_file)? {
        roots.add(certificate).map_err(|_| unusable(&options.ca_file, "a certificate in it is malformed"))?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|_| unusable(&options.ca_file, "no version of TLS is available"))?
        .with_root_certificates(roots);
    let Some(client) = &options.client else {
        return Ok(Arc::new(config.with_no_client_auth()));
    };
    let key = PrivateKeyDer::from_pem_file(&client.key_file)
        .map_err(|_| unusable(&client.key_file, "it must be a readable PEM file with one private key"))?;
    let config = config
        .with_client_auth_cert(certificates(&client.cert_file)?, key)
        .map_err(|_| unusable(&client.cert_file, "the certificate and the key do not belong together"))?;
    Ok(Arc::new(config))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, OpenError> {
    let malformed = || unusable(path, "it must be a readable PEM file with certificates");
    let found = CertificateDer::pem_file_iter(path).map_err(|_| malformed())?;
    let certificates = found.collect::<Result<Vec<_>, _>>().map_err(|_| malformed())?;
    if certificates.is_empty() { Err(malformed()) } else { Ok(certificates) }
}

fn unusable(path: &Path, problem: &'static str) -> OpenError {
    OpenError::TlsFile { path: path.to_owned(), problem }
}
