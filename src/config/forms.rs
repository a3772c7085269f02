//! The forms of values that one key has.

use super::reader::{Raw, number, pair, shown, text};
use super::texts::{AddressTranslation, NodeName, Replicas};
use crate::domain::{AccessLog, AheadMax};

/// The maximum of Cassandra and ScyllaDB (Cassandra's `Attributes.MAX_TTL`): 20 years.
pub(super) const TTL_SECS_MAX: u64 = 630_720_000;
pub(super) const HOUR_MS: u64 = 3_600_000;
/// Cassandra's `SchemaConstants.NAME_LENGTH`.
const KEYSPACE_CHARS_MAX: usize = 48;

/// `https://lists.example.org`, as browsers write it: without default parts.
pub(super) fn origin(raw: &Raw) -> Result<String, String> {
    let text = text(raw)?.to_ascii_lowercase();
    let written = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
        (Some(authority), _) => Some(("http://", authority, ":80")),
        (_, Some(authority)) => Some(("https://", authority, ":443")),
        _ => None,
    };
    let is_host = |authority: &str| authority.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b));
    match written {
        Some((scheme, authority, port)) if !authority.is_empty() && is_host(authority) => {
            Ok(format!("{scheme}{}", authority.strip_suffix(port).unwrap_or(authority)))
        }
        _ => Err(format!("must be origins such as https://lists.example.org, without a path, not {text:?}")),
    }
}

/// `lists.example.org`, without a port: a name is the server's on all of them. `*` is any name.
pub(super) fn host_name(raw: &Raw) -> Result<String, String> {
    let text = text(raw)?.to_ascii_lowercase();
    let well_formed = text == "*" || text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
    if well_formed {
        Ok(text)
    } else {
        Err(format!("must be names such as lists.example.org, without a port, or * for any name, not {text:?}"))
    }
}

pub(super) fn ahead_max(raw: &Raw) -> Result<AheadMax, String> {
    let text = text(raw)?;
    AheadMax::parse(&text).map_err(|_| format!("must be none, or a duration from 1s to 7300d such as 1d, not {text:?}"))
}

/// `dc1:3`: a datacenter and its replicas.
pub(super) fn replicas(raw: &Raw) -> Result<Replicas, String> {
    let read = pair(':', "dc1:3", text, |raw| number(1..=100)(raw));
    read(raw).map(|(datacenter, replicas)| Replicas { datacenter, replicas })
}

/// `10.0.0.1=203.0.113.7:19042`: a node, and where it is reached.
pub(super) fn translation(raw: &Raw) -> Result<AddressTranslation, String> {
    let node = |raw: &Raw| {
        let text = text(raw)?;
        NodeName::parse(&text).ok_or_else(|| {
            format!("must begin with the IP address or host ID of a node, as in {TRANSLATION}, not {text:?}")
        })
    };
    let reached = |raw: &Raw| {
        let text = text(raw)?;
        text.parse().map_err(|_| format!("must end with an address and a port, as in {TRANSLATION}, not {text:?}"))
    };
    let read = pair('=', TRANSLATION, node, reached);
    read(raw).map(|(node, reached)| AddressTranslation { node, reached })
}

const TRANSLATION: &str = "10.0.0.1=203.0.113.7:19042";

pub(super) fn server_name(raw: &Raw) -> Result<String, String> {
    let name = text(raw)?;
    match rustls::pki_types::ServerName::try_from(name.as_str()) {
        Ok(_) => Ok(name),
        Err(_) => Err(format!("must be a host name or an IP address without a port, not {name:?}")),
    }
}

pub(super) fn keyspace(raw: &Raw) -> Result<String, String> {
    let name = text(raw)?;
    let well_formed = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if well_formed && name.len() <= KEYSPACE_CHARS_MAX && name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Ok(name);
    }
    Err(format!("must be 1 to {KEYSPACE_CHARS_MAX} characters of A-Z a-z 0-9 _, a letter first, not {name:?}"))
}

pub(super) fn log_filter(raw: &Raw) -> Result<String, String> {
    let filter = text(raw)?;
    let checked = crate::telemetry::check_filter(&filter);
    checked.map(|()| filter).map_err(|e| format!("must be such as info or liststore=debug,warn: {e}"))
}

pub(super) fn access_log(raw: &Raw) -> Result<AccessLog, String> {
    AccessLog::parse(&text(raw)?).map_err(|e| format!("{e}, not {}", shown(raw)))
}
