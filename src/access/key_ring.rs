//! All API keys in memory, like the catalog. Every request looks its key up without a lock, during publications and
//! without the metadata store.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arc_swap::ArcSwapOption;

use super::identity::Identity;
use super::limits::{LimitOptions, Limiter};
use super::token::Presented;
use crate::domain::{ApiKey, KeyId, KeyState, RateLimits, Revision, Timestamp};

const HOUR_NANOS: u64 = 3_600_000_000_000;

/// Why a text is not a valid key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoKey {
    /// It does not have the form of a key, or its checksum is invalid.
    Malformed,
    Unknown,
    Expired,
    Revoked,
    /// No keys have been read yet.
    NotLoaded,
}

/// Identifies a verified text: two hashes of it under keys that this process drew. So HMAC is computed once for each
/// key, and no secret is stored.
type Fingerprint = [u64; 2];

/// A key, with this server's record of its use.
struct Entry {
    key: Arc<ApiKey>,
    /// The identity of requests with it.
    identity: Arc<Identity>,
    /// Of the present secret and of the one before it, once they were verified.
    verified: [OnceLock<Fingerprint>; 2],
    /// The hour of the last use that this server saw, in hours since the Unix epoch; 0 for none.
    used_hour: Arc<AtomicU64>,
}

/// All keys as of one revision, and later changes by this server.
struct Snapshot {
    revision: Revision,
    entries: HashMap<KeyId, Entry>,
    /// Whether it was read from a file, since the metadata store could not be.
    stored: bool,
}

/// The state that publishing needs.
#[derive(Default)]
struct Publisher {
    /// How many readings have begun.
    readings: u64,
    /// This server's own changes that a running reading may not include, with the number of readings started before.
    ahead: Vec<(u64, Arc<ApiKey>)>,
    /// Uses that are not reported to the store yet survive all snapshots.
    used: HashMap<KeyId, Arc<AtomicU64>>,
    /// The hour up to which each use was reported.
    reported: HashMap<KeyId, u64>,
    /// The default limits, and the usage of keys, retained over all snapshots.
    limits: LimitOptions,
    limiters: HashMap<KeyId, (RateLimits, Option<Arc<Limiter>>)>,
}

/// The place where all keys are found. Cheap to clone; all clones see the same.
#[derive(Clone)]
pub struct KeyRing {
    snapshot: Arc<ArcSwapOption<Snapshot>>,
    publisher: Arc<Mutex<Publisher>>,
    hashers: Arc<[RandomState; 2]>,
}

impl Default for KeyRing {
    fn default() -> Self {
        Self {
            snapshot: Arc::default(),
            publisher: Arc::default(),
            hashers: Arc::new([RandomState::new(), RandomState::new()]),
        }
    }
}

impl KeyRing {
    /// The owner of the key with this secret, if it is valid now.
    pub fn verify(&self, text: &[u8], now: Timestamp) -> Result<Arc<Identity>, NoKey> {
        let snapshot = self.snapshot.load();
        let snapshot = snapshot.as_ref().ok_or(NoKey::NotLoaded)?;
        let presented = Presented::read(text).ok_or(NoKey::Malformed)?;
        let Some(entry) = snapshot.entries.get(&presented.id) else {
            return Err(if presented.is_whole() { NoKey::Unknown } else { NoKey::Malformed });
        };
        self.recognise(entry, &presented, now)?;
        match entry.key.state(now) {
            KeyState::Revoked => return Err(NoKey::Revoked),
            KeyState::Expired => return Err(NoKey::Expired),
            KeyState::Active => {}
        }
        let hour = now.as_nanos() / HOUR_NANOS;
        // Written once an hour: a line that all threads write would cost each of them.
        if entry.used_hour.load(Ordering::Relaxed) < hour {
            entry.used_hour.store(hour, Ordering::Relaxed);
        }
        Ok(Arc::clone(&entry.identity))
    }

    fn recognise(&self, entry: &Entry, presented: &Presented<'_>, now: Timestamp) -> Result<(), NoKey> {
        let fingerprint = [0, 1].map(|number: usize| self.hashers[number].hash_one(presented.bytes()));
        let [present, previous] = &entry.verified;
        let previous_hash = entry.key.previous.as_ref().filter(|previous| now < previous.until).map(|p| &p.hash);
        if present.get() == Some(&fingerprint) || previous_hash.is_some() && previous.get() == Some(&fingerprint) {
            return Ok(());
        }
        if !presented.is_whole() {
            return Err(NoKey::Malformed);
        }
        let known = if presented.is_of(&entry.key.hash) {
            present
        } else if previous_hash.is_some_and(|hash| presented.is_of(hash)) {
            previous
        } else if entry.key.previous.is_some_and(|previous| presented.is_of(&previous.hash)) {
            return Err(NoKey::Expired);
        } else {
            return Err(NoKey::Unknown);
        };
        // Another thread has set it to the same value.
        let _ = known.set(fingerprint);
        Ok(())
    }

    /// Whether any key was ever made, revoked ones included; `None` before keys have been read.
    pub fn is_configured(&self) -> Option<bool> {
        self.snapshot.load().as_ref().map(|snapshot| !snapshot.entries.is_empty())
    }

