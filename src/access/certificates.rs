//! Identifies a caller by the client's certificate, which the handshake has checked: rules of the settings give roles
//! to the names in it.

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

/// Gives a grant to callers whose certificate has a name.
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
    /// The name of a caller without a role: a URI before all, since a mesh names services so.
    pub fn first(&self) -> Option<&str> {
        self.uris.first().map(String::as_str).or(self.common_name).or(self.dns_names.first().map(String::as_str))
    }
}

impl CertificateRule {
    /// The name in a certificate that the rule is about, in one spelling.
    fn fitting(&self, names: &Names<'_>) -> Option<String> {
        match &self.name {
            CertifiedName::Uri(wanted) => {
                let fits = |uri: &&String| match wanted.strip_suffix('*') {
                    Some(start) => uri.starts_with(start),
                    None => *uri == wanted,
                };
                names.uris.iter().find(fits).cloned()
            }
            // Names of hosts know no case (RFC 4343).
            CertifiedName::DnsName(wanted) => {
                let fitting = names.dns_names.iter().find(|name| name.eq_ignore_ascii_case(wanted));
                fitting.map(|name| name.to_ascii_lowercase())
            }
            CertifiedName::CommonName(wanted) => names.common_name.filter(|name| name == wanted).map(str::to_owned),
        }
    }
}

/// The identity is the name in the first matching rule: the log, limits and the audit trail use the name that gives the
/// role, and no other name of the certificate. A service may name the person it acts for, like a caller with a key.
pub(super) fn identity(rules: &[CertificateRule], names: &Names<'_>) -> Option<Identity> {
    let fitting = || rules.iter().filter_map(|rule| Some((rule.fitting(names)?, rule.grant.clone())));
    let (name, _) = fitting().next()?;
    let grants: Vec<Grant> = fitting().map(|(_, grant)| grant).collect();
    Some(Identity::new("cert:", &name, grants, ActsFor::Others))
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
    fn a_name_counts_only_in_its_own_field() {
        let (uris, dns_names) = (["spiffe://example.org/ns/feeds/sa/a".to_owned()], ["feeds.example.org".to_owned()]);
        let names = Names { common_name: Some("feeds"), dns_names: &dns_names, uris: &uris };
        let text = str::to_owned;
        for (good, name) in [
            (CertifiedName::Uri(uris[0].clone()), "cert:spiffe://example.org/ns/feeds/sa/a"),
            (CertifiedName::Uri(text("spiffe://example.org/ns/feeds/*")), "cert:spiffe://example.org/ns/feeds/sa/a"),
            (CertifiedName::DnsName(text("FEEDS.example.org")), "cert:feeds.example.org"),
            (CertifiedName::CommonName(text("feeds")), "cert:feeds"),
        ] {
            assert_eq!(known(good, &names).as_deref(), Some(name));
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
        // Similar names that do not match.
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

    /// Otherwise a client with many certificates of one common name would have as many limits and names in the trail.
    #[test]
    fn a_certificate_is_known_by_the_name_that_grants_the_role() {
        let rule =
            |name, role| CertificateRule { name, grant: Grant { roles: vec![role], scopes: vec![Scope::all()] } };
        let rules = [
            rule(CertifiedName::DnsName("ops.example.org".to_owned()), Role::Operator),
            rule(CertifiedName::CommonName("ops".to_owned()), Role::Admin),
        ];
        for (common_name, dns_name, expected) in [
            ("ops", "chosen.example.org", Some("cert:ops")),
            ("ops", "OPS.example.org", Some("cert:ops.example.org")),
            ("chosen", "ops.example.org", Some("cert:ops.example.org")),
            ("chosen", "chosen.example.org", None),
        ] {
            let (uris, dns_names) = (["spiffe://example.org/chosen".to_owned()], [dns_name.to_owned()]);
            let names = Names { common_name: Some(common_name), dns_names: &dns_names, uris: &uris };
            let found = identity(&rules, &names);
            assert_eq!(found.as_ref().map(|identity| identity.name().as_str()), expected);
        }
    }
}
