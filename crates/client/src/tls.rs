//! TLS of the commands: the trusted authorities, and the client's certificate.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use liststore_tls::{FileProblem, authorities, certificates, private_key, read_one};
use reqwest::ClientBuilder;
use rustls::RootCertStore;

use super::error::ClientError;

/// Files in PEM. They are read when a client is made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// The trusted authorities; `None` for the system's.
    pub ca_file: Option<PathBuf>,
    /// A certificate to present, with the certificates between it and its authority, and its private key.
    pub certificate_file: Option<PathBuf>,
}

/// TLS by rustls on ring. A client of a plain URL (`tls` is `None`) gets no authorities, because it must work on a
/// machine without any certificates.
pub(super) fn with_tls(builder: ClientBuilder, tls: Option<&Tls>) -> Result<ClientBuilder, ClientError> {
    let ring = rustls::crypto::ring::default_provider();
    let roots = match tls {
        Some(Tls { ca_file: Some(path), .. }) => read(path, authorities)?,
        Some(Tls { certificate_file: None, .. }) => {
            // An error means that a provider is installed already: this one, or another chosen on purpose.
            let _ = ring.install_default();
            return Ok(builder);
        }
        Some(_) => {
            return Err(ClientError::Setup("a client certificate needs --ca-file too".into()));
        }
        None => RootCertStore::empty(),
    };
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(ring))
        .with_safe_default_protocol_versions()
        .map_err(|error| ClientError::Setup(error.to_string()))?
        .with_root_certificates(roots);
    let config = match tls.and_then(|tls| tls.certificate_file.as_deref()) {
        Some(path) => {
            let (chain, key) = read(path, |path, text| Ok((certificates(path, text)?, private_key(path, text)?)))?;
            let unfit = |error: rustls::Error| ClientError::Setup(format!("{}: {error}", path.display()));
            config.with_client_auth_cert(chain, key).map_err(unfit)?
        }
        None => config.with_no_client_auth(),
    };
    Ok(builder.tls_backend_preconfigured(config))
}

fn read<T>(path: &Path, made: impl FnOnce(&Path, &[u8]) -> Result<T, FileProblem>) -> Result<T, ClientError> {
    let setup = |problem: FileProblem| ClientError::Setup(problem.to_string());
    made(path, &read_one(path).map_err(setup)?).map_err(setup)
}
