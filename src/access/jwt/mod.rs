//! Tokens of identity providers (JWT, RFC 7519; OIDC): their owners, and the permissions of the owners.
//!
//! An issuer of the settings is trusted for tokens that its keys have signed, for the audience of the settings, and
//! with the roles that their rules give. A key determines its algorithm. Headers that point to keys (`jwk`, `jku`,
//! `x5c`, `x5u`) are never followed, and no critical extension is supported.
//!
//! A verified token is cached by its SHA-256 until it expires or its issuer has other keys, so that a list operation
//! costs a hash and a lookup. Refused tokens are not cached, because strangers could fill any memory with them.

mod key_set;
mod refresh;
mod rules;
mod signatures;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use jsonwebtoken::dangerous::insecure_decode_claims;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Header, TokenData, Validation, decode, decode_header};
use quick_cache::sync::Cache;
use ring::digest;
use serde::Deserialize;
use serde_json::Value;

pub use key_set::{KeySet, NoKeySet};
pub use rules::Rule;

use super::limits::{LimitOptions, Limiters};
use super::{ActsFor, Identity};
use crate::domain::Timestamp;
use key_set::SigningKey;
use refresh::Refresh;
use rules::{Claims, Unique};

/// Tokens with hundreds of groups are shorter.
const TOKEN_BYTES_MAX: usize = 16 << 10;
/// Verified tokens that are remembered, of all issuers.
const REMEMBERED_MAX: usize = 10_000;

/// An accepted issuer of tokens, and the value of its tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuerOptions {
    /// The claim `iss`, to the letter.
    pub issuer: String,
    /// Of these the claim `aud` must have one.
    pub audiences: Vec<String>,
    /// In the names of its people, to distinguish them from people of other issuers.
    pub label: Option<String>,
    /// By how much its clock may differ.
    pub leeway: Duration,
    pub rules: Vec<Rule>,
}

/// Why a token is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoToken {
    #[error("malformed token")]
    Malformed,
    #[error("token from an unknown issuer")]
    UnknownIssuer,
    #[error("token without a known key ID of its issuer")]
    UnknownKey,
    #[error("token with an invalid signature")]
    Forged,
    #[error("token with an unknown critical extension")]
    Critical,
    #[error("token without a subject, an audience or an expiry")]
    Incomplete,
    #[error("token for another audience")]
    OtherAudience,
    #[error("expired token")]
    Expired,
    #[error("token that is not valid yet")]
    Early,
}

/// The result of checking a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Known(Arc<Identity>),
    Refused(NoToken),
    /// The token names a key that its issuer may have added: the issuer's number in the settings.
    KeysWanted(usize),
    /// Its issuer's keys were never read.
    NoKeys(usize),
    /// Its issuer's keys could not be read for too long.
    KeysTooOld(usize),
}

struct Issuer {
    options: IssuerOptions,
    keys: ArcSwapOption<KeySet>,
    /// Whether there are none since they became too old.
    too_old: AtomicBool,
    /// Goes on whenever it has other keys.
    generation: AtomicU64,
    refresh: Refresh,
}

/// A token that held.
#[derive(Clone)]
struct Verified {
    issuer: usize,
    generation: u64,
    /// In nanoseconds, without the allowed difference of the issuer's clock.
    from: i128,
    until: i128,
    identity: Arc<Identity>,
}

/// All issuers of the settings.
pub struct Issuers {
    issuers: Vec<Issuer>,
    verified: Cache<[u8; digest::SHA256_OUTPUT_LEN], Verified>,
    limiters: Limiters,
}

/// The parts of a token that the server needs before it can check the signature. None of them is trusted yet.
#[derive(Deserialize)]
struct Unchecked {
    iss: String,
}

impl Issuers {
    /// `limits` apply to each subject.
    pub fn new(options: Vec<IssuerOptions>, limits: LimitOptions) -> Self {
        signatures::install();
        let issuers = options.into_iter().map(|options| Issuer {
            options,
            keys: ArcSwapOption::empty(),
            too_old: AtomicBool::new(false),
            generation: AtomicU64::new(0),
            refresh: Refresh::default(),
        });
        Self { issuers: issuers.collect(), verified: Cache::new(REMEMBERED_MAX), limiters: Limiters::new(limits) }
    }

