//! The secrets of API keys: how the server creates and recognizes them. [`key_form`] has their form.
//!
//! The server stores the HMAC-SHA-256 of a secret under the key's ID. A slow hash, as for passwords, would add nothing:
//! 256 random bits cannot be guessed, and a factor of a million would not stop an attacker who could. It would only let
//! unknown callers use a server's time with wrong keys.

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use crate::domain::key_form::{self, ALPHABET, ID_ALPHABET, PREFIX, SECRET_LEN, checksum_of};
use crate::domain::{KeyId, SecretHash};

/// Binds the hashes to their use.
const PURPOSE: &[u8] = b"liststore api key 1 ";

/// The system has no randomness to give.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the system's random number generator failed")]
pub struct NoRandomness;

/// A key's secret, to be shown once. `Debug` shows its id only.
pub struct Secret {
    pub id: KeyId,
    text: String,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{PREFIX}{}_***", self.id)
    }
}

impl Secret {
    /// A new secret of a new key.
    pub fn generate() -> Result<Self, NoRandomness> {
        let id = random_text(ID_ALPHABET, KeyId::LEN)?;
        Self::generate_for(KeyId::new(&id).map_err(|_| NoRandomness)?)
    }

    /// Another secret of a key.
    pub fn generate_for(id: KeyId) -> Result<Self, NoRandomness> {
        let mut text = format!("{PREFIX}{id}_{}", random_text(ALPHABET, SECRET_LEN)?);
        let checksum = checksum_of(text.as_bytes());
        text.extend(checksum.map(char::from));
        Ok(Self { id, text })
    }

    /// The text that the service sends.
    pub fn expose(&self) -> &str {
        &self.text
    }

    pub fn hash(&self) -> SecretHash {
        hash(self.id, self.text.as_bytes())
    }
}

/// Unbiased: bytes that would favour some characters are drawn again.
fn random_text(alphabet: &[u8], len: usize) -> Result<String, NoRandomness> {
    let (random, mut drawn) = (SystemRandom::new(), [0; 64]);
    let fair = 256 - 256 % alphabet.len();
    let mut text = String::with_capacity(len);
    while text.len() < len {
        random.fill(&mut drawn).map_err(|_| NoRandomness)?;
        let fitting = drawn.iter().map(|byte| usize::from(*byte)).filter(|byte| *byte < fair);
        text.extend(fitting.take(len - text.len()).map(|byte| char::from(alphabet[byte % alphabet.len()])));
    }
    Ok(text)
}

fn hash(id: KeyId, text: &[u8]) -> SecretHash {
    let tag = hmac::sign(&hash_key(id), text);
    let mut bytes = [0; SecretHash::LEN];
    bytes.copy_from_slice(tag.as_ref());
    SecretHash::new(bytes)
}

fn hash_key(id: KeyId) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, &[PURPOSE, id.as_str().as_bytes()].concat())
}

/// A text that was sent as a key: it has the form of one.
#[derive(Clone, Copy)]
pub struct Presented<'t> {
    pub id: KeyId,
    text: &'t [u8],
}

impl<'t> Presented<'t> {
    /// Reads only the form. [`Self::is_whole`] checks the rest.
    pub fn read(text: &'t [u8]) -> Option<Self> {
        key_form::id_of(text).map(|id| Self { id, text })
    }

    /// Whether its checksum holds.
    pub fn is_whole(&self) -> bool {
        key_form::is_whole(self.text)
    }

    /// Whether it is the secret of this hash. Takes as long whether or not it is.
    pub fn is_of(&self, hash: &SecretHash) -> bool {
        hmac::verify(&hash_key(self.id), self.text, hash.as_bytes()).is_ok()
    }

    /// Its stored form.
    pub fn hash(&self) -> SecretHash {
        hash(self.id, self.text)
    }

    pub fn bytes(&self) -> &'t [u8] {
        self.text
    }
}

