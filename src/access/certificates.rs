//! Who somebody is by a client's certificate, which the handshake has checked: rules of the settings give
//! roles to the names in it.

use super::{ActsFor, Grant, Identity};

/// A name that a certificate must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertifiedName {
    /// A URI of its subject alternative names, such as a SPIFFE ID; with a `*` behind its last slash, how it
    /// begins.
    Uri(String),
    /// A DNS name of its subject alternative names.
    DnsName(String),
    /// The common name of its subject.
    CommonName(String),
}

/// Gives a grant to those whose certificate has a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateRule {
    pub name: CertifiedName,
    pub grant: Grant,
}

/// The names in a certificate.
#[derive(Debug, Clone, Copy)]
pub struct Names<'c> {
    pub common_name: Option<&'c str>,
    pub dns_names: &'c [String],
    pub uris: &'c [String],
}

impl Names<'_> {
    /// What its owner is called by: a URI before all, since a mesh names services so.
    pub fn first(&self) -> Option<&str> {
        self.uris.first().map(String::as_str).or(self.common_name).or(self.dns_names.first().map(String::as_str))
    }
}

impl CertificateRule {
    fn fits(&self, names: &Names<'_>) -> bool {
        match &self.name {
            CertifiedName::Uri(wanted) => match wanted.strip_suffix('*') {
                Some(start) => names.uris.iter().any(|uri| uri.starts_with(start)),
                None => names.uris.contains(wanted),
            },
            // Names of hosts know no case (RFC 4343).
            CertifiedName::DnsName(wanted) => names.dns_names.iter().any(|name| name.eq_ignore_ascii_case(wanted)),
            CertifiedName::CommonName(wanted) => names.common_name == Some(wanted),
        }
    }
}

/// A service may say for whom it acts, as one with a key may.
pub(super) fn identity(rules: &[CertificateRule], names: &Names<'_>) -> Option<Identity> {
    let grants: Vec<Grant> = rules.iter().filter(|rule| rule.fits(names)).map(|rule| rule.grant.clone()).collect();
    let name = names.first().filter(|_| !grants.is_empty())?;
    Some(Identity::new("cert:", name, grants, ActsFor::Others))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Role, Scope};

    fn known(name: CertifiedName, names: &Names<'_>) -> Option<String> {
        let rule = CertificateRule { name, grant: Grant { roles: vec![Role::Reader], scopes: vec![Scope::all()] } };
        identity(&[rule], names).map(|identity| identity.name().as_str().to_owned())
    }

    #[test]
    fn a_name_counts_where_it_stands_and_nowhere_else() {
        let (uris, dns_names) = (["spiffe://example.org/ns/feeds/sa/a".to_owned()], ["feeds.example.org".to_owned()]);
        let names = Names { common_name: Some("feeds"), dns_names: &dns_names, uris: &uris };
        let text = str::to_owned;
        for good in [
            CertifiedName::Uri(uris[0].clone()),
            CertifiedName::Uri(text("spiffe://example.org/ns/feeds/*")),
            CertifiedName::DnsName(text("FEEDS.example.org")),
            CertifiedName::CommonName(text("feeds")),
        ] {
            assert_eq!(known(good, &names).as_deref(), Some("cert:spiffe://example.org/ns/feeds/sa/a"));
        }
        for bad in [
            CertifiedName::Uri(text("spiffe://example.org/ns/feeds")),
            CertifiedName::Uri(text("spiffe://example.org/ns/feeds/sa/b")),
            CertifiedName::Uri(text("feeds")),
            CertifiedName::DnsName(text("feeds")),
            CertifiedName::CommonName(text("feeds.example.org")),
            CertifiedName::CommonName(text("FEEDS")),
        ] {
            assert_eq!(known(bad, &names), None);
        }
        // What only looks like it.
        let odd_dns = ["*.example.org", "feeds.example.org.", "xfeeds.example.org", "feeds.example.org.evil.example"];
        let odd_uris = [
            "spiffe://example.org.evil.example/ns/feeds/a",
            "spiffe://example.org/ns/feedsx/a",
            "spiffe://example.org/ns/other/../feeds/a",
            "SPIFFE://example.org/ns/feeds/a",
            "https://evil.example/?spiffe://example.org/ns/feeds/a",
        ];
        let (odd_dns, odd_uris) = (odd_dns.map(str::to_owned), odd_uris.map(str::to_owned));
        let odd = Names { common_name: Some("feeds "), dns_names: &odd_dns, uris: &odd_uris };
        for rule in [
            CertifiedName::Uri(text("spiffe://example.org/ns/feeds/*")),
            CertifiedName::DnsName(text("feeds.example.org")),
            CertifiedName::CommonName(text("feeds")),
        ] {
            assert_eq!(known(rule, &odd), None);
        }
        let plain = Names { common_name: Some("feeds"), dns_names: &[], uris: &[] };
        assert_eq!(known(CertifiedName::CommonName(text("feeds")), &plain).as_deref(), Some("cert:feeds"));
    }
}
