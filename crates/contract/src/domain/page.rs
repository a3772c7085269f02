//! Pages: limits and opaque keyset cursors.
//!
//! A token holds the last key of a page, so that the next page starts right after it, with any changes in between. It
//! is bound to its list and bounds, and has a checksum: an altered, cut or misplaced token is refused. It is no
//! secret, and valid on every server.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use md5::{Digest, Md5};

use super::{
    EntityId, EntityType, FeatureId, FeatureKey, FeatureName, Invalid, ItemKey, JobId, KeyId, KeyName, ListKey, Order,
    Revision, Timestamp, ValueDigest,
};

/// How many entries a page may have, from 1 to a maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit(usize);

impl Limit {
    /// Of items: 1–10,000, default 100.
    pub const ITEMS_MAX: usize = 10_000;
    /// Of items that are counted: 1–1,000,000, default 10,000.
    pub const COUNT_MAX: usize = 1_000_000;
    pub const DEFAULT_COUNT: Self = Self(10_000);
    /// Of features and of history entries: 1–1,000, default 100.
    pub const PAGE_SIZE_MAX: usize = 1_000;
    pub const DEFAULT: Self = Self(100);
    pub const LARGEST_PAGE: Self = Self(Self::PAGE_SIZE_MAX);

    pub fn of_items(limit: usize) -> Result<Self, Invalid> {
        Self::within("limit", limit, Self::ITEMS_MAX)
    }

    pub fn of_count(max: usize) -> Result<Self, Invalid> {
        Self::within("max", max, Self::COUNT_MAX)
    }

    pub fn of_page(page_size: usize) -> Result<Self, Invalid> {
        Self::within("page_size", page_size, Self::PAGE_SIZE_MAX)
    }

    /// Of bags that are found: as many as of a page, by another name.
    pub fn of_found(limit: usize) -> Result<Self, Invalid> {
        Self::within("limit", limit, Self::PAGE_SIZE_MAX)
    }

    fn within(what: &str, limit: usize, max: usize) -> Result<Self, Invalid> {
        if (1..=max).contains(&limit) {
            Ok(Self(limit))
        } else {
            Err(Invalid::argument(format!("{what} must be 1 to {max}")))
        }
    }

    pub fn get(self) -> usize {
        self.0
    }
}

const FORMAT: u8 = 1;
const BINDING_LEN: usize = 8;
const CHECKSUM_LEN: usize = 4;

/// An opaque cursor: `base64url(format, payload, binding, checksum)`.
///
/// The binding is the start of the MD5 of all parameters of the walk. The checksum covers all bytes before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageToken(String);

impl PageToken {
    /// Seals a payload that is good only for a walk with the same `binding` parts.
    pub fn seal(payload: &[u8], binding: &[&[u8]]) -> Self {
        let mut bytes = Vec::with_capacity(1 + payload.len() + BINDING_LEN + CHECKSUM_LEN);
        bytes.push(FORMAT);
        bytes.extend_from_slice(payload);
        bytes.extend_from_slice(&digest_of(binding)[..BINDING_LEN]);
        let checksum = digest_of(&[&bytes]);
        bytes.extend_from_slice(&checksum[..CHECKSUM_LEN]);
        Self(URL_SAFE_NO_PAD.encode(bytes))
    }

