//! The item key: an item's identity in its list, and the order of lists.

use std::cmp::Ordering;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};

use super::{Invalid, Timestamp, md5_lanes};

/// Base64's characters, of six bits each, in the order of these.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Digests that are computed at one time.
const AT_ONCE: usize = 4;

/// The MD5 of a value's stored bytes. Ordered as its Base64 text is: Base64's alphabet is not in
/// byte order, so this is not the order of the digest's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ValueDigest([u8; 16]);

impl ValueDigest {
    /// Characters of the standard, padded Base64 of 16 bytes.
    pub const TEXT_LEN: usize = 24;

    #[inline]
    pub fn of(value: &[u8]) -> Self {
        Self(Md5::digest(value).into())
    }

    /// The keys of several values, in their order: of short ones in less than half of the time of [`Self::of`].
    pub fn of_each<'v>(values: impl Iterator<Item = &'v [u8]>) -> Vec<Self> {
        let values: Vec<&[u8]> = values.collect();
        let mut digests = Vec::with_capacity(values.len());
        for some in values.chunks(AT_ONCE) {
            if some.iter().any(|value| value.len() > md5_lanes::LEN_MAX) {
                digests.extend(some.iter().map(|value| Self::of(value)));
                continue;
            }
            for digest in &md5_lanes::of_short::<AT_ONCE>(some)[..some.len()] {
                digests.push(Self(*digest));
            }
        }
        digests
    }

    /// The keys of two values.
    #[inline]
    pub fn of_two(one: &[u8], other: &[u8]) -> (Self, Self) {
        if one.len().max(other.len()) > md5_lanes::LEN_MAX {
            return (Self::of(one), Self::of(other));
        }
        let [one, other, ..] = md5_lanes::of_short::<AT_ONCE>(&[one, other]);
        (Self(one), Self(other))
    }

    #[inline]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    #[inline]
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The standard, padded Base64, as ASCII.
    #[inline]
    pub fn text(&self) -> [u8; Self::TEXT_LEN] {
        let mut text = [0; Self::TEXT_LEN];
        let written = STANDARD.encode_slice(self.0, &mut text);
        debug_assert_eq!(written, Ok(Self::TEXT_LEN));
        text
    }
}

impl Ord for ValueDigest {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        let (ours, theirs) = (u128::from_be_bytes(self.0), u128::from_be_bytes(other.0));
        let differing = (ours ^ theirs).leading_zeros();
        if differing == u128::BITS {
            return Ordering::Equal;
        }
        // Where the character begins that the first differing bit belongs to; the last one has two bits and zeros.
        let begin = differing / 6 * 6;
        let character = |digest: u128| ALPHABET[(digest << begin >> (u128::BITS - 6)) as usize];
        character(ours).cmp(&character(theirs))
    }
}

impl PartialOrd for ValueDigest {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for ValueDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.text()))
    }
}

/// 19-digit zero-padded decimal nanoseconds, `#`, the Base64 of the MD5 of the value:
/// `1724949845430000000#cUEirgoj2hOWvLLGgJ8hrQ==`. Ordered as that text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemKey {
    pub timestamp: Timestamp,
    pub digest: ValueDigest,
}

impl ItemKey {
    /// Digits, `#`, Base64.
    pub const TEXT_LEN: usize = Timestamp::DIGITS + 1 + ValueDigest::TEXT_LEN;

    #[inline]
    pub fn new(timestamp: Timestamp, digest: ValueDigest) -> Self {
        Self { timestamp, digest }
    }

    /// Parses the text form. Accepts only the exact text that [`Display`](fmt::Display) writes.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let malformed = || Invalid::argument("malformed item key");
        let (digits, digest) = text.split_at_checked(Timestamp::DIGITS).ok_or_else(malformed)?;
        let timestamp = Timestamp::from_digits(digits).map_err(|_| malformed())?;
        let digest = STANDARD.decode(digest.strip_prefix('#').ok_or_else(malformed)?).map_err(|_| malformed())?;
        Ok(Self::new(timestamp, ValueDigest(digest.try_into().map_err(|_| malformed())?)))
    }
}

impl fmt::Display for ItemKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:019}#{}", self.timestamp.as_nanos(), self.digest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_text_is_as_specified() {
        // MD5("") is d41d8cd98f00b204e9800998ecf8427e (RFC 1321, appendix A.5).
        let key = ItemKey::new(Timestamp::from_nanos(1_724_949_845_430_000_000).unwrap(), ValueDigest::of(b""));
        assert_eq!(key.to_string(), "1724949845430000000#1B2M2Y8AsgTpgAmY7PhCfg==");
        let early = ItemKey::new(Timestamp::from_nanos(7).unwrap(), ValueDigest::of(b""));
        assert_eq!(early.to_string(), "0000000000000000007#1B2M2Y8AsgTpgAmY7PhCfg==");
        assert_eq!(early.to_string().len(), ItemKey::TEXT_LEN);
    }

    #[test]
    fn malformed_texts_are_refused() {
        for bad in [
            "",
            "1724949845430000000",
            "1724949845430000000#",
            "1724949845430000000#1B2M2Y8AsgTpgAmY7PhCfg",
            "1724949845430000000|1B2M2Y8AsgTpgAmY7PhCfg==",
            "+724949845430000000#1B2M2Y8AsgTpgAmY7PhCfg==",
            "1724949845430000000#1B2M2Y8AsgTpgAmY7PhCfg==x",
            "172494984543000000é#1B2M2Y8AsgTpgAmY7PhCfg==",
        ] {
            assert!(ItemKey::parse(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_round_trips(text in r".{0,60}|[0-9]{19}#[A-Za-z0-9+/]{22}==|[0-9]{19}#[A-Za-z0-9+/=]{24}") {
            if let Ok(key) = ItemKey::parse(&text) {
                prop_assert_eq!(key.to_string(), text);
            }
        }

        #[test]
        fn digests_sort_like_their_text_and_batches_equal_single_digests(
            values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..70), 0..12),
            digest in any::<[u8; 16]>(),
            bit in 0_u32..128,
        ) {
            let each = ValueDigest::of_each(values.iter().map(Vec::as_slice));
            prop_assert_eq!(each, values.iter().map(|value| ValueDigest::of(value)).collect::<Vec<_>>());
            if let [one, other, ..] = &values[..] {
                prop_assert_eq!(ValueDigest::of_two(one, other), (ValueDigest::of(one), ValueDigest::of(other)));
            }
            let near = ValueDigest((u128::from_be_bytes(digest) ^ 1 << bit).to_be_bytes());
            let digest = ValueDigest(digest);
            prop_assert_eq!(digest.cmp(&near), digest.text().cmp(&near.text()));
            prop_assert_eq!(digest.cmp(&digest), Ordering::Equal);
        }

        #[test]
        fn keys_round_trip_and_sort_like_their_text(
            a in (0..=Timestamp::MAX.as_nanos(), any::<[u8; 16]>()),
            b in (0..=Timestamp::MAX.as_nanos(), any::<[u8; 16]>()),
            tie in any::<bool>(),
        ) {
            let key = |(nanos, digest)| ItemKey::new(Timestamp::from_nanos(nanos).unwrap(), ValueDigest(digest));
            let (a, b) = (key(a), key(if tie { (a.0, b.1) } else { b }));
            prop_assert_eq!(ItemKey::parse(&a.to_string()).unwrap(), a);
            prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
        }
    }
}
