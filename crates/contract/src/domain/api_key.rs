//! Stored API keys: the service's name, its permissions, and how its secret is verified.
//!
//! A record never holds a secret, only a hash of it.

use std::fmt;

use super::{Author, Invalid, RateLimits, Revision, Role, Scope, Timestamp};

/// The public part of a key, by which it is named in logs and paths: 12 characters of `[0-9a-z]`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId([u8; Self::LEN]);

impl KeyId {
    pub const LEN: usize = 12;

    pub fn new(text: &str) -> Result<Self, Invalid> {
        let refused = || Invalid::argument(format!("a key's ID must be {} characters of 0-9 a-z", Self::LEN));
        let bytes: [u8; Self::LEN] = text.as_bytes().try_into().map_err(|_| refused())?;
        if bytes.iter().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase()) {
            Ok(Self(bytes))
        } else {
            Err(refused())
        }
    }

    pub fn as_str(&self) -> &str {
        // Its characters are ASCII.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The name of a key: 1–64 characters of `[A-Za-z0-9_.-]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyName(String);

impl KeyName {
    pub const CHARS_MAX: usize = 64;

    pub fn new(text: &str) -> Result<Self, Invalid> {
        let well_formed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        if text.is_empty() || text.len() > Self::CHARS_MAX || !text.chars().all(well_formed) {
            let max = Self::CHARS_MAX;
            return Err(Invalid::argument(format!("a key's name must be 1 to {max} characters of A-Z a-z 0-9 _ . -")));
        }
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The stored hash of a secret. Never shown, not even by `Debug`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SecretHash([u8; Self::LEN]);

impl SecretHash {
    pub const LEN: usize = 32;

    pub fn new(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    pub fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The secret that a rotation has replaced, for as long as it still holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreviousSecret {
    pub hash: SecretHash,
    /// Up to and without this moment.
    pub until: Timestamp,
}

/// An API key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    pub id: KeyId,
    /// No two keys that are not revoked have the same.
    pub name: KeyName,
    /// At least one; each once, in their order.
    pub roles: Vec<Role>,
    /// At least one; each once, in their order.
    pub scopes: Vec<Scope>,
    /// Limits that replace the default ones.
    pub limits: RateLimits,
    pub hash: SecretHash,
    pub previous: Option<PreviousSecret>,
    pub created_at: Timestamp,
    pub created_by: Author,
    /// It is valid before this moment; permanently if `None`.
    pub expires_at: Option<Timestamp>,
    pub rotated_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    /// The last use, to the hour, according to the servers' reports.
    pub last_used_at: Option<Timestamp>,
    /// The number of its last change.
    pub revision: Revision,
}

/// Whether a key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    Active,
    Expired,
    Revoked,
}

impl KeyState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
}

impl ApiKey {
    pub fn state(&self, now: Timestamp) -> KeyState {
        match (self.revoked_at, self.expires_at) {
            (Some(_), _) => KeyState::Revoked,
            (None, Some(expires_at)) if expires_at <= now => KeyState::Expired,
            _ => KeyState::Active,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_names_have_allowed_forms() {
        assert_eq!(KeyId::new("0123456789az").unwrap().as_str(), "0123456789az");
        for bad in ["", "0123456789a", "0123456789abc", "0123456789aZ", "0123456789a_", "0123456789é"] {
            assert!(KeyId::new(bad).is_err(), "{bad}");
        }
        assert!(KeyName::new("feed-1_a.b").is_ok() && KeyName::new(&"x".repeat(64)).is_ok());
        for bad in ["", "a b", "é", "a/b", &"x".repeat(65)] {
            assert!(KeyName::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_hash_shows_nothing() {
        assert_eq!(format!("{:?}", SecretHash::new([7; 32])), "***");
    }
}