    /// The payload of a token that was sealed for the same `binding` parts.
    pub fn open(text: &str, binding: &[&[u8]]) -> Result<Vec<u8>, Invalid> {
        let damaged = || Invalid::page_token("not a page token of this server: send next_page_token unchanged");
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| damaged())?;
        let (body, checksum) = bytes.split_last_chunk::<CHECKSUM_LEN>().ok_or_else(damaged)?;
        if digest_of(&[body])[..CHECKSUM_LEN] != checksum[..] {
            return Err(damaged());
        }
        let (sealed, bound_to) = body.split_last_chunk::<BINDING_LEN>().ok_or_else(damaged)?;
        let (format, payload) = sealed.split_first().ok_or_else(damaged)?;
        if *format != FORMAT {
            return Err(damaged());
        }
        if digest_of(binding)[..BINDING_LEN] != bound_to[..] {
            return Err(Invalid::page_token(
                "this page token belongs to another list or other bounds: repeat the parameters of the first page, or \
                 start again without a token",
            ));
        }
        Ok(payload.to_vec())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The MD5 of parts, each preceded by its length, so that no two sequences of parts collide by
/// concatenation.
fn digest_of(parts: &[&[u8]]) -> [u8; 16] {
    let mut md5 = Md5::new();
    for part in parts {
        md5.update((part.len() as u64).to_be_bytes());
        md5.update(part);
    }
    md5.finalize().into()
}

/// The start of a walk over a list: its list, its order, and the bounds as the caller gave them.
#[derive(Debug, Clone, Copy)]
pub struct ItemWalk<'a> {
    pub list: &'a ListKey,
    pub min_timestamp: Option<Timestamp>,
    pub max_timestamp: Option<Timestamp>,
    /// The moment for which the list is read, if it is not the current time.
    pub as_of: Option<Timestamp>,
    pub order: Order,
}

impl ItemWalk<'_> {
    /// The token of the page after `last`.
    pub fn token_after(&self, last: ItemKey) -> PageToken {
        let mut payload = Vec::with_capacity(24);
        payload.extend_from_slice(&last.timestamp.as_nanos().to_be_bytes());
        payload.extend_from_slice(last.digest.as_bytes());
        self.bound(|binding| PageToken::seal(&payload, binding))
    }

    /// The key after which the page of this token starts.
    pub fn resume(&self, token: &str) -> Result<ItemKey, Invalid> {
        let payload = self.bound(|binding| PageToken::open(token, binding))?;
        let damaged = || Invalid::page_token("not a page token of a list");
        let (nanos, digest) = payload.split_first_chunk::<8>().ok_or_else(damaged)?;
        let timestamp = Timestamp::from_nanos(u64::from_be_bytes(*nanos)).map_err(|_| damaged())?;
        Ok(ItemKey::new(timestamp, ValueDigest::from_bytes(digest.try_into().map_err(|_| damaged())?)))
    }

    fn bound<T>(&self, with: impl FnOnce(&[&[u8]]) -> T) -> T {
        // An absent bound has no bytes, a given one eight.
        let bytes = |bound: Option<Timestamp>| bound.map(|t| t.as_nanos().to_be_bytes().to_vec()).unwrap_or_default();
        // Walks that begin at the newest item have the tokens of releases before there was an order.
        let walk: &[u8] = match self.order {
            Order::Newest => b"items",
            Order::Oldest => b"items, oldest first",
        };
        let (list, min, max) = (self.list, bytes(self.min_timestamp), bytes(self.max_timestamp));
        let (feature, entity) = (list.feature_key.as_str().as_bytes(), list.entity_id.as_str().as_bytes());
        // Walks in the present have the tokens of releases before lists could be read as of a moment.
        match self.as_of {
            None => with(&[walk, feature, entity, &min, &max]),
            Some(_) => with(&[walk, feature, entity, &min, &max, &bytes(self.as_of)]),
        }
    }
}

/// A walk over the bags that an index has under some values: the list of their entries, the bounds as they were given,
/// and the order.
#[derive(Debug, Clone, Copy)]
pub struct BagWalk<'a> {
    pub entries: &'a ListKey,
    pub min: Option<&'a str>,
    pub max: Option<&'a str>,
    pub order: Order,
}

/// How far a walk over bags is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BagPlace {
    /// The last entry that is behind it.
    pub after: ItemKey,
    /// When it began.
    pub began_at: Timestamp,
}

