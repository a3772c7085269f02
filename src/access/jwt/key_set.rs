//! The keys that an issuer signs with, from its JWK Set (RFC 7517).
//!
//! A key names its algorithm, and tokens are checked by that algorithm alone. The algorithm in a token is only
//! compared with it.

use std::collections::HashSet;

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// More than an issuer ever needs at once: further ones are passed over.
const KEYS_MAX: usize = 100;
const RSA_MODULUS_BITS_MIN: usize = 2_048;
const P256_POINT_BYTES: usize = 65;
const ED25519_POINT_BYTES: usize = 32;

/// A key that tokens are checked by.
#[derive(Debug, Clone)]
pub(super) struct SigningKey {
    pub id: Option<String>,
    pub algorithm: Algorithm,
    pub key: DecodingKey,
}

/// The usable keys of an issuer. A set without any is accepted too: its issuer has withdrawn all keys.
#[derive(Debug, Clone)]
pub struct KeySet {
    keys: Vec<SigningKey>,
    /// How many keys of the set are not usable.
    passed_over: usize,
    /// The text of the set, to detect changes.
    text: Vec<u8>,
}

/// A text that is not a set of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a JWK set: expected a JSON object with an array `keys`")]
pub struct NoKeySet;

#[derive(Deserialize)]
struct Document<'t> {
    #[serde(borrow)]
    keys: Vec<&'t RawValue>,
}

impl KeySet {
    /// Reads a JWK set. Keys for other purposes are passed over, and so is a key whose private part is in the set.
    pub fn read(text: &[u8]) -> Result<Self, NoKeySet> {
        let document: Document<'_> = serde_json::from_slice(text).map_err(|_| NoKeySet)?;
        let published: HashSet<_> = document.keys.iter().filter_map(|key| published(key.get())).collect();
        let usable = document.keys.iter().filter_map(|key| signing_key(key.get(), &published));
        let keys: Vec<_> = usable.take(KEYS_MAX).collect();
        let passed_over = document.keys.len() - keys.len();
        Ok(Self { keys, passed_over, text: text.to_owned() })
    }

    /// The number of usable keys.
    pub fn usable(&self) -> usize {
        self.keys.len()
    }

    /// The number of keys in the set that are not usable.
    pub fn passed_over(&self) -> usize {
        self.passed_over
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.text == other.text
    }

    /// The key that a token names, or the only one for its algorithm if it names none.
    pub(super) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<&SigningKey> {
        match id {
            Some(id) => {
                let mut named = self.keys.iter().filter(|key| key.id.as_deref() == Some(id)).peekable();
                let first = named.peek().copied();
                // If two keys have one name, the algorithm distinguishes them. Otherwise the caller compares them.
                named.find(|key| key.algorithm == algorithm).or(first)
            }
            None => {
                let mut fitting = self.keys.iter().filter(|key| key.algorithm == algorithm);
                let first = fitting.next();
                first.filter(|_| fitting.next().is_none())
            }
        }
    }
}

/// The members of a key in a set that identify it, and the members of its private half (RFC 7518, section 6; RFC 8037,
/// section 2).
#[derive(Deserialize)]
struct Parts {
    /// Of an RSA key.
    #[serde(default)]
    n: Option<String>,
    /// Of a key on a curve.
    #[serde(default)]
    x: Option<String>,
    #[serde(default)]
    d: Option<IgnoredAny>,
    #[serde(default)]
    p: Option<IgnoredAny>,
    #[serde(default)]
    q: Option<IgnoredAny>,
}

impl Parts {
    /// The number that identifies the key, in any form of base64: of either alphabet, with padding, leading zeros or
    /// unused bits.
    fn identity(&self) -> Option<Vec<u8>> {
        const ANY_FORM: GeneralPurpose = GeneralPurpose::new(
            &URL_SAFE,
            GeneralPurposeConfig::new()
                .with_decode_allow_trailing_bits(true)
                .with_decode_padding_mode(DecodePaddingMode::Indifferent),
        );
        let text = self.n.as_ref().or(self.x.as_ref())?;
        let number = ANY_FORM.decode(text.replace('+', "-").replace('/', "_")).ok()?;
        let zeros = number.iter().take_while(|byte| **byte == 0).count();
        number.get(zeros..).map(<[u8]>::to_vec)
    }
}

/// Identifies a key whose private part is published with it: anyone who reads the set can sign with it.
fn published(text: &str) -> Option<Vec<u8>> {
    let parts: Parts = serde_json::from_str(text).ok()?;
    if parts.d.is_some() || parts.p.is_some() || parts.q.is_some() { parts.identity() } else { None }
}

