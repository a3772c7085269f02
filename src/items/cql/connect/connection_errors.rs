//! Why nodes cannot be connected to, in plain words for an operator.

use std::io;

use rustls::CertificateError;
use scylla::errors::{
    BrokenConnectionError, BrokenConnectionErrorKind, ConnectionError, ConnectionSetupRequestErrorKind, DbError,
};

use crate::items::StoreError;

/// An operation is refused, and nothing was done.
pub fn unavailable(reason: String) -> StoreError {
    StoreError::Unavailable { reason, outcome_unknown: false }
}

/// Why a node cannot be reached now, although earlier connections succeeded.
pub fn explain_lost_connections(error: &ConnectionError) -> String {
    match explain_connection_error(error) {
        setup if setup == BROKEN_SETUP => {
            "nodes accept connections and close them immediately: check whether they are starting or stopping, or \
             whether their login or TLS settings changed"
                .to_owned()
        }
        other => other,
    }
}

/// Why a node cannot be connected to, in our words: the driver's text may contain secrets.
pub fn explain_connection_error(error: &ConnectionError) -> String {
    match error {
        ConnectionError::ConnectTimeout => {
            "connecting to a node timed out: check that its machine is running and that no firewall drops the packets"
                .to_owned()
        }
        ConnectionError::IoError(error) => explain_io_error(error),
        ConnectionError::BrokenConnection(error) => {
            let closed = "connections to a node were closed: check whether it was stopped";
            explain_broken_connection(error).unwrap_or(closed).to_owned()
        }
        ConnectionError::ConnectionSetupRequestError(error) => match error.get_error() {
            ConnectionSetupRequestErrorKind::DbError(DbError::AuthenticationError | DbError::Unauthorized, _) => {
                "the cluster refuses this login: check items.cql.username and items.cql.password".to_owned()
            }
            ConnectionSetupRequestErrorKind::StartAuthSessionError(_) => {
                "cannot read items.cql.password_file; see the server's log".to_owned()
            }
            ConnectionSetupRequestErrorKind::MissingAuthentication => {
                "the cluster requires a login: set items.cql.username and items.cql.password".to_owned()
            }
            ConnectionSetupRequestErrorKind::BrokenConnection(error) => {
                explain_broken_connection(error).unwrap_or(BROKEN_SETUP).to_owned()
            }
            ConnectionSetupRequestErrorKind::DbError(..) => "a node refuses the connection".to_owned(),
            _ => NOT_CQL.to_owned(),
        },
        _ => "no connection to the cluster".to_owned(),
    }
}

/// Why a connection ended, if its other end did not close it.
fn explain_broken_connection(error: &BrokenConnectionError) -> Option<&'static str> {
    match error.downcast_ref::<BrokenConnectionErrorKind>()? {
        BrokenConnectionErrorKind::KeepaliveTimeout(_) | BrokenConnectionErrorKind::TooManyOrphanedStreamIds(_) => {
            Some("a node accepts connections but does not respond: check for a frozen process or an overloaded machine")
        }
        _ => None,
    }
}

pub const NOT_CQL: &str = "the peer does not speak CQL version 4";
pub const BROKEN_SETUP: &str = "a node closed the connection immediately: if it requires TLS, set \
                                items.cql.tls.ca_file; if it requires client certificates, set items.cql.tls.cert_file \
                                and key_file";

pub fn explain_io_error(error: &io::Error) -> String {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(rustls::Error::InvalidCertificate(why)) => {
            format!("a node's certificate is not accepted: {}", explain_certificate_error(why))
        }
        Some(rustls::Error::AlertReceived(alert)) => format!(
            "a node refuses the TLS handshake ({alert:?}): check items.cql.tls.cert_file and items.cql.tls.key_file"
        ),
        Some(_) => "a node does not speak TLS, or no supported version of it".to_owned(),
        None => format!("no connection to the cluster: {}", error.kind()),
    }
}

fn explain_certificate_error(why: &CertificateError) -> String {
    match why {
        CertificateError::UnknownIssuer => "its certificate authority is not in items.cql.tls.ca_file".to_owned(),
        CertificateError::NotValidForName => NAMES_ANOTHER.to_owned(),
        CertificateError::NotValidForNameContext { presented, .. } => {
            format!("{NAMES_ANOTHER} (it names {})", presented.join(", "))
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "it has expired, or this machine's clock is wrong".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet, or this machine's clock is wrong".to_owned()
        }
        other => format!("it cannot be verified with items.cql.tls.ca_file ({other:?})"),
    }
}

const NAMES_ANOTHER: &str = "it names neither the node's address nor an expected name; set items.cql.tls.server_name \
                             to the names in the nodes' certificates";
