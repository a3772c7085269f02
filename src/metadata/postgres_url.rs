//! The accepted form of `metadata.postgres.url`, read completely and strictly before the driver gets any of it.
//!
//! The driver ignores an unknown parameter, and logs it with its value. So a typing error would switch TLS off, and
//! write a password into the log. Here it is an error that names the parameter and never a value, because any part of
//! the URL may be secret. Settings use this check, so it names neither the store nor its driver.

use std::fmt;

use percent_encoding::percent_decode_str;

const PORT: u16 = 5432;
/// The accepted parameters after the `?`, each with libpq's meaning (PostgreSQL documentation, "Parameter Key Words").
const PARAMETERS: [&str; 13] = [
    "application_name",
    "dbname",
    "host",
    "hostaddr",
    "options",
    "password",
    "port",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "target_session_attrs",
    "user",
];

/// Describes a mistake in a URL. The text contains no part of it except the name of a parameter.
pub fn check_url(url: &str) -> Result<(), String> {
    PostgresUrl::parse(url).map(|_| ())
}

/// How connections are encrypted, and which properties of the server are verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsMode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

impl TlsMode {
    const ALL: [(&str, Self); 5] = [
        ("disable", Self::Disable),
        ("prefer", Self::Prefer),
        ("require", Self::Require),
        ("verify-ca", Self::VerifyCa),
        ("verify-full", Self::VerifyFull),
    ];

    fn parse(text: &str) -> Result<Self, String> {
        if text == "allow" {
            return Err("sslmode=allow would never use TLS: use prefer, require or verify-full".to_owned());
        }
        let found = Self::ALL.iter().find(|(word, _)| *word == text);
        found.map(|(_, mode)| *mode).ok_or_else(|| {
            "the value of sslmode is not one of disable, prefer, require, verify-ca and verify-full".to_owned()
        })
    }

    fn verifies(self) -> bool {
        matches!(self, Self::VerifyCa | Self::VerifyFull)
    }
}

impl fmt::Display for TlsMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL.iter().find(|(_, mode)| mode == self).map_or("", |(word, _)| word))
    }
}

/// The abilities that a server must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionKind {
    Any,
    ReadWrite,
    Primary,
}

/// One server that the URL names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Host {
    /// A name, an address, or the directory of a Unix socket, which begins with a slash.
    pub name: String,
    pub port: u16,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.port)
    }
}

/// A parsed URL. Not `Debug`, because it contains a password.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct PostgresUrl {
    /// At least one.
    pub hosts: Vec<Host>,
    pub user: Option<String>,
    pub password: Option<String>,
    pub database: Option<String>,
    pub tls: TlsMode,
    pub root_certificate: Option<String>,
    pub client_certificate: Option<(String, String)>,
    pub application_name: Option<String>,
    pub options: Option<String>,
    pub kind: SessionKind,
}