impl BagWalk<'_> {
    pub fn token_at(&self, BagPlace { after, began_at }: BagPlace) -> PageToken {
        let nanos = [after.timestamp, began_at].map(|moment| moment.as_nanos().to_be_bytes()).concat();
        let payload = [&*nanos, after.digest.as_bytes()].concat();
        self.bound(|binding| PageToken::seal(&payload, binding))
    }

    /// Where the page of this token begins.
    pub fn resume(&self, token: &str) -> Result<BagPlace, Invalid> {
        let payload = self.bound(|binding| PageToken::open(token, binding))?;
        let (place, rest) = payload.split_first_chunk::<8>().ok_or_else(damaged_token)?;
        let (began_at, digest) = rest.split_first_chunk::<8>().ok_or_else(damaged_token)?;
        let moment = |nanos: &[u8; 8]| Timestamp::from_nanos(u64::from_be_bytes(*nanos)).map_err(|_| damaged_token());
        let digest = ValueDigest::from_bytes(digest.try_into().map_err(|_| damaged_token())?);
        Ok(BagPlace { after: ItemKey::new(moment(place)?, digest), began_at: moment(began_at)? })
    }

    fn bound<T>(&self, with: impl FnOnce(&[&[u8]]) -> T) -> T {
        let Self { entries, min, max, order } = self;
        // A text of a bound is never empty.
        let [min, max] = [min, max].map(|bound| bound.unwrap_or_default().as_bytes());
        with(&[b"bags", entries.bytes(), min, max, order.as_str().as_bytes()])
    }
}

/// A walk over the entities that have lists of a feature version.
#[derive(Debug, Clone, Copy)]
pub struct EntityWalk<'a>(pub &'a FeatureKey);

impl EntityWalk<'_> {
    /// The token of the page that begins at a hash, behind an entity of it if there is one.
    pub fn token_at(&self, hash: u64, after: Option<&EntityId>) -> PageToken {
        let after = after.map_or("", EntityId::as_str);
        self.bound(|binding| PageToken::seal(&[&hash.to_be_bytes(), after.as_bytes()].concat(), binding))
    }

    /// Where the page of this token begins.
    pub fn resume(&self, token: &str) -> Result<(u64, Option<EntityId>), Invalid> {
        let payload = self.bound(|binding| PageToken::open(token, binding))?;
        let (hash, after) = payload.split_first_chunk::<8>().ok_or_else(damaged_token)?;
        let after = std::str::from_utf8(after).map_err(|_| damaged_token())?;
        let after = if after.is_empty() { None } else { Some(EntityId::new(after).map_err(|_| damaged_token())?) };
        Ok((u64::from_be_bytes(*hash), after))
    }

    fn bound<T>(&self, with: impl FnOnce(&[&[u8]]) -> T) -> T {
        with(&[b"entities", self.0.as_str().as_bytes()])
    }
}

/// A walk over the lists of an entity, by their feature keys.
#[derive(Debug, Clone, Copy)]
pub struct ListWalk<'a> {
    pub entity_type: &'a EntityType,
    pub entity_id: &'a EntityId,
}

impl ListWalk<'_> {
    /// The token of the page after `last`.
    pub fn token_after(&self, last: &FeatureKey) -> PageToken {
        self.bound(|binding| PageToken::seal(last.as_str().as_bytes(), binding))
    }

    /// The text of the key after which the page of this token starts.
    pub fn resume(&self, token: &str) -> Result<String, Invalid> {
        let payload = self.bound(|binding| PageToken::open(token, binding))?;
        String::from_utf8(payload).map_err(|_| damaged_token())
    }

    fn bound<T>(&self, with: impl FnOnce(&[&[u8]]) -> T) -> T {
        with(&[b"lists", self.entity_type.as_str().as_bytes(), self.entity_id.as_str().as_bytes()])
    }
}

fn damaged_token() -> Invalid {
    Invalid::page_token("not a page token of this listing")
}

/// A walk over the features, or the entity types with bags, that match a filter.
#[derive(Debug, Clone, Copy)]
pub struct FeatureWalk<'a> {
    /// Whether it is one over entity types.
    pub of_bags: bool,
    pub entity_type: Option<&'a EntityType>,
    pub text: Option<&'a str>,
}