    pub fn is_empty(&self) -> bool {
        self.issuers.is_empty()
    }

    /// How many there are: their numbers go from 0.
    pub fn len(&self) -> usize {
        self.issuers.len()
    }

    /// Whether to check a text as a token: any text that is not an API key and has two dots.
    pub fn are_for(&self, text: &[u8]) -> bool {
        !self.issuers.is_empty() && text.iter().filter(|byte| **byte == b'.').count() == 2
    }

    /// The owner of this token, if it is valid now.
    pub fn verify(&self, token: &[u8], now: Timestamp) -> Verdict {
        if token.len() > TOKEN_BYTES_MAX {
            return Verdict::Refused(NoToken::Malformed);
        }
        let mut hash = [0; digest::SHA256_OUTPUT_LEN];
        hash.copy_from_slice(digest::digest(&digest::SHA256, token).as_ref());
        let known = self.verified.get(&hash);
        let known = known.filter(|known| known.generation == self.generation(known.issuer));
        let is_new = known.is_none();
        let verified = match known.map_or_else(|| self.verify_uncached(token), Ok) {
            Ok(verified) => verified,
            Err(verdict) => return verdict,
        };
        let leeway = self.issuers[verified.issuer].options.leeway.as_nanos() as i128;
        let now = i128::from(now.as_nanos());
        if now >= verified.until.saturating_add(leeway) {
            self.verified.remove(&hash);
            return Verdict::Refused(NoToken::Expired);
        }
        if now < verified.from - leeway {
            return Verdict::Refused(NoToken::Early);
        }
        let identity = Arc::clone(&verified.identity);
        if is_new {
            self.verified.insert(hash, verified);
        }
        Verdict::Known(identity)
    }

    fn generation(&self, issuer: usize) -> u64 {
        self.issuers[issuer].generation.load(Ordering::Acquire)
    }

    fn verify_uncached(&self, token: &[u8]) -> Result<Verified, Verdict> {
        let refused = |why| Verdict::Refused(why);
        let header = decode_header(token).map_err(|_| refused(NoToken::Malformed))?;
        let unchecked: Unchecked = insecure_decode_claims(token).map_err(|_| refused(NoToken::Malformed))?;
        let number = self.issuers.iter().position(|issuer| issuer.options.issuer == unchecked.iss);
        let number = number.ok_or(refused(NoToken::UnknownIssuer))?;
        let issuer = &self.issuers[number];
        // Read before the keys, so that the keys are never newer than the generation.
        let generation = self.generation(number);
        let keys = issuer.keys.load();
        let none = || match issuer.too_old.load(Ordering::Acquire) {
            true => Verdict::KeysTooOld(number),
            false => Verdict::NoKeys(number),
        };
        let keys = keys.as_ref().ok_or_else(none)?;
        let key = keys.find(header.kid.as_deref(), header.alg).ok_or(Verdict::KeysWanted(number))?;
        let claims = checked(token, &header, key, &issuer.options).map_err(refused)?;
        let (from, until, identity) = issuer.read(&claims).ok_or(refused(NoToken::Incomplete))?;
        let limiter = self.limiters.of(identity.name().as_str());
        let identity = identity.limited(limiter);
        Ok(Verified { issuer: number, generation, from, until, identity: Arc::new(identity) })
    }

    /// Uses these keys of an issuer from now on. Whether they are others than before.
    pub fn publish(&self, issuer: usize, keys: KeySet) -> bool {
        let Some(issuer) = self.issuers.get(issuer) else { return false };
        let is_same = issuer.keys.load().as_ref().is_some_and(|known| known.is_same(&keys));
        if !is_same {
            issuer.keys.store(Some(Arc::new(keys)));
            issuer.generation.fetch_add(1, Ordering::AcqRel);
            issuer.too_old.store(false, Ordering::Release);
        }
        !is_same
    }

