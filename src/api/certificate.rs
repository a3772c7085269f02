//! Reads the identity of a client from its certificate.

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

use crate::access::Names;

/// The type of a common name in a subject: 2.5.4.3, in DER.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// The names in a certificate that passed its check in the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientCertificate {
    /// The common name of its subject.
    pub common_name: Option<String>,
    /// DNS names and URIs (such as SPIFFE IDs) of its subject alternative names.
    pub dns_names: Vec<String>,
    pub uris: Vec<String>,
}

impl ClientCertificate {
    pub fn names(&self) -> Names<'_> {
        Names { common_name: self.common_name.as_deref(), dns_names: &self.dns_names, uris: &self.uris }
    }

    pub fn of(der: &CertificateDer<'_>) -> Option<Self> {
        let certificate = EndEntityCert::try_from(der).ok()?;
        Some(Self {
            common_name: common_name(certificate.subject()).map(str::to_owned),
            dns_names: certificate.valid_dns_names().map(str::to_owned).collect(),
            uris: certificate.valid_uri_names().map(str::to_owned).collect(),
        })
    }
}

/// The first common name of a subject: sets of sequences of a type and a text, as X.501 defines them. Only the first of
/// several counts, so that none is hidden behind another.
fn common_name(mut subject: &[u8]) -> Option<&str> {
    while !subject.is_empty() {
        let (_, mut set, rest) = element(subject)?;
        subject = rest;
        while !set.is_empty() {
            let (_, attribute, others) = element(set)?;
            set = others;
            let (_, kind, value) = element(attribute)?;
            if kind == COMMON_NAME {
                return element(value).and_then(|(_, text, _)| std::str::from_utf8(text).ok());
            }
        }
    }
    None
}

/// The first element of some DER: its tag, its content, and the rest.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let [tag, length, rest @ ..] = der else { return None };
    let (length, rest) = match (*length, rest) {
        (short @ ..=0x7f, rest) => (usize::from(short), rest),
        (0x81, [length, rest @ ..]) => (usize::from(*length), rest),
        (0x82, [high, low, rest @ ..]) => (usize::from(u16::from_be_bytes([*high, *low])), rest),
        _ => return None,
    };
    rest.split_at_checked(length).map(|(value, rest)| (*tag, value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An attribute of this type (2.5.4.x), in a separate set.
    fn attribute(kind: u8, text: &str) -> Vec<u8> {
        let length = text.len() as u8;
        let value = [&[0x06, 3, 0x55, 4, kind, 0x0c, length][..], text.as_bytes()].concat();
        [&[0x31, value.len() as u8 + 2, 0x30, value.len() as u8][..], &value].concat()
    }

    #[test]
    fn the_common_name_is_found_only_in_its_field() {
        let subject = [attribute(10, "Example"), attribute(3, "feed-service"), attribute(3, "admin")].concat();
        assert_eq!(common_name(&subject), Some("feed-service"));
        // The bytes of an attribute within another's text are not an attribute.
        let hidden = String::from_utf8(vec![0x06, 3, 0x55, 4, 3, 0x0c, 5, b'a', b'd', b'm', b'i', b'n']).unwrap();
        assert_eq!(common_name(&attribute(10, &hidden)), None);
        assert_eq!(common_name(&[attribute(10, &hidden), attribute(3, "x")].concat()), Some("x"));
        for broken in [&subject[..5], &[0x31][..], &[0x31, 0x85, 1], &[0x31, 2, 0x30], b""] {
            assert_eq!(common_name(broken), None);
        }
    }
}
