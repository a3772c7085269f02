//! The parts of the server's URL that the commands need.

use std::fmt;
use std::net::SocketAddr;

use reqwest::Url;

use super::error::ClientError;
use super::{Tls, Token};

/// The place of the server, with the credentials to present: `http` or `https`, optionally with a path before the
/// API's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUrl {
    url: Url,
    token: Option<Token>,
    tls: Tls,
    address: Option<SocketAddr>,
}

impl ServerUrl {
    pub const DEFAULT: &'static str = "http://127.0.0.1:8080";

    pub fn parse(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|e| format!("{e}: expected a URL such as {}", Self::DEFAULT))?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return Err(format!("must begin with http:// or https://, such as {}", Self::DEFAULT));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("must not have a query or fragment".to_owned());
        }
        Ok(Self { url, token: None, tls: Tls::default(), address: None })
    }

    /// The same, with an API key or a token to show there.
    pub fn with_token(self, token: Option<Token>) -> Self {
        Self { token, ..self }
    }

    pub fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    /// The same, with other certificates than the system's for `https`.
    pub fn with_tls(self, tls: Tls) -> Self {
        Self { tls, ..self }
    }

    /// Connects to this address instead of the resolved name, and never through a proxy. A certificate is still
    /// checked for the name.
    pub fn at(self, address: SocketAddr) -> Self {
        Self { address: Some(address), ..self }
    }

    /// The host's name, and the address that it stands for, if one was given.
    pub(super) fn address(&self) -> Option<(&str, SocketAddr)> {
        self.url.host_str().zip(self.address)
    }

    /// Which certificates to use, if it is `https`.
    pub fn tls(&self) -> Option<&Tls> {
        (self.url.scheme() == "https").then_some(&self.tls)
    }

    pub fn join(&self, path: &str) -> Result<Url, ClientError> {
        let base = self.url.as_str().trim_end_matches('/');
        Url::parse(&format!("{base}{path}")).map_err(|e| ClientError::Setup(format!("{e} in {path}")))
    }

    /// The address for plain HTTP/1.1, for code that speaks it without this client.
    pub fn plain(&self) -> Result<PlainHttp, String> {
        let (Some(host), Some(port)) = (self.url.host_str(), self.url.port_or_known_default()) else {
            return Err("the URL has no host".to_owned());
        };
        if self.url.scheme() != "http" || !self.url.username().is_empty() {
            return Err("must be an http:// URL without a login".to_owned());
        }
        let host_header = self.url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let path = self.url.path().trim_end_matches('/').to_owned();
        Ok(PlainHttp { host: host.trim_matches(['[', ']']).to_owned(), port, host_header, path })
    }

    pub fn is_loopback(&self) -> bool {
        let Some(host) = self.url.host_str() else {
            return false;
        };
        let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
}

/// The parts of a plain HTTP URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainHttp {
    /// A name or an address, without brackets.
    pub host: String,
    pub port: u16,
    pub host_header: String,
    /// In front of the API's paths; without a slash at its end.
    pub path: String,
}

impl fmt::Display for ServerUrl {
    /// Without the password that it may hold.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.url.clone();
        if shown.password().is_some() {
            // Fails only for URLs without a host, which do not occur here.
            let _ = shown.set_password(Some("********"));
        }
        f.write_str(shown.as_str().trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_below_the_path_of_the_url() {
        for url in ["http://h:1/prefix", "http://h:1/prefix/"] {
            let url = ServerUrl::parse(url).unwrap();
            let path = "/v1/lists/user/seen/a%2Fb%3Fc%252F%20%C3%A9/items";
            assert_eq!(url.join(path).unwrap().as_str(), format!("http://h:1/prefix{path}"));
        }
    }

    #[test]
    fn a_plain_url_has_the_address_to_connect_to() {
        let plain = |url: &str| ServerUrl::parse(url).unwrap().plain();
        let expected = PlainHttp { host: "::1".into(), port: 81, host_header: "[::1]:81".into(), path: "/a/b".into() };
        assert_eq!(plain("http://[::1]:81/a/b/"), Ok(expected));
        let expected = PlainHttp { host: "h".into(), port: 80, host_header: "h".into(), path: String::new() };
        assert_eq!(plain("http://h"), Ok(expected));
        assert!(plain("https://h").is_err() && plain("http://me@h").is_err());
    }

    #[test]
    fn urls_are_checked_and_shown_without_passwords() {
        for bad in ["", "localhost:8080", "ftp://h", "http://", "http://h?x=1", "/v1"] {
            assert!(ServerUrl::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(ServerUrl::parse("http://u:secret@h:1/").unwrap().to_string(), "http://u:********@h:1");
        for (url, loopback) in
            [("http://127.0.0.1:1", true), ("http://[::1]:1", true), ("http://localhost", true), ("http://h", false)]
        {
            assert_eq!(ServerUrl::parse(url).unwrap().is_loopback(), loopback, "{url}");
        }
    }
}