    /// All keys, in the order of their ids, and the revision that they are of.
    pub fn keys(&self) -> Option<(Revision, Vec<Arc<ApiKey>>)> {
        let snapshot = self.snapshot.load_full()?;
        let mut keys: Vec<_> = snapshot.entries.values().map(|entry| Arc::clone(&entry.key)).collect();
        keys.sort_by_key(|key| key.id);
        Some((snapshot.revision, keys))
    }

    /// Limits all callers without separate limits from now on.
    pub(super) fn limit(&self, limits: LimitOptions) {
        let mut publisher = self.publisher();
        publisher.limits = limits;
        publisher.limiters.clear();
        if let Some(snapshot) = self.snapshot.load_full() {
            let keys = snapshot.entries.values().map(|entry| Arc::clone(&entry.key)).collect();
            self.swap(&mut publisher, snapshot.revision, keys, snapshot.stored);
        }
    }

    /// Call it before reading keys from the store to publish them. From then on, the ring retains this server's changes
    /// until the read keys include them. Returns the revision up to which it has all changes.
    ///
    /// Only the metadata actor calls this and the `publish` functions.
    pub fn begin_reading(&self) -> Option<Revision> {
        self.publisher().readings += 1;
        self.snapshot.load().as_ref().filter(|snapshot| !snapshot.stored).map(|snapshot| snapshot.revision)
    }

    /// Publishes all keys as the store has them, with this server's own later changes.
    pub fn publish(&self, revision: Revision, keys: impl IntoIterator<Item = ApiKey>) {
        let mut publisher = self.publisher();
        let readings = publisher.readings;
        publisher.ahead.retain(|(begun, key)| *begun == readings && key.revision > revision);
        let read = keys.into_iter().map(Arc::new);
        let keys: Vec<_> = read.chain(publisher.ahead.iter().map(|(_, key)| Arc::clone(key))).collect();
        self.swap(&mut publisher, revision, keys, false);
    }

    /// Publishes the keys that an earlier process stored on disk. It never replaces keys that were read from the
    /// store.
    pub fn publish_stored(&self, revision: Revision, keys: impl IntoIterator<Item = ApiKey>) {
        let mut publisher = self.publisher();
        if self.snapshot.load().is_none() {
            self.swap(&mut publisher, revision, keys.into_iter().map(Arc::new).collect(), true);
        }
    }

    /// Publishes a change that this server has made.
    pub fn publish_change(&self, key: ApiKey) {
        let (mut publisher, key) = (self.publisher(), Arc::new(key));
        let readings = publisher.readings;
        publisher.ahead.push((readings, Arc::clone(&key)));
        // One key is not a ring: all keys must be read first.
        let Some(snapshot) = self.snapshot.load_full() else { return };
        if snapshot.entries.get(&key.id).is_some_and(|known| known.key.revision >= key.revision) {
            return;
        }
        let others = snapshot.entries.values().map(|entry| Arc::clone(&entry.key)).filter(|known| known.id != key.id);
        let keys = others.chain([Arc::clone(&key)]).collect();
        self.swap(&mut publisher, snapshot.revision, keys, snapshot.stored);
    }

    fn swap(&self, publisher: &mut Publisher, revision: Revision, keys: Vec<Arc<ApiKey>>, stored: bool) {
        let entry = |key: Arc<ApiKey>| {
            let used_hour = Arc::clone(publisher.used.entry(key.id).or_default());
            let known = publisher.limiters.get(&key.id).filter(|(limits, _)| *limits == key.limits);
            let limiter = match known {
                Some((_, limiter)) => limiter.clone(),
                None => publisher.limits.limiter(key.limits),
            };
            publisher.limiters.insert(key.id, (key.limits, limiter.clone()));
            let identity = Arc::new(Identity::of_key(&key).limited(limiter));
            (key.id, Entry { key, identity, verified: Default::default(), used_hour })
        };
        let entries = keys.into_iter().map(entry).collect();
        self.snapshot.store(Some(Arc::new(Snapshot { revision, entries, stored })));
    }

    /// Uses that are not reported to the store yet, to the hour.
    pub fn unreported_uses(&self) -> Vec<(KeyId, Timestamp)> {
        let publisher = self.publisher();
        let uses = publisher.used.iter().map(|(id, hour)| (*id, hour.load(Ordering::Relaxed)));
        let unreported = uses.filter(|(id, hour)| *hour > publisher.reported.get(id).copied().unwrap_or_default());
        let moment = |hour: u64| Timestamp::saturating_from_nanos(u128::from(hour) * u128::from(HOUR_NANOS));
        unreported.map(|(id, hour)| (id, moment(hour))).collect()
    }

    /// Records that the store has these.
    pub fn note_reported(&self, uses: &[(KeyId, Timestamp)]) {
        let reported = uses.iter().map(|(id, at)| (*id, at.as_nanos() / HOUR_NANOS));
        self.publisher().reported.extend(reported);
    }