impl FeatureWalk<'_> {
    /// The token of the page after `last`.
    pub fn token_after(&self, last: &FeatureId) -> PageToken {
        // Names cannot hold a NUL.
        let payload = format!("{}\0{}", last.entity_type, last.name);
        self.bound(|binding| PageToken::seal(payload.as_bytes(), binding))
    }

    /// The feature after which the page of this token starts.
    pub fn resume(&self, token: &str) -> Result<FeatureId, Invalid> {
        let payload = self.bound(|binding| PageToken::open(token, binding))?;
        let text = String::from_utf8(payload).map_err(|_| damaged_token())?;
        let (entity_type, name) = text.split_once('\0').ok_or_else(damaged_token)?;
        let entity_type = EntityType::new(entity_type).map_err(|_| damaged_token())?;
        let name = FeatureName::stored(name).map_err(|_| damaged_token())?;
        Ok(FeatureId { entity_type, name })
    }

    fn bound<T>(&self, with: impl FnOnce(&[&[u8]]) -> T) -> T {
        let entity_type = self.entity_type.map_or("", EntityType::as_str);
        let walk: &[u8] = if self.of_bags { b"entity types" } else { b"features" };
        with(&[walk, entity_type.as_bytes(), self.text.unwrap_or_default().as_bytes()])
    }
}

/// A walk over the history of a feature.
#[derive(Debug, Clone, Copy)]
pub struct HistoryWalk<'a>(pub &'a FeatureId);

impl HistoryWalk<'_> {
    /// The token of the page after `last`.
    pub fn token_after(&self, last: Revision) -> PageToken {
        self.bound(|binding| PageToken::seal(&last.0.to_be_bytes(), binding))
    }

    /// The revision before which the page of this token starts.
    pub fn resume(&self, token: &str) -> Result<Revision, Invalid> {
        let payload = self.bound(|binding| PageToken::open(token, binding))?;
        Ok(Revision(u64::from_be_bytes(payload.try_into().map_err(|_| damaged_token())?)))
    }

    fn bound<T>(&self, with: impl FnOnce(&[&[u8]]) -> T) -> T {
        let FeatureId { entity_type, name } = self.0;
        with(&[b"history", entity_type.as_str().as_bytes(), name.as_str().as_bytes()])
    }
}

/// A walk over all API keys, by name and then by id.
pub struct KeyWalk;

