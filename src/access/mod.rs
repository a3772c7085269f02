//! Access control: principals, permissions, API keys, tokens of identity providers, and certificates.
//!
//! A request is first identified ([`Access::identify`]), and then decided on ([`decide`]), which the service does once
//! for every operation. This module depends on no HTTP, store or setting. Keys of the server and of issuers are
//! published to it, in memory, as definitions are to the catalog.

mod budget;
mod certificates;
mod decision;
mod held;
mod identity;
pub mod jwt;
mod key_ring;
mod limits;
mod refusals;
pub mod token;

use std::sync::Arc;

pub use budget::{ANSWER_BYTES_MIN, Budget, Exhausted, Holder, OWN_BYTES, Reservation, SMALL_BYTES, Share};
pub use certificates::{CertificateRule, CertifiedName, Names};
pub use decision::{Denied, Principal, decide};
pub use identity::{ActsFor, Grant, Identity};
pub use key_ring::{KeyRing, NoKey};
pub use limits::{AtWork, Excess, Left, LimitOptions, Limited, Limiter, whole_secs};
pub use liststore_contract::permission::{Permission, Resource};
pub use refusals::{Refusal, Refusals};

use crate::domain::Clock;
use jwt::{Issuers, NoToken, Verdict};
use limits::Limiters;

/// When the server requires a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Once one was ever made, and not before.
    OnceConfigured,
    Never,
    Always,
}

/// The credentials of a caller.
#[derive(Debug, Clone, Copy)]
pub enum Credentials<'c> {
    None,
    /// They may use the server's data directory.
    Local,
    /// A text that claims to be a key or a token.
    Bearer(&'c [u8]),
    /// The identity of a certificate, which the handshake verified.
    Certificate(&'c Arc<Identity>),
    /// Something that is no such text.
    Unreadable,
}

/// Why a caller is not identified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unidentified {
    /// Nothing was shown.
    NoCredentials,
    Refused(NoKey),
    TokenRefused(NoToken),
    /// The caller may be identified once [`Access::look_up`] has requested new keys of the issuer of this number.
    KeysWanted(usize),
    /// The caller cannot be identified yet: the keys of the issuer of this number were never read.
    IssuerAway(usize),
    /// The caller can no longer be identified: the keys of the issuer of this number could not be read for too long.
    KeysTooOld(usize),
    /// The caller cannot be identified yet, because the server has not read its keys.
    Unknowable,
}

/// Identifies callers. Cheap to clone.
#[derive(Clone)]
pub struct Access {
    mode: Mode,
    ring: KeyRing,
    issuers: Arc<Issuers>,
    certificates: Arc<[CertificateRule]>,
    /// Of callers with certificates.
    limiters: Arc<Limiters>,
    refusals: Arc<Refusals>,
    clock: Arc<dyn Clock>,
}

impl Access {
    pub fn new(
        mode: Mode,
        ring: KeyRing,
        issuers: Arc<Issuers>,
        certificates: Vec<CertificateRule>,
        limits: LimitOptions,
        clock: Arc<dyn Clock>,
    ) -> Self {
        ring.limit(limits);
        let limiters = Arc::new(Limiters::new(limits));
        let refusals = Arc::default();
        Self { mode, ring, issuers, certificates: certificates.into(), limiters, refusals, clock }
    }

    /// Whether any caller has full access. `None` while that is unknown: then every caller is refused.
    pub fn is_open(&self) -> Option<bool> {
        match self.mode {
            Mode::Never => Some(true),
            Mode::Always => Some(false),
            Mode::OnceConfigured => self.ring.is_configured().map(|configured| !configured),
        }
    }

