//! Lists: all items of one (entity type, feature name, feature version, entity ID).

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;

use super::{Bucket, EntityId, FeatureKey, Identity, Token};

/// Enough for nearly all keys: they are built without a further allocation.
const USUAL_BYTES: usize = 128;

/// The partition key of a list, with its token: it is hashed when it is made, and never again.
#[derive(Debug, Clone)]
pub struct ListKey {
    pub feature_key: FeatureKey,
    pub entity_id: EntityId,
    bytes: Arc<[u8]>,
    token: Token,
}

/// The bytes of a list's key, with their token, borrowed for reading.
#[derive(Debug, Clone, Copy)]
pub struct ListKeyRef<'k> {
    pub bytes: &'k [u8],
    pub token: Token,
}

/// Puts the keys of lists of one feature version together, one after the other in the same memory.
#[derive(Debug)]
pub struct ListKeys {
    bytes: SmallVec<[u8; USUAL_BYTES]>,
    /// Where entity IDs begin.
    entity_at: usize,
}

impl ListKeys {
    #[inline]
    pub fn of(feature_key: &FeatureKey) -> Self {
        let mut bytes = SmallVec::from_slice(feature_key.as_str().as_bytes());
        bytes.push(0);
        Self { entity_at: bytes.len(), bytes }
    }

    /// The key of an entity's list by the text of its ID. If the text is none of an ID, there is no such list.
    #[inline]
    pub fn key(&mut self, entity_id: &[u8]) -> ListKeyRef<'_> {
        self.bytes.truncate(self.entity_at);
        self.bytes.extend_from_slice(entity_id);
        ListKeyRef { bytes: &self.bytes, token: Token::of_bytes(&self.bytes) }
    }
}

impl ListKey {
    #[inline]
    pub fn new(feature_key: FeatureKey, entity_id: EntityId) -> Self {
        let mut keys = ListKeys::of(&feature_key);
        let ListKeyRef { bytes, token } = keys.key(entity_id.as_str().as_bytes());
        let bytes = bytes.into();
        Self { feature_key, entity_id, bytes, token }
    }

    #[inline]
    pub fn borrowed(&self) -> ListKeyRef<'_> {
        ListKeyRef { bytes: &self.bytes, token: self.token }
    }

    /// The list's identity: feature key, a zero byte, entity ID. Neither part has a zero byte, so that
    /// two lists never share their bytes.
    #[inline]
    pub fn bytes(&self) -> &Arc<[u8]> {
        &self.bytes
    }

    /// The property that distinguishes the list's items.
    #[inline]
    pub fn identity(&self) -> Identity {
        self.feature_key.identity()
    }

    /// The buckets into which a store may divide it.
    #[inline]
    pub fn bucket(&self) -> Option<Bucket> {
        self.feature_key.bucket()
    }

    /// The token of [`Self::bytes`]: it picks the list's actor, and its place in the embedded store.
    #[inline]
    pub fn token(&self) -> Token {
        self.token
    }
}

impl PartialEq for ListKey {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.token == other.token && self.bytes == other.bytes
    }
}

impl Eq for ListKey {}

impl Hash for ListKey {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_i64(self.token.as_i64());
    }
}
