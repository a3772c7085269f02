//! Settings with a special form: addresses, secrets, byte sizes.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::{Serialize, Serializer};
use uuid::Uuid;

/// A host name or address, and a port: `127.0.0.1:8080`, `[::1]:8080`, `db-1.internal:9042`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    host: String,
    port: u16,
}

impl HostPort {
    pub(super) fn new(host: &str, port: u16) -> Self {
        Self { host: host.to_owned(), port }
    }

    /// Without its brackets, if it is an IPv6 address.
    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// `default_port` applies if the text has none. Without it a port is required.
    pub(super) fn parse(text: &str, default_port: Option<u16>) -> Result<Self, String> {
        let malformed = || format!("must be host:port, such as 127.0.0.1:{}", default_port.unwrap_or(8080));
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (host, rest) = rest.split_once(']').ok_or_else(malformed)?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| malformed())?;
            (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or_else(malformed)?) })
        } else {
            let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
            let well_formed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
            if host.is_empty() || !host.chars().all(well_formed) {
                return Err(malformed());
            }
            (host, port)
        };
        let port = match port {
            // Rust's own parser accepts a plus sign.
            Some(port) if port.bytes().all(|b| b.is_ascii_digit()) => port.parse().map_err(|_| malformed())?,
            Some(_) => return Err(malformed()),
            None => default_port.ok_or_else(malformed)?,
        };
        Ok(Self::new(host, port))
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl Serialize for HostPort {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// How many replicas a datacenter has: `dc1:3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replicas {
    pub datacenter: String,
    pub replicas: u32,
}

impl Serialize for Replicas {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}:{}", self.datacenter, self.replicas))
    }
}

/// Where a node is reached whose own address does not lead to it: `10.0.0.1=203.0.113.7:19042`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressTranslation {
    pub node: NodeName,
    pub reached: SocketAddr,
}

/// A node by its address or its host ID. The port of the address is left out: the cluster's tables have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeName {
    Address(IpAddr),
    HostId(Uuid),
}

impl NodeName {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let with_port = || text.parse().ok().map(|address: SocketAddr| address.ip());
        let address = text.parse().ok().or_else(with_port).map(Self::Address);
        address.or_else(|| text.parse().ok().map(Self::HostId))
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::HostId(id) => id.fmt(f),
        }
    }
}

impl Serialize for AddressTranslation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}={}", self.node, self.reached))
    }
}

const MASK: &str = "********";

/// A text that must not be shown: a password, or a URL that may hold one. Of a URL, only the parts next to the
/// password are shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself, for connecting with it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// `postgres://user:********@host/database`; anything but such a URL is masked whole.
    pub fn masked(&self) -> String {
        let Some((scheme, rest)) = self.0.split_once("://") else {
            return MASK.to_owned();
        };
        // The last `@` before the path ends the credentials, even if a password holds another.
        let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (credentials, address) = match rest[..authority_end].rfind('@') {
            Some(at) => (Some(&rest[..at]), &rest[at + 1..]),
            // An unescaped slash in a password: nothing of it may be shown.
            None if rest.contains('@') => return format!("{scheme}://{MASK}"),
            None => (None, rest),
        };
        let address = mask_query(address);
        match credentials.map(|c| c.split_once(':')) {
            None => format!("{scheme}://{address}"),
            Some(None) => format!("{scheme}://{}@{address}", credentials.unwrap_or_default()),
            Some(Some((user, _))) => format!("{scheme}://{user}:{MASK}@{address}"),
        }
    }
}

/// Masks `password=…` among the parameters, which libpq also accepts.
fn mask_query(address: &str) -> String {
    let Some((path, query)) = address.split_once('?') else {
        return address.to_owned();
    };
    let masked: Vec<String> = query
        .split('&')
        .map(|pair| match pair.split_once('=') {
            Some((key, _)) if key.to_ascii_lowercase().contains("password") => format!("{key}={MASK}"),
            _ => pair.to_owned(),
        })
        .collect();
    format!("{path}?{}", masked.join("&"))
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.masked())
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.masked())
    }
}

const UNITS: [(&str, u64); 9] = [
    ("", 1),
    ("b", 1),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
];

/// Reads a whole number of bytes with an optional unit: `2097152`, `2 MiB`, `512KiB`, `2 MB`.
pub(super) fn parse_bytes(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(|b| b.is_ascii_digit() || *b == b'_').count();
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim().to_ascii_lowercase();
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
    number.replace('_', "").parse::<u64>().ok()?.checked_mul(*factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for (text, shown) in [
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("[::1]:0", "[::1]:0"),
            ("db_1.internal", "db_1.internal:9042"),
            ("[2001:db8::1]", "[2001:db8::1]:9042"),
        ] {
            assert_eq!(HostPort::parse(text, Some(9042)).unwrap().to_string(), shown);
        }
        for bad in ["", ":80", "a b:80", "::1", "[::1", "[x]:1", "host:", "host:+1", "host:65536", "http://host:80"] {
            assert!(HostPort::parse(bad, Some(9042)).is_err(), "{bad}");
        }
        assert!(HostPort::parse("localhost", None).is_err());
    }

    #[test]
    fn passwords_are_never_shown() {
        for (secret, shown) in [
            ("hunter2", "********"),
            ("postgres://u:p@h:5432/d", "postgres://u:********@h:5432/d"),
            ("postgres://u:p@q@h/d", "postgres://u:********@h/d"),
            ("postgres://u@h/d?sslmode=require", "postgres://u@h/d?sslmode=require"),
            ("postgres://h/d", "postgres://h/d"),
            ("postgres://h/d?user=u&password=p", "postgres://h/d?user=u&password=********"),
            ("postgres://u:p/w@h/d", "postgres://********"),
        ] {
            let secret = Secret::new(secret.to_owned());
            assert_eq!(secret.masked(), shown);
            assert_eq!(format!("{secret:?}"), shown);
        }
    }

    #[test]
    fn byte_sizes_may_have_a_unit() {
        for (text, bytes) in
            [("0", 0), ("2097152", 2 << 20), ("2 MiB", 2 << 20), ("2mib", 2 << 20), ("1 GB", 1_000_000_000), ("7b", 7)]
        {
            assert_eq!(parse_bytes(text), Some(bytes), "{text}");
        }
        for bad in ["", "MiB", "-1", "1.5 MiB", "2 MiBs", "18446744073709551615 KiB"] {
            assert_eq!(parse_bytes(bad), None, "{bad}");
        }
    }
}