/// Whether a text holds an API key, or a token of an identity provider, whole or cut. Logs must not have such a text.
///
/// The beginning of a key and of a token is no secret, so a text without it reveals as much.
pub fn holds_a_secret(text: &[u8]) -> bool {
    /// Less of a secret is worth nothing.
    const CHARS_MIN: usize = 16;
    /// The start of a token's claims: a point, and `{"` in Base64.
    const CLAIMS: &[u8] = b".eyJ";
    let is_key = |rest: &[u8]| {
        let Some(rest) = rest.strip_prefix(PREFIX.as_bytes()) else { return false };
        let Some((id, rest)) = rest.split_at_checked(KeyId::LEN) else { return false };
        let Some(secret) = rest.strip_prefix(b"_").and_then(|rest| rest.get(..CHARS_MIN)) else { return false };
        id.iter().chain(secret).all(u8::is_ascii_alphanumeric)
    };
    // Hexadecimal digits of one case are a digest, which many callers send as an ID.
    let is_whole_secret = |run: &[u8]| {
        run.len() >= SECRET_LEN && run.iter().any(u8::is_ascii_uppercase) && run.iter().any(u8::is_ascii_lowercase)
    };
    (0..text.len()).any(|at| is_key(&text[at..]))
        || text.split(|byte| !byte.is_ascii_alphanumeric()).any(is_whole_secret)
        || text.windows(CLAIMS.len()).any(|window| window == CLAIMS)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::domain::key_form::is_well_formed;

    #[test]
    fn only_the_secret_matches_its_hash() {
        let secret = Secret::generate().unwrap();
        let presented = Presented::read(secret.expose().as_bytes()).unwrap();
        assert!(presented.is_whole() && presented.is_of(&secret.hash()) && presented.id == secret.id);
        let other = Secret::generate_for(secret.id).unwrap();
        assert!(!presented.is_of(&other.hash()));
        assert!(!format!("{secret:?}").contains(&secret.expose()[16..]));
    }

    #[test]
    fn a_secret_is_found_within_a_text() {
        let key = Secret::generate().unwrap().expose().to_owned();
        let token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl";
        let secret_alone = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg42AqlD";
        for secret in [
            key.clone(),
            format!("id-{key}-1"),
            key[..50].to_owned(),
            key.replace("ls_", "ls_ls_"),
            token.into(),
            // Without their beginning, which anyone can write again.
            format!("0123456789ab_{secret_alone}"),
            format!("ab_{secret_alone}-1"),
            secret_alone[..SECRET_LEN].to_owned(),
            token[5..].to_owned(),
        ] {
            assert!(holds_a_secret(secret.as_bytes()), "{secret}");
        }
        let digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        for harmless in [
            "",
            "ls_",
            "a-1_~!",
            "0af7651916cd43dd8448eb211c80319c",
            digest,
            &digest.to_uppercase(),
            &key[..20],
            &secret_alone[..SECRET_LEN - 1],
            "eyJ",
            "tls_1.3",
            "Root=1-67891233-abcdef012345678912345678;Parent=53995c3f42cd8ad8;Sampled=1",
        ] {
            assert!(!holds_a_secret(harmless.as_bytes()), "{harmless}");
        }
    }

    #[test]
    fn every_typing_error_is_detected() {
        let text = Secret::generate().unwrap().expose().to_owned();
        assert!(is_well_formed(&text));
        for at in 0..text.len() {
            let mut typed = text.clone().into_bytes();
            typed[at] = if typed[at] == b'x' { b'y' } else { b'x' };
            assert!(!is_well_formed(&String::from_utf8(typed).unwrap()), "{at}");
            assert!(!is_well_formed(&text[..at]), "{at}");
        }
        assert!(!is_well_formed(&(text + "0")) && !is_well_formed(""));
    }

    /// Kept hashes depend on it.
    #[test]
    fn the_first_form_never_changes() {
        let body = "ls_0123456789ab_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg";
        let checksum = String::from_utf8(checksum_of(body.as_bytes()).to_vec()).unwrap();
        let secret = Secret { id: KeyId::new("0123456789ab").unwrap(), text: format!("{body}{checksum}") };
        assert_eq!(secret.expose().len(), key_form::LEN);
        let hash: String = secret.hash().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((checksum.as_str(), hash.as_str()), (CHECKSUM_OF_FIRST, HASH_OF_FIRST));
    }

    const CHECKSUM_OF_FIRST: &str = "42AqlD";
    const HASH_OF_FIRST: &str = "591cc5350dec46767f66fc4bc7d8e5b2f19872e5a1b96b32883b5038f01ea7e2";

    #[test]
    fn secrets_use_the_whole_alphabet_and_are_unique() {
        let secrets: HashSet<_> = (0..200).map(|_| Secret::generate().unwrap().expose().to_owned()).collect();
        assert_eq!(secrets.len(), 200);
        let drawn: HashSet<_> = secrets.iter().flat_map(|text| text[16..59].bytes()).collect();
        assert_eq!(drawn.len(), ALPHABET.len());
    }
}