/// The values of the parameters. Each may occur once.
#[derive(Default)]
struct Parameters(Vec<(&'static str, String)>);

impl Parameters {
    fn parse(query: &str) -> Result<Self, String> {
        let mut found = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or("has a parameter without a value: name=value")?;
            let name = decoded(name)?;
            let known = PARAMETERS.into_iter().find(|known| *known == name).ok_or_else(|| unknown(&name))?;
            if found.get(known).is_some() {
                // Either value could be the intended one.
                return Err(format!("has the parameter {known} twice"));
            }
            found.0.push((known, decoded(value)?));
        }
        Ok(found)
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    fn owned(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }
}

fn unknown(name: &str) -> String {
    let nearest = PARAMETERS.into_iter().min_by_key(|known| strsim::osa_distance(known, name)).unwrap_or_default();
    // A value without its name could be in the name's place.
    let plain = name.len() <= 40 && name.bytes().all(|b| b.is_ascii_alphabetic() || b"_-".contains(&b));
    if plain {
        format!("has the unknown parameter {name}; the nearest known one is {nearest}")
    } else {
        format!("has an unknown parameter; the known ones are {}", PARAMETERS.join(", "))
    }
}

fn decoded(text: &str) -> Result<String, String> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(|text| text.into_owned()).map_err(|_| "has percent-encoded bytes that are not UTF-8".to_owned())
}

impl PostgresUrl {
    /// The error contains no part of the URL except a parameter's name.
    pub fn parse(url: &str) -> Result<Self, String> {
        let rest = ["postgres://", "postgresql://"]
            .iter()
            .find_map(|scheme| url.strip_prefix(scheme))
            .ok_or("must begin with postgres://")?;
        if rest.contains('#') {
            return Err("has a #: write # in a user, password or database as %23".to_owned());
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let parameters = Parameters::parse(query)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if path.contains(['/', '@']) {
            return Err(
                "has a / or @ after its host: write / and @ in a user, password or database as %2F and %40".to_owned()
            );
        }
        let (credentials, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = match credentials.split_once(':') {
            Some((user, password)) => (user, Some(decoded(password)?)),
            None => (credentials, None),
        };
        let given = |text: String| Some(text).filter(|text| !text.is_empty());
        let hosts = match parameters.get("hostaddr").or(parameters.get("host")) {
            Some(named) => hosts_of(&named.split(',').map(|name| (name, None)).collect::<Vec<_>>(), &parameters)?,
            None => hosts_of(&authority_hosts(hosts)?, &parameters)?,
        };
        let this = Self {
            user: parameters.owned("user").or(given(decoded(user)?)),
            password: parameters.owned("password").or(password),
            database: parameters.owned("dbname").or(given(decoded(path)?)),
            tls: parameters.get("sslmode").map_or(Ok(TlsMode::Prefer), TlsMode::parse)?,
            root_certificate: parameters.owned("sslrootcert"),
            client_certificate: match (parameters.owned("sslcert"), parameters.owned("sslkey")) {
                (Some(certificate), Some(key)) => Some((certificate, key)),
                (None, None) => None,
                _ => return Err("needs sslcert and sslkey together".to_owned()),
            },
            application_name: parameters.owned("application_name"),
            options: parameters.owned("options"),
            kind: session_kind(parameters.get("target_session_attrs"), hosts.len())?,
            hosts,
        };
        if this.root_certificate.is_some() && !this.tls.verifies() {
            return Err(format!(
                "has an sslrootcert, which sslmode={} ignores: use sslmode=verify-full (or verify-ca)",
                this.tls
            ));
        }
        if this.client_certificate.is_some() && this.tls == TlsMode::Disable {
            return Err("has an sslcert, but sslmode=disable turns TLS off".to_owned());
        }
        Ok(this)
    }
}

/// The server's writes need a writable server. With several hosts, the writable one is selected.
fn session_kind(wanted: Option<&str>, hosts: usize) -> Result<SessionKind, String> {
    match wanted {
        None if hosts > 1 => Ok(SessionKind::ReadWrite),
        None | Some("any") => Ok(SessionKind::Any),
        Some("read-write") => Ok(SessionKind::ReadWrite),
        Some("primary") => Ok(SessionKind::Primary),
        Some("read-only" | "standby" | "prefer-standby") => {
            Err("asks for a read-only server: target_session_attrs must be read-write, primary or any".to_owned())
        }
        Some(_) => Err("the value of target_session_attrs is not one of read-write, primary and any".to_owned()),
    }
}

/// `host`, `host:port`, `[::1]:port`, or several with commas between.
fn authority_hosts(text: &str) -> Result<Vec<(&str, Option<&str>)>, String> {
    let parts = text.split(',').map(|part| match part.strip_prefix('[') {
        Some(rest) => {
            let (address, rest) = rest.split_once(']').ok_or("has an address without a closing bracket")?;
            match rest.strip_prefix(':') {
                Some(port) => Ok((address, Some(port))),
                None if rest.is_empty() => Ok((address, None)),
                None => Err("has unexpected text between an address and its port".to_owned()),
            }
        }
        None => Ok(part.split_once(':').map_or((part, None), |(name, port)| (name, Some(port)))),
    });
    parts.collect()
}

fn hosts_of(named: &[(&str, Option<&str>)], parameters: &Parameters) -> Result<Vec<Host>, String> {
    let ports: Vec<&str> = parameters.get("port").map(|ports| ports.split(',').collect()).unwrap_or_default();
    if ports.len() > 1 && ports.len() != named.len() {
        return Err("must have one port, or one for each host, in its parameter port".to_owned());
    }
    let host = |(place, (name, port)): (usize, &(&str, Option<&str>))| {
        let port = ports.get(place).or(ports.first()).copied().or(*port).filter(|port| !port.is_empty());
        let port = port.map_or(Some(PORT), |port| port.parse().ok().filter(|port| *port > 0));
        let name = decoded(name)?;
        Ok(Host {
            name: if name.is_empty() { "localhost".to_owned() } else { name },
            port: port.ok_or(
                "has a port that is not a number from 1 to 65535; a : in the user or password must be written %3A",
            )?,
        })
    };
    named.iter().enumerate().map(host).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(url: &str) -> String {
        let read = PostgresUrl::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
        read.hosts.iter().map(Host::to_string).collect::<Vec<_>>().join(" ")
    }

    fn refusal(url: &str) -> String {
        PostgresUrl::parse(url).err().unwrap_or_else(|| panic!("{url} was taken"))
    }

    #[test]
    fn hosts_are_read() {
        for (url, expected) in [
            ("postgres://db", "db:5432"),
            ("postgresql://u:p@db:5433/x", "db:5433"),
            ("postgres://u@a:1,b,[::1]:3/x", "a:1 b:5432 ::1:3"),
            ("postgres:///x?host=a,b&port=7,8", "a:7 b:8"),
            ("postgres://ignored/x?host=a,b&port=7", "a:7 b:7"),
            ("postgres://db/x?hostaddr=10.0.0.1", "10.0.0.1:5432"),
            ("postgres://%2Fvar%2Frun/x", "/var/run:5432"),
            ("postgres:///x", "localhost:5432"),
        ] {
            assert_eq!(hosts(url), expected, "{url}");
        }
    }

    #[test]
    fn a_repeated_parameter_is_refused() {
        let reported = refusal("postgres://h?sslmode=verify-full&sslmode=disable");
        assert_eq!(reported, "has the parameter sslmode twice");
        assert_eq!(refusal("postgres://h?password=hush&password=hush"), "has the parameter password twice");
    }

    #[test]
    fn everything_else_is_read() {
        let read = PostgresUrl::parse(
            "postgres://us%40er:p%3A%2F@h/d%20b?sslmode=verify-full&sslrootcert=/ca&sslcert=/c&sslkey=/k\
             &options=-c%20x%3D1&application_name=mine&target_session_attrs=primary",
        )
        .ok()
        .unwrap();
        assert_eq!((read.user.as_deref(), read.password.as_deref()), (Some("us@er"), Some("p:/")));
        assert_eq!((read.database.as_deref(), read.tls), (Some("d b"), TlsMode::VerifyFull));
        assert_eq!(read.root_certificate.as_deref(), Some("/ca"));
        assert_eq!(read.client_certificate, Some(("/c".to_owned(), "/k".to_owned())));
        assert_eq!((read.options.as_deref(), read.application_name.as_deref()), (Some("-c x=1"), Some("mine")));
        assert_eq!(read.kind, SessionKind::Primary);
        let read = PostgresUrl::parse("postgres://h?user=u&password=p&dbname=d").ok().unwrap();
        assert_eq!((read.user.as_deref(), read.password.as_deref()), (Some("u"), Some("p")));
        assert_eq!((read.database.as_deref(), read.tls, read.kind), (Some("d"), TlsMode::Prefer, SessionKind::Any));
        assert_eq!(PostgresUrl::parse("postgres://a,b/x").ok().unwrap().kind, SessionKind::ReadWrite);
    }

    /// Each of these once caused a line in the log, with its value, and a connection without TLS.
    #[test]
    fn an_unknown_parameter_is_refused_by_its_name_and_never_its_value() {
        for (parameter, nearest) in [
            ("sslmod=verify-full", "sslmode"),
            ("sslMode=verify-full", "sslmode"),
            ("ssl-mode=verify-full", "sslmode"),
            ("sslpassword=verify-full", "password"),
            ("target_session_attr=verify-full", "target_session_attrs"),
            ("applicationname=verify-full", "application_name"),
        ] {
            let error = refusal(&format!("postgres://user:hunter2@db.internal/x?{parameter}"));
            let name = parameter.split_once('=').unwrap().0;
            assert!(error.contains(&format!("unknown parameter {name};")), "{error}");
            assert!(error.ends_with(&format!(" is {nearest}")), "{error}");
            for secret in ["verify-full", "hunter2", "db.internal"] {
                assert!(!error.contains(secret), "{error}");
            }
        }
        let error = refusal("postgres://db/x?hunter2%40x=1");
        assert!(error.contains("an unknown parameter; the known ones") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn parameters_that_weaken_tls_silently_are_refused() {
        for (parameters, expected) in [
            ("sslmode=verifyfull", "not one of disable"),
            ("sslmode=allow", "would never use TLS"),
            ("sslrootcert=/ca", "use sslmode=verify-full"),
            ("sslmode=require&sslrootcert=/ca", "use sslmode=verify-full"),
            ("sslmode=disable&sslcert=/c&sslkey=/k", "turns TLS off"),
            ("sslmode=require&sslcert=/c", "together"),
        ] {
            let error = refusal(&format!("postgres://db/x?{parameters}"));
            assert!(error.contains(expected), "{parameters}: {error}");
        }
    }

    #[test]
    fn a_malformed_url_is_refused_without_showing_it() {
        for (url, expected) in [
            ("mysql://hunter2@db", "begin with postgres://"),
            ("postgres://u:hunter2#@db/x", "%23"),
            ("postgres://u:hun/ter2@db/x", "%2F"),
            ("postgres://u:hun?ter2@db/x", "parameter"),
            ("postgres://hunter2:ter2", "port"),
            ("postgres://db:70000/x", "port"),
            ("postgres://[::1/x", "bracket"),
            ("postgres://db/x?host=a,b&port=1,2,3", "one port, or one for each host"),
            ("postgres://db/x?sslmode", "without a value"),
            ("postgres://u:%ff@db/x", "UTF-8"),
            ("postgres://db/x?target_session_attrs=standby", "read-only server"),
            ("postgres://db/x?target_session_attrs=rw", "not one of read-write"),
        ] {
            let error = refusal(url);
            assert!(error.contains(expected), "{url}: {error}");
            assert!(!error.contains("hunter2") && !error.contains("ter2@"), "{url}: {error}");
        }
    }
}