    pub fn identify(&self, credentials: Credentials<'_>) -> Result<Principal, Unidentified> {
        if matches!(credentials, Credentials::Local) {
            return Ok(Principal::Local);
        }
        if self.mode == Mode::Never {
            return Ok(Principal::Anonymous);
        }
        let refused = match credentials {
            Credentials::Bearer(text) if !self.issuers.are_for(text) => {
                match self.ring.verify(text, self.clock.now()) {
                    // A valid key proves that keys are needed, so nothing else is checked.
                    Ok(identity) => return Ok(Principal::Known(identity)),
                    Err(NoKey::NotLoaded) => Some(Unidentified::Unknowable),
                    Err(refused) => Some(Unidentified::Refused(refused)),
                }
            }
            _ => None,
        };
        match self.is_open() {
            Some(true) => return Ok(Principal::Anonymous),
            Some(false) => {}
            None => return Err(Unidentified::Unknowable),
        }
        match (credentials, refused) {
            (_, Some(refused)) => Err(refused),
            (Credentials::None | Credentials::Local, None) => Err(Unidentified::NoCredentials),
            (Credentials::Unreadable, None) => Err(Unidentified::Refused(NoKey::Malformed)),
            (Credentials::Certificate(identity), None) => Ok(Principal::Known(Arc::clone(identity))),
            (Credentials::Bearer(text), None) => self.verify_token(text),
        }
    }

    fn verify_token(&self, text: &[u8]) -> Result<Principal, Unidentified> {
        match self.issuers.verify(text, self.clock.now()) {
            Verdict::Known(identity) => Ok(Principal::Known(identity)),
            Verdict::Refused(why) => Err(Unidentified::TokenRefused(why)),
            Verdict::KeysWanted(issuer) => Err(Unidentified::KeysWanted(issuer)),
            Verdict::NoKeys(issuer) => Err(Unidentified::IssuerAway(issuer)),
            Verdict::KeysTooOld(issuer) => Err(Unidentified::KeysTooOld(issuer)),
        }
    }

    /// The recent refusals of this server.
    pub fn refusals(&self) -> &Arc<Refusals> {
        &self.refusals
    }

    /// Requests a reading of an issuer's keys, if there was none recently.
    pub async fn look_up(&self, issuer: usize) {
        self.issuers.look_up(issuer).await;
    }

    /// The identity of a caller by a checked certificate; none if no rule matches.
    pub fn certified(&self, names: &Names<'_>) -> Option<Arc<Identity>> {
        let identity = certificates::identity(&self.certificates, names)?;
        let limiter = self.limiters.of(identity.name().as_str());
        Some(Arc::new(identity.limited(limiter)))
    }
}

#[cfg(test)]
pub(crate) mod test_keys {
    use super::token::Secret;
    use crate::domain::{ApiKey, Author, KeyName, RateLimits, Revision, Role, Scope, Timestamp};

    pub fn key(name: &str, roles: &[Role], scopes: &[&str]) -> ApiKey {
        key_of(&Secret::generate().unwrap(), name, roles, scopes)
    }

    pub fn key_of(secret: &Secret, name: &str, roles: &[Role], scopes: &[&str]) -> ApiKey {
        ApiKey {
            id: secret.id,
            name: KeyName::new(name).unwrap(),
            roles: roles.to_vec(),
            scopes: scopes.iter().map(|scope| Scope::parse(scope).unwrap()).collect(),
            limits: RateLimits::default(),
            hash: secret.hash(),
            previous: None,
            created_at: Timestamp::MIN,
            created_by: Author::anonymous(),
            expires_at: None,
            rotated_at: None,
            revoked_at: None,
            last_used_at: None,
            revision: Revision(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::test_keys::key;
    use super::*;
    use crate::domain::{ApiKey, Revision, Role, SystemClock, Timestamp};

    fn opened(mode: Mode, ring: &KeyRing) -> Option<bool> {
        let issuers = Arc::new(Issuers::new(vec![], LimitOptions::default()));
        Access::new(mode, ring.clone(), issuers, vec![], LimitOptions::default(), Arc::new(SystemClock)).is_open()
    }

    #[test]
    fn a_server_is_open_only_once_keys_are_known_to_be_absent() {
        let ring = KeyRing::default();
        let modes = [Mode::OnceConfigured, Mode::Never, Mode::Always];
        assert_eq!(modes.map(|mode| opened(mode, &ring)), [None, Some(true), Some(false)]);
        ring.publish(Revision(0), []);
        assert_eq!(modes.map(|mode| opened(mode, &ring)), [Some(true), Some(true), Some(false)]);
        // The last key is gone: that must not open it.
        let revoked = ApiKey { revoked_at: Some(Timestamp::MIN), ..key("feed", &[Role::Admin], &["*"]) };
        ring.publish(Revision(1), [revoked]);
        assert_eq!(modes.map(|mode| opened(mode, &ring)), [Some(false), Some(true), Some(false)]);
    }
}
