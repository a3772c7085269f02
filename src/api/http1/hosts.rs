//! Classifies the hosts that requests name.

use std::cell::RefCell;

use super::target::is_authority;
use crate::api::host;

/// The longest host name (RFC 1035, section 2.3.4). Longer values are classified each time.
const BYTES_MAX: usize = 255;

/// Remembers the classification of the last host, because nearly all requests to a worker name the same one.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    last: RefCell<Last>,
}

/// Begins with an empty value, which names no host.
#[derive(Debug, Default)]
struct Last {
    value: Vec<u8>,
    is_local: Option<bool>,
}

impl Hosts {
    /// Whether the value of a `Host` header is an address, or a name that no site can redirect. `None` if it names no
    /// host.
    #[inline]
    pub fn is_local(&self, value: &[u8]) -> Option<bool> {
        let mut last = self.last.borrow_mut();
        if last.value == value {
            return last.is_local;
        }
        let is_local = is_authority(value).then(|| host::is_local(value));
        if value.len() <= BYTES_MAX {
            last.value.clear();
            last.value.extend_from_slice(value);
            last.is_local = is_local;
        }
        is_local
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cached_result_applies_to_its_host_only() {
        let hosts = Hosts::default();
        let long = [b'x'; BYTES_MAX + 1];
        let of_long = hosts.is_local(&long);
        assert_eq!(of_long, Some(true));
        for (value, expected) in [
            (&b""[..], None),
            (b"127.0.0.1:80", Some(true)),
            (b"127.0.0.1:80", Some(true)),
            (b"127.0.0.1:8", Some(true)),
            (b"example.org", Some(false)),
            (b"example.org", Some(false)),
            (b"example.org/", None),
            (b"example.org/", None),
            (&long, of_long),
            (b"", None),
            (b"example.org", Some(false)),
        ] {
            assert_eq!(hosts.is_local(value), expected, "{}", String::from_utf8_lossy(value));
            assert!(hosts.last.borrow().value.len() <= BYTES_MAX);
        }
    }
}
