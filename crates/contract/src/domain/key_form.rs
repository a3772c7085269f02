//! The form of API keys as services hold them.
//!
//! `ls_<id>_<secret><checksum>`: a public ID of 12 characters of `[0-9a-z]`, a secret of 43 random characters of
//! `[0-9A-Za-z]` (256 bits), and the CRC-32C of all characters before it, in 6 characters of the same alphabet. The
//! checksum detects typing errors without reading any store, and prevents false alarms of secret scanners:
//! `\bls_[0-9a-z]{12}_[0-9A-Za-z]{49}\b` finds a key, and the checksum confirms it.

use super::KeyId;

pub const PREFIX: &str = "ls_";
pub const SECRET_LEN: usize = 43;
const CHECKSUM_LEN: usize = 6;
pub const LEN: usize = PREFIX.len() + KeyId::LEN + 1 + SECRET_LEN + CHECKSUM_LEN;
pub const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Of [`ALPHABET`], the characters of an id.
pub const ID_ALPHABET: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// The end of a key, by all before it.
pub fn checksum_of(text: &[u8]) -> [u8; CHECKSUM_LEN] {
    let mut rest = crc32c::crc32c(text) as usize;
    let mut checksum = [b'0'; CHECKSUM_LEN];
    for place in checksum.iter_mut().rev() {
        *place = ALPHABET[rest % ALPHABET.len()];
        rest /= ALPHABET.len();
    }
    checksum
}

/// The ID in a text with the form of a key. [`is_whole`] checks the checksum.
pub fn id_of(text: &[u8]) -> Option<KeyId> {
    if text.len() != LEN {
        return None;
    }
    let rest = text.strip_prefix(PREFIX.as_bytes())?;
    let (id, rest) = rest.split_at_checked(KeyId::LEN)?;
    let id = KeyId::new(std::str::from_utf8(id).ok()?).ok()?;
    rest.starts_with(b"_").then_some(id)
}

/// Whether the checksum of a text holds that has the form of a key.
pub fn is_whole(text: &[u8]) -> bool {
    text.split_at_checked(LEN - CHECKSUM_LEN).is_some_and(|(body, checksum)| checksum == checksum_of(body))
}

/// Whether a text has the form of a key and a valid checksum, for clients that check a key before they send it.
pub fn is_well_formed(text: &str) -> bool {
    id_of(text.as_bytes()).is_some() && is_whole(text.as_bytes())
}
