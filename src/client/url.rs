//! The server's URL, as far as the commands need to know it.

use std::fmt;
use std::sync::Arc;

use reqwest::{ClientBuilder, Url};

use super::Token;
use super::error::ClientError;

/// Where the server is: `http` or `https`, maybe with a path in front of the API's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUrl(Url, Option<Token>);

impl ServerUrl {
    pub const DEFAULT: &'static str = "http://127.0.0.1:8080";

    pub fn parse(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|e| format!("{e}: must be such as {}", Self::DEFAULT))?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return Err(format!("must begin with http:// or https://, such as {}", Self::DEFAULT));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("must have neither a query nor a fragment".to_owned());
        }
        Ok(Self(url, None))
    }

    /// The same, with an API key to show there.
    pub fn with_token(self, token: Option<Token>) -> Self {
        Self(self.0, token)
    }

    pub fn token(&self) -> Option<&Token> {
        self.1.as_ref()
    }

    pub fn join(&self, path: &str) -> Result<Url, ClientError> {
        let base = self.0.as_str().trim_end_matches('/');
        Url::parse(&format!("{base}{path}")).map_err(|e| ClientError::Setup(format!("{e} in {path}")))
    }

    /// Where to connect for plain HTTP/1.1, for whoever speaks that without this client.
    pub fn plain(&self) -> Result<PlainHttp, String> {
        let (Some(host), Some(port)) = (self.0.host_str(), self.0.port_or_known_default()) else {
            return Err("the URL has no host".to_owned());
        };
        if self.0.scheme() != "http" || !self.0.username().is_empty() {
            return Err("only http:// URLs without a login will do here".to_owned());
        }
        let host_header = self.0.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let path = self.0.path().trim_end_matches('/').to_owned();
        Ok(PlainHttp { host: host.trim_matches(['[', ']']).to_owned(), port, host_header, path })
    }

    pub fn is_loopback(&self) -> bool {
        let Some(host) = self.0.host_str() else {
            return false;
        };
        let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }

    /// TLS by rustls on ring, with the system's certificates. A client of a plain URL gets none:
    /// it must work on a machine that has no certificates at all.
    pub fn with_tls(&self, builder: ClientBuilder) -> Result<ClientBuilder, ClientError> {
        let ring = rustls::crypto::ring::default_provider();
        if self.0.scheme() == "https" {
            // The first one stays: it is this one, or one that somebody installed on purpose.
            let _ = ring.install_default();
            return Ok(builder);
        }
        let config = rustls::ClientConfig::builder_with_provider(Arc::new(ring))
            .with_safe_default_protocol_versions()
            .map_err(|e| ClientError::Setup(e.to_string()))?
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        Ok(builder.tls_backend_preconfigured(config))
    }
}

/// What a plain HTTP URL says.
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
        let mut shown = self.0.clone();
        if shown.password().is_some() {
            // Fails only for URLs without a host, which are none of these.
            let _ = shown.set_password(Some("********"));
        }
        f.write_str(shown.as_str().trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_below_that_of_the_url() {
        for url in ["http://h:1/prefix", "http://h:1/prefix/"] {
            let url = ServerUrl::parse(url).unwrap();
            let path = "/v1/lists/user/seen/a%2Fb%3Fc%252F%20%C3%A9/items";
            assert_eq!(url.join(path).unwrap().as_str(), format!("http://h:1/prefix{path}"));
        }
    }

    #[test]
    fn a_plain_url_tells_where_to_connect() {
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