fn signing_key(text: &str, published: &HashSet<Vec<u8>>) -> Option<SigningKey> {
    let jwk: Jwk = serde_json::from_str(text).ok()?;
    let parts: Parts = serde_json::from_str(text).ok()?;
    if published.contains(&parts.identity()?) {
        return None;
    }
    let signs = jwk.common.public_key_use.as_ref().is_none_or(|purpose| *purpose == PublicKeyUse::Signature);
    let algorithm = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => Algorithm::RS256,
        AlgorithmParameters::EllipticCurve(point) if point.curve == EllipticCurve::P256 => Algorithm::ES256,
        AlgorithmParameters::OctetKeyPair(point) if point.curve == EllipticCurve::Ed25519 => Algorithm::EdDSA,
        _ => return None,
    };
    let agrees = match (algorithm, jwk.common.key_algorithm) {
        (_, None) => true,
        (Algorithm::RS256, Some(KeyAlgorithm::RS256)) => true,
        (Algorithm::ES256, Some(KeyAlgorithm::ES256)) => true,
        (Algorithm::EdDSA, Some(KeyAlgorithm::EdDSA)) => true,
        (_, Some(_)) => false,
    };
    let key = DecodingKey::from_jwk(&jwk).ok()?;
    let is_long_enough = match (algorithm, key.kind()) {
        (Algorithm::RS256, DecodingKeyKind::RsaModulusExponent { n, .. }) => {
            // Leading zeros make no key longer.
            let zeros: usize = n.iter().take_while(|byte| **byte == 0).count();
            let first = n.get(zeros).map_or(0, |byte| byte.leading_zeros() as usize);
            (n.len() - zeros) * 8 - first >= RSA_MODULUS_BITS_MIN
        }
        (Algorithm::ES256, DecodingKeyKind::SecretOrDer(point)) => point.len() == P256_POINT_BYTES,
        (Algorithm::EdDSA, DecodingKeyKind::SecretOrDer(point)) => point.len() == ED25519_POINT_BYTES,
        _ => false,
    };
    (signs && agrees && is_long_enough).then_some(SigningKey { id: jwk.common.key_id, algorithm, key })
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use serde_json::{Value, json};

    use super::*;

    const OTHER: &str = "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs";

    fn ed_of(kid: &str, x: &str) -> Value {
        json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x})
    }

    fn ed(kid: &str) -> Value {
        ed_of(kid, "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")
    }

    fn rsa_of(modulus: &[u8]) -> Value {
        json!({"kty": "RSA", "kid": "r", "n": URL_SAFE_NO_PAD.encode(modulus), "e": "AQAB"})
    }

    fn rsa(bytes: usize) -> Value {
        rsa_of(&vec![0xff; bytes])
    }

    fn read(keys: Value) -> Result<usize, NoKeySet> {
        KeySet::read(json!({ "keys": keys }).to_string().as_bytes()).map(|set| set.keys.len())
    }

    #[test]
    fn forbidden_keys_are_skipped() {
        assert_eq!(read(json!([ed("a"), rsa(256)])), Ok(2));
        let secret = json!({"kty": "oct", "kid": "h", "k": "c2VjcmV0", "alg": "HS256"});
        let mut encrypting = ed("e");
        encrypting["use"] = json!("enc");
        let mut other = rsa(256);
        other["alg"] = json!("RS512");
        let mut short = ed("s");
        short["x"] = json!("AAAA");
        let mut published = ed("p");
        published["d"] = json!("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A");
        let unknown = json!({"kty": "AKP", "alg": "ML-DSA-44", "pub": "AAAA"});
        let padded = rsa_of(&[vec![0; 128], vec![0xff; 128]].concat());
        let of_2047_bits = rsa_of(&[vec![0x7f], vec![0xff; 255]].concat());
        for unfit in
            [secret, encrypting, other, short, published, unknown, rsa(255), padded, of_2047_bits, json!(7), json!({})]
        {
            assert_eq!(read(json!([unfit])), Ok(0), "{unfit}");
            assert_eq!(read(json!([unfit, ed_of("a", OTHER)])), Ok(1), "{unfit}");
        }
    }

    /// Under any name, and at any place.
    #[test]
    fn a_published_private_key_is_skipped_everywhere() {
        let mut published = ed("p");
        published["d"] = json!("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A");
        assert_eq!(read(json!([ed("a"), published, rsa(256)])), Ok(1));
        let mut primes = rsa(256);
        primes["p"] = json!("AAAA");
        assert_eq!(read(json!([rsa(256), primes])), Ok(0));
        // In another form of the same number.
        let padded = rsa_of(&[vec![0], vec![0xff; 256]].concat());
        let text = padded["n"].as_str().unwrap();
        for n in [json!(text), json!(format!("{text}=")), json!(text.replace('_', "/"))] {
            let twin = json!({"kty": "RSA", "kid": "t", "n": n, "e": "AQAB", "d": "AAAA"});
            assert_eq!(read(json!([rsa(256), twin])), Ok(0), "{n}");
        }
    }

    #[test]
    fn garbage_is_refused_and_a_set_without_usable_keys_is_valid() {
        for garbage in [&b""[..], b"<html>", b"[]", b"{}", b"{\"keys\":7}", b"{\"keys\":[],\"keys\":[]}", &[0xff; 100]]
        {
            assert_eq!(KeySet::read(garbage).err(), Some(NoKeySet));
        }
        assert_eq!(read(json!([])), Ok(0));
        assert_eq!(read(Value::Array(vec![ed("a"); KEYS_MAX + 1])), Ok(KEYS_MAX));
        let set = KeySet::read(json!({"keys": [ed("a"), {"kty": "oct", "k": "AAAA"}]}).to_string().as_bytes()).unwrap();
        assert_eq!((set.usable(), set.passed_over()), (1, 1));
    }

    #[test]
    fn a_token_without_a_key_id_belongs_to_the_only_fitting_key() {
        let set = |keys: Value| KeySet::read(json!({ "keys": keys }).to_string().as_bytes()).unwrap();
        let one = set(json!([ed("a"), rsa(256)]));
        assert!(one.find(None, Algorithm::EdDSA).is_some_and(|key| key.id.as_deref() == Some("a")));
        assert!(one.find(None, Algorithm::ES256).is_none());
        assert!(set(json!([ed("a"), ed("b")])).find(None, Algorithm::EdDSA).is_none());
        assert!(one.find(Some("b"), Algorithm::EdDSA).is_none());
        // It is found, for the caller to see that the token names another algorithm.
        assert!(one.find(Some("a"), Algorithm::HS256).is_some_and(|key| key.algorithm == Algorithm::EdDSA));
    }
}