    fn publisher(&self) -> MutexGuard<'_, Publisher> {
        self.publisher.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::test_keys::{key, key_of};
    use crate::access::token::Secret;
    use crate::domain::{PreviousSecret, Role};

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_nanos(secs * 1_000_000_000).unwrap()
    }

    fn ring(keys: &[ApiKey]) -> KeyRing {
        let ring = KeyRing::default();
        ring.begin_reading();
        ring.publish(Revision(5), keys.to_vec());
        ring
    }

    fn found(ring: &KeyRing, secret: &Secret, secs: u64) -> Result<(), NoKey> {
        let found = ring.verify(secret.expose().as_bytes(), at(secs));
        found.map(|identity| assert_eq!(identity.name().as_str(), "key:feed"))
    }

    #[test]
    fn a_key_is_valid_until_it_expires_or_is_revoked() {
        let secret = Secret::generate().unwrap();
        let plain = key_of(&secret, "feed", &[Role::Reader], &["*"]);
        assert_eq!(found(&KeyRing::default(), &secret, 1), Err(NoKey::NotLoaded));
        assert_eq!(found(&ring(&[]), &secret, 1), Err(NoKey::Unknown));
        let expiring = ring(&[ApiKey { expires_at: Some(at(10)), ..plain.clone() }]);
        assert_eq!(found(&expiring, &secret, 9), Ok(()));
        assert_eq!(found(&expiring, &secret, 10), Err(NoKey::Expired));
        let revoked = ring(&[ApiKey { revoked_at: Some(at(1)), ..plain }]);
        assert_eq!(found(&revoked, &secret, 9), Err(NoKey::Revoked));
        assert_eq!(revoked.is_configured(), Some(true));
    }

    #[test]
    fn only_the_exact_secret_is_accepted() {
        let (secret, another) = (Secret::generate().unwrap(), Secret::generate().unwrap());
        let ring = ring(&[key_of(&secret, "feed", &[Role::Reader], &["*"])]);
        // Once to verify, once from memory.
        assert_eq!((found(&ring, &secret, 1), found(&ring, &secret, 1)), (Ok(()), Ok(())));
        let forged = Secret::generate_for(secret.id).unwrap();
        assert_eq!(found(&ring, &forged, 1), Err(NoKey::Unknown));
        assert_eq!(found(&ring, &another, 1), Err(NoKey::Unknown));
        let mut typed = secret.expose().to_owned().into_bytes();
        typed[30] ^= 1;
        assert_eq!(ring.verify(&typed, at(1)).err(), Some(NoKey::Malformed));
        for bad in [&b""[..], b"ls_", &[0xff; 65], &[b'a'; 1 << 16]] {
            assert_eq!(ring.verify(bad, at(1)).err(), Some(NoKey::Malformed));
        }
    }

    #[test]
    fn a_rotated_key_accepts_both_secrets_for_a_while() {
        let old = Secret::generate().unwrap();
        let new = Secret::generate_for(old.id).unwrap();
        let previous = Some(PreviousSecret { hash: old.hash(), until: at(10) });
        let ring = ring(&[ApiKey { previous, ..key_of(&new, "feed", &[Role::Reader], &["*"]) }]);
        for _ in 0..2 {
            assert_eq!((found(&ring, &old, 9), found(&ring, &new, 9)), (Ok(()), Ok(())));
        }
        assert_eq!((found(&ring, &old, 10), found(&ring, &new, 10)), (Err(NoKey::Expired), Ok(())));
    }

    /// A reading that began before a revocation of this server does not include it.
    #[test]
    fn a_read_in_progress_does_not_undo_a_local_change() {
        let secret = Secret::generate().unwrap();
        let plain = key_of(&secret, "feed", &[Role::Reader], &["*"]);
        let ring = ring(std::slice::from_ref(&plain));
        ring.begin_reading();
        ring.publish_change(ApiKey { revoked_at: Some(at(1)), revision: Revision(7), ..plain.clone() });
        assert_eq!(found(&ring, &secret, 2), Err(NoKey::Revoked));
        ring.publish(Revision(6), [plain.clone()]);
        assert_eq!(found(&ring, &secret, 2), Err(NoKey::Revoked));
        // A later reading shows a store that was restored to a state before the revocation.
        ring.begin_reading();
        ring.publish(Revision(6), [plain]);
        assert_eq!(found(&ring, &secret, 2), Ok(()));
    }

    #[test]
    fn uses_are_reported_once_an_hour() {
        let secret = Secret::generate().unwrap();
        let used = key_of(&secret, "feed", &[Role::Reader], &["*"]);
        let ring = ring(&[used.clone(), key("idle", &[Role::Reader], &["*"])]);
        assert!(found(&ring, &secret, 7_300).is_ok() && found(&ring, &secret, 10_700).is_ok());
        ring.publish(Revision(6), [used]);
        let unreported = ring.unreported_uses();
        assert_eq!(unreported, [(secret.id, at(7_200))]);
        ring.note_reported(&unreported);
        assert!(ring.unreported_uses().is_empty());
        assert!(found(&ring, &secret, 10_800).is_ok());
        assert_eq!(ring.unreported_uses(), [(secret.id, at(10_800))]);
    }
}