    /// Drops the keys of an issuer, which could not be read for too long: its tokens are refused until they are read.
    pub fn expire(&self, issuer: usize) {
        if let Some(issuer) = self.issuers.get(issuer) {
            issuer.too_old.store(true, Ordering::Release);
            issuer.keys.store(None);
            issuer.generation.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Requests a new reading of an issuer's keys, and waits for it for a while, unless it was done just now. Returns
    /// whether they were read.
    pub async fn look_up(&self, issuer: usize) -> bool {
        match self.issuers.get(issuer) {
            Some(issuer) => issuer.refresh.look_up().await,
            None => false,
        }
    }

    /// For the task that reads an issuer's keys: returns once a caller requests them.
    pub async fn wait_for_request(&self, issuer: usize) {
        match self.issuers.get(issuer) {
            Some(issuer) => issuer.refresh.wait_for_request().await,
            None => std::future::pending().await,
        }
    }

    /// Notifies waiting callers that an issuer's keys were read, or could not be read.
    pub fn note_read(&self, issuer: usize) {
        if let Some(issuer) = self.issuers.get(issuer) {
            issuer.refresh.note_end();
        }
    }
}

impl Issuer {
    /// The validity and the identity of verified claims.
    fn read(&self, claims: &Claims) -> Option<(i128, i128, Identity)> {
        let subject = claims.get("sub").and_then(Value::as_str).filter(|subject| !subject.is_empty())?;
        let until = claims.get("exp").and_then(nanos)?;
        let from = match claims.get("nbf") {
            Some(from) => nanos(from)?,
            None => 0,
        };
        let fitting: Vec<&Rule> = self.options.rules.iter().filter(|rule| rule.fits(claims)).collect();
        let kind = self.options.label.as_ref().map_or_else(|| "jwt:".to_owned(), |label| format!("jwt:{label}:"));
        let acts_for = match fitting.iter().any(|rule| rule.acts_for_others) {
            true => ActsFor::Others,
            false => ActsFor::Themselves,
        };
        let grants = fitting.into_iter().map(|rule| rule.grant.clone()).collect();
        Some((from, until, Identity::new(&kind, subject, grants, acts_for)))
    }
}

/// A moment of a claim (RFC 7519, section 2: seconds, with or without a fraction), in nanoseconds.
fn nanos(claim: &Value) -> Option<i128> {
    const NANOS: i128 = 1_000_000_000;
    match claim.as_u64() {
        Some(secs) => Some(i128::from(secs) * NANOS),
        // Beyond the exact range of a fraction, it saturates.
        None => claim.as_f64().filter(|secs| *secs >= 0.0).map(|secs| (secs * NANOS as f64) as i128),
    }
}

/// The claims of a token of this issuer, if this key has signed them for us. Their validity in time is checked
/// elsewhere, because a token may be cached for longer than one moment.
fn checked(token: &[u8], header: &Header, key: &SigningKey, options: &IssuerOptions) -> Result<Claims, NoToken> {
    if header.crit.is_some() || header.extras.inner().contains_key("b64") {
        return Err(NoToken::Critical);
    }
    // A text that is signed for another purpose is not an access token (RFC 8725, section 3.11).
    let is_of_access = |kind: &str| ["jwt", "at+jwt", "application/at+jwt"].contains(&&*kind.to_ascii_lowercase());
    if header.typ.as_deref().is_some_and(|kind| !is_of_access(kind)) {
        return Err(NoToken::Malformed);
    }
    let mut validation = Validation::new(key.algorithm);
    validation.set_issuer(&[&options.issuer]);
    validation.set_audience(&options.audiences);
    validation.set_required_spec_claims(&["iss", "aud", "sub", "exp"]);
    (validation.validate_exp, validation.validate_nbf) = (false, false);
    let decoded: Result<TokenData<Unique>, _> = decode(token, &key.key, &validation);
    let claims = decoded.map_err(|error| match error.kind() {
        ErrorKind::InvalidSignature | ErrorKind::InvalidAlgorithm => NoToken::Forged,
        ErrorKind::InvalidIssuer => NoToken::UnknownIssuer,
        ErrorKind::InvalidAudience => NoToken::OtherAudience,
        ErrorKind::MissingRequiredClaim(_) => NoToken::Incomplete,
        _ => NoToken::Malformed,
    })?;
    Ok(claims.claims.0)
}

#[cfg(test)]
mod tests;
