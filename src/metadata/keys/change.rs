//! The effect of each change on a key: pure, and the same for every store.

use super::{KEYS_MAX, KeyAction, KeyChange, KeyHistoryEntry, record};
use crate::domain::{ApiKey, KeyId, KeyState, PreviousSecret, Revision};
use crate::metadata::{ChangeContext, MetadataError};

/// A key after the change, and the entry of the audit trail about it.
#[derive(Debug, Clone)]
pub struct KeyTransition {
    pub key: ApiKey,
    pub entry: KeyHistoryEntry,
}

/// The outcome of a decision.
#[derive(Debug, Clone)]
pub enum Decided {
    Change(Box<KeyTransition>),
    /// The change has no effect on this key.
    Nothing(Box<ApiKey>),
}

/// Decides the effect of a change on the existing keys. `revision` is the number of the change.
pub fn decide<'k>(
    keys: impl Iterator<Item = &'k ApiKey> + Clone,
    change: KeyChange,
    revision: Revision,
    context: ChangeContext,
) -> Result<Decided, MetadataError> {
    let present = |id: KeyId| keys.clone().find(|key| key.id == id).ok_or(MetadataError::KeyNotFound(id));
    let now = context.at;
    let (action, before, key) = match change {
        KeyChange::Create { id, hash, name, roles, scopes, limits, expires_at } => {
            let mut holding = keys.clone().filter(|key| key.revoked_at.is_none());
            if holding.clone().any(|key| key.name == name) || keys.clone().any(|key| key.id == id) {
                return Err(MetadataError::KeyExists(name));
            }
            if holding.nth(KEYS_MAX - 1).is_some() {
                return Err(MetadataError::TooManyKeys);
            }
            let key = ApiKey {
                id,
                name,
                roles,
                scopes,
                limits,
                hash,
                previous: None,
                created_at: now,
                created_by: context.by.clone(),
                expires_at,
                rotated_at: None,
                revoked_at: None,
                last_used_at: None,
                revision,
            };
            (KeyAction::CreateKey, None, key)
        }
        KeyChange::Rotate { id, hash, previous_until, expires_at, expires_by } => {
            let before = present(id)?;
            let expires_at = expires_at.or(before.expires_at);
            // The previous secret never lives longer than before.
            let until = before.expires_at.map_or(previous_until, |end| end.min(previous_until));
            let rotated = ApiKey {
                hash,
                previous: Some(PreviousSecret { hash: before.hash, until }),
                rotated_at: Some(now),
                expires_at: expires_by
                    .map_or(expires_at, |latest| Some(expires_at.map_or(latest, |at| at.min(latest)))),
                revision,
                ..before.clone()
            };
            match rotated.state(now) {
                KeyState::Active => (KeyAction::RotateKey, Some(before), rotated),
                KeyState::Revoked => return Err(MetadataError::KeyRevoked(id)),
                KeyState::Expired => return Err(MetadataError::KeyExpired(id)),
            }
        }
        KeyChange::Revoke { id } => {
            let before = present(id)?;
            if before.revoked_at.is_some() {
                return Ok(Decided::Nothing(Box::new(before.clone())));
            }
            (KeyAction::RevokeKey, Some(before), ApiKey { revoked_at: Some(now), revision, ..before.clone() })
        }
    };
    let entry = KeyHistoryEntry {
        revision,
        at: now,
        by: context.by,
        action,
        id: key.id,
        name: key.name.clone(),
        before: before.map(record::shown),
        after: Some(record::shown(&key)),
    };
    Ok(Decided::Change(Box::new(KeyTransition { key, entry })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Author, KeyName, RateLimits, Role, Scope, SecretHash, Timestamp};

    fn at(nanos: u64) -> ChangeContext {
        ChangeContext { by: Author::anonymous(), at: Timestamp::from_nanos(nanos).unwrap() }
    }

    fn id(last: char) -> KeyId {
        KeyId::new(&format!("0000000000{last}0")).unwrap()
    }

    fn creation(last: char, name: &str, expires_nanos: Option<u64>) -> KeyChange {
        KeyChange::Create {
            id: id(last),
            hash: SecretHash::new([1; 32]),
            name: KeyName::new(name).unwrap(),
            roles: vec![Role::Reader],
            scopes: vec![Scope::all()],
            limits: RateLimits::default(),
            expires_at: expires_nanos.map(|nanos| Timestamp::from_nanos(nanos).unwrap()),
        }
    }

    fn rotation(last: char, expires_nanos: Option<u64>) -> KeyChange {
        KeyChange::Rotate {
            id: id(last),
            hash: SecretHash::new([2; 32]),
            previous_until: Timestamp::from_nanos(20).unwrap(),
            expires_at: expires_nanos.map(|nanos| Timestamp::from_nanos(nanos).unwrap()),
            expires_by: None,
        }
    }

    /// Decides, and makes the change.
    fn make(keys: &mut Vec<ApiKey>, change: KeyChange, nanos: u64) -> Result<Option<KeyAction>, MetadataError> {
        match decide(keys.iter(), change, Revision(nanos), at(nanos))? {
            Decided::Nothing(_) => Ok(None),
            Decided::Change(transition) => {
                keys.retain(|key| key.id != transition.key.id);
                keys.push(transition.key);
                Ok(Some(transition.entry.action))
            }
        }
    }

    #[test]
    fn a_name_is_free_again_once_its_key_is_revoked() {
        let mut keys = Vec::new();
        assert_eq!(make(&mut keys, creation('a', "feed", None), 1).unwrap(), Some(KeyAction::CreateKey));
        assert!(matches!(make(&mut keys, creation('b', "feed", None), 2), Err(MetadataError::KeyExists(_))));
        assert!(matches!(make(&mut keys, creation('a', "other", None), 2), Err(MetadataError::KeyExists(_))));
        assert_eq!(make(&mut keys, KeyChange::Revoke { id: id('a') }, 3).unwrap(), Some(KeyAction::RevokeKey));
        assert_eq!(make(&mut keys, KeyChange::Revoke { id: id('a') }, 4).unwrap(), None);
        assert_eq!(keys[0].revoked_at.unwrap().as_nanos(), 3);
        assert_eq!(make(&mut keys, creation('b', "feed", None), 5).unwrap(), Some(KeyAction::CreateKey));
        assert!(matches!(make(&mut keys, rotation('a', None), 6), Err(MetadataError::KeyRevoked(_))));
        let unknown = KeyChange::Revoke { id: id('c') };
        assert!(matches!(make(&mut keys, unknown, 6), Err(MetadataError::KeyNotFound(_))));
    }

    #[test]
    fn a_rotation_keeps_the_previous_secret_and_can_renew_an_expired_key() {
        let mut keys = Vec::new();
        make(&mut keys, creation('a', "feed", Some(10)), 1).unwrap();
        assert_eq!(make(&mut keys, rotation('a', None), 9).unwrap(), Some(KeyAction::RotateKey));
        assert_eq!(keys[0].previous.map(|previous| previous.hash), Some(SecretHash::new([1; 32])));
        assert!(matches!(make(&mut keys, rotation('a', None), 10), Err(MetadataError::KeyExpired(_))));
        assert_eq!(keys[0].previous.map(|previous| previous.until.as_nanos()), Some(10), "never longer than before");
        make(&mut keys, rotation('a', Some(30)), 10).unwrap();
        assert_eq!(keys[0].previous.map(|previous| previous.until.as_nanos()), Some(10), "it stays expired");
        assert_eq!((keys[0].expires_at.unwrap().as_nanos(), keys[0].created_at.as_nanos()), (30, 1));
    }

    #[test]
    fn a_rotation_is_bounded_by_the_expiry_of_its_caller() {
        let bounded = |id, nanos: u64| {
            let KeyChange::Rotate { hash, previous_until, expires_at, .. } = rotation(id, None) else { panic!() };
            let (id, expires_by) = (self::id(id), Some(Timestamp::from_nanos(nanos).unwrap()));
            KeyChange::Rotate { id, hash, previous_until, expires_at, expires_by }
        };
        let mut keys = Vec::new();
        make(&mut keys, creation('a', "feed", None), 1).unwrap();
        make(&mut keys, bounded('a', 50), 2).unwrap();
        assert_eq!(keys[0].expires_at.unwrap().as_nanos(), 50);
        make(&mut keys, bounded('a', 60), 3).unwrap();
        assert_eq!(keys[0].expires_at.unwrap().as_nanos(), 50, "a rotation brings no later expiry by itself");
    }

    #[test]
    fn the_number_of_keys_is_bounded() {
        let mut keys = Vec::new();
        make(&mut keys, creation('a', "feed", None), 1).unwrap();
        let one = keys[0].clone();
        keys.extend((1..KEYS_MAX).map(|_| one.clone()));
        assert!(matches!(make(&mut keys, creation('b', "more", None), 2), Err(MetadataError::TooManyKeys)));
        keys[0].revoked_at = Some(Timestamp::MIN);
        assert!(make(&mut keys, creation('b', "more", None), 2).is_ok());
    }
}