impl KeyWalk {
    const BINDING: [&'static [u8]; 1] = [b"keys"];

    /// The token of the page after this key.
    pub fn token_after(&self, name: &KeyName, id: KeyId) -> PageToken {
        PageToken::seal(&[id.as_str().as_bytes(), name.as_str().as_bytes()].concat(), &Self::BINDING)
    }

    /// The key after which the page of this token starts.
    pub fn resume(&self, token: &str) -> Result<(KeyName, KeyId), Invalid> {
        let payload = PageToken::open(token, &Self::BINDING)?;
        let text = std::str::from_utf8(&payload).map_err(|_| damaged_token())?;
        let (id, name) = text.split_at_checked(KeyId::LEN).ok_or_else(damaged_token)?;
        Ok((KeyName::new(name).map_err(|_| damaged_token())?, KeyId::new(id).map_err(|_| damaged_token())?))
    }
}

/// A walk over all jobs, newest first.
pub struct JobWalk;

impl JobWalk {
    const BINDING: [&'static [u8]; 1] = [b"jobs"];

    /// The token of the page after this job.
    pub fn token_after(&self, last: JobId) -> PageToken {
        PageToken::seal(last.to_string().as_bytes(), &Self::BINDING)
    }

    /// The job after which the page of this token starts.
    pub fn resume(&self, token: &str) -> Result<JobId, Invalid> {
        let payload = PageToken::open(token, &Self::BINDING)?;
        let text = std::str::from_utf8(&payload).map_err(|_| damaged_token())?;
        JobId::parse(text).map_err(|_| damaged_token())
    }
}

/// A walk over the audit trail of everything, newest first, with its filter.
pub struct AuditWalk<'a> {
    pub texts: [Option<&'a str>; 3],
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

impl AuditWalk<'_> {
    /// The token of the page after `last`: the revision of a change, or the moment of a refusal in nanoseconds.
    pub fn token_after(&self, last: u64) -> PageToken {
        self.bound(|binding| PageToken::seal(&last.to_be_bytes(), binding))
    }

    /// The number before which the page of this token starts.
    pub fn resume(&self, token: &str) -> Result<u64, Invalid> {
        let payload = self.bound(|binding| PageToken::open(token, binding))?;
        Ok(u64::from_be_bytes(payload.try_into().map_err(|_| damaged_token())?))
    }

    fn bound<T>(&self, with: impl FnOnce(&[&[u8]]) -> T) -> T {
        // Absent is not the same as empty.
        let bounds = format!("{:?} {:?} {:?}", self.texts, self.since, self.until);
        with(&[b"audit", bounds.as_bytes()])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::{Code, Generation, VersionLabel};

    fn list(entity: &str) -> ListKey {
        let id = FeatureId { entity_type: EntityType::new("user").unwrap(), name: FeatureName::new("seen").unwrap() };
        let key = FeatureKey::new(&id, &VersionLabel::default_version(), Generation::FIRST);
        ListKey::new(key, EntityId::new(entity).unwrap())
    }

    fn walk(list: &ListKey, min: Option<u64>) -> ItemWalk<'_> {
        let min_timestamp = min.map(|nanos| Timestamp::from_nanos(nanos).unwrap());
        ItemWalk { list, min_timestamp, max_timestamp: None, as_of: None, order: Order::Newest }
    }

    fn key() -> ItemKey {
        ItemKey::new(Timestamp::from_nanos(5).unwrap(), ValueDigest::of(b"x"))
    }

    #[test]
    fn a_token_returns_its_key() {
        let list = list("u-1");
        let token = walk(&list, Some(3)).token_after(key());
        assert_eq!(walk(&list, Some(3)).resume(token.as_str()), Ok(key()));
    }

    /// A walk must continue after an upgrade.
    #[test]
    fn tokens_of_earlier_releases_are_valid() {
        let token = "AQAAAAAAAAAFndTkYSaMgDT1yFZOFVxnpmiS2EbBlO2wggk8oA";
        let list = list("u-1");
        let sealed = walk(&list, Some(3)).token_after(key());
        assert_eq!(sealed.as_str(), token);
    }

    #[test]
    fn a_token_is_refused_elsewhere() {
        let (here, there) = (list("u-1"), list("u-2"));
        let token = walk(&here, None).token_after(key());
        assert!(walk(&there, None).resume(token.as_str()).is_err());
        assert!(walk(&here, Some(0)).resume(token.as_str()).is_err());
        let swapped = ItemWalk { min_timestamp: None, max_timestamp: Some(Timestamp::MIN), ..walk(&here, None) };
        assert!(swapped.resume(token.as_str()).is_err());
        let reversed = ItemWalk { order: Order::Oldest, ..walk(&here, None) };
        let back_then = |at| ItemWalk { as_of: Some(at), ..walk(&here, None) };
        assert!(back_then(Timestamp::MIN).resume(token.as_str()).is_err());
        let of_then = back_then(Timestamp::MIN).token_after(key());
        assert_eq!(back_then(Timestamp::MIN).resume(of_then.as_str()), Ok(key()));
        assert!(back_then(Timestamp::MAX).resume(of_then.as_str()).is_err());
        assert!(walk(&here, None).resume(of_then.as_str()).is_err());
        assert!(reversed.resume(token.as_str()).is_err());
        let token = reversed.token_after(key());
        assert_eq!(reversed.resume(token.as_str()), Ok(key()));
        assert!(walk(&here, None).resume(token.as_str()).is_err());
    }

    #[test]
    fn every_altered_character_is_detected() {
        let list = list("u-1");
        let token = walk(&list, None).token_after(key()).as_str().to_owned();
        for at in 0..token.len() {
            for other in ["A", "z", "-", "=", " "] {
                let mut forged = token.clone();
                forged.replace_range(at..=at, other);
                if forged != token {
                    let refused = walk(&list, None).resume(&forged).unwrap_err();
                    assert_eq!(refused.code, Code::InvalidPageToken);
                }
            }
            assert!(walk(&list, None).resume(&token[..at]).is_err());
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in any::<String>(), bytes: Vec<u8>) {
            let list = list("u-1");
            prop_assert!(walk(&list, None).resume(&text).is_err());
            prop_assert!(walk(&list, None).resume(&URL_SAFE_NO_PAD.encode(bytes)).is_err());
        }
    }
}
