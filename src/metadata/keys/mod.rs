//! API keys in metadata stores: next to the definitions, with the same revisions and the same audit trail.
//!
//! [`change`] decides the effect of a change on a key, the same for every store. Requests never read this store. They
//! look their keys up in memory, where the metadata actor publishes them.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub mod change;
pub mod erasures;
pub mod lineage;
pub mod record;
pub mod server_changes;

use self::erasures::{Erasure, ErasureEntry};
use self::server_changes::{ServerChange, ServerChangeEntry};
use super::{ChangeContext, HistoryEntry, MetadataError, Page};
use crate::domain::{
    ApiKey, Author, FeatureId, KeyId, KeyName, Limit, RateLimits, Revision, Role, Scope, SecretHash, Timestamp,
    VersionLabel,
};

/// The largest number of keys that are not revoked. All are held in memory.
pub const KEYS_MAX: usize = 10_000;

/// A change of a key.
#[derive(Debug, Clone)]
pub enum KeyChange {
    Create {
        id: KeyId,
        hash: SecretHash,
        name: KeyName,
        roles: Vec<Role>,
        scopes: Vec<Scope>,
        limits: RateLimits,
        expires_at: Option<Timestamp>,
    },
    /// Replaces its secret. The previous secret stays valid until `previous_until`.
    Rotate {
        id: KeyId,
        hash: SecretHash,
        previous_until: Timestamp,
        /// The key's new expiry; `None` leaves it unchanged.
        expires_at: Option<Timestamp>,
        /// The latest expiry that the rotation may leave to the key.
        expires_by: Option<Timestamp>,
    },
    /// Makes it permanently invalid. A revoked key stays unchanged.
    Revoke { id: KeyId },
}

/// All keys, including revoked ones, as of one revision.
#[derive(Debug, Clone, Default)]
pub struct Keys {
    pub revision: Revision,
    /// In the order of their IDs.
    pub keys: Vec<ApiKey>,
}

impl Keys {
    /// The revision of the latest change that is included. It is beyond `revision` if a server has made it itself.
    pub fn last_change(&self) -> Revision {
        self.keys.iter().map(|key| key.revision).fold(self.revision, Revision::max)
    }
}

/// The action of a change of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyAction {
    CreateKey,
    RotateKey,
    RevokeKey,
}

impl KeyAction {
    pub const ALL: [Self; 3] = [Self::CreateKey, Self::RotateKey, Self::RevokeKey];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::CreateKey => "create_key",
            Self::RotateKey => "rotate_key",
            Self::RevokeKey => "revoke_key",
        }
    }
}

/// One entry of the audit trail of keys. It contains no secret, and no hash of one.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyHistoryEntry {
    pub revision: Revision,
    pub at: Timestamp,
    pub by: Author,
    pub action: KeyAction,
    pub id: KeyId,
    pub name: KeyName,
    pub before: Option<serde_json::Value>,
    pub after: Option<serde_json::Value>,
}

/// One entry of the complete audit trail.
#[derive(Debug, Clone, PartialEq)]
pub enum AuditEntry {
    Feature(FeatureId, HistoryEntry),
    Key(KeyHistoryEntry),
    Erasure(ErasureEntry),
    Server(ServerChangeEntry),
}

impl AuditEntry {
    pub fn revision(&self) -> Revision {
        match self {
            Self::Feature(_, entry) => entry.revision,
            Self::Key(entry) => entry.revision,
            Self::Erasure(entry) => entry.revision,
            Self::Server(entry) => entry.revision,
        }
    }

    pub fn at(&self) -> Timestamp {
        match self {
            Self::Feature(_, entry) => entry.at,
            Self::Key(entry) => entry.at,
            Self::Erasure(entry) => entry.at,
            Self::Server(entry) => entry.at,
        }
    }

    pub fn by(&self) -> &Author {
        match self {
            Self::Feature(_, entry) => &entry.by,
            Self::Key(entry) => &entry.by,
            Self::Erasure(entry) => &entry.by,
            Self::Server(entry) => &entry.by,
        }
    }

    pub fn action(&self) -> &'static str {
        match self {
            Self::Feature(_, entry) => entry.action.as_str(),
            Self::Key(entry) => entry.action.as_str(),
            Self::Erasure(entry) => entry.erasure.action.as_str(),
            Self::Server(entry) => entry.change.action.as_str(),
        }
    }

    /// The changed part: a feature as `user.seen`, an entity type as `user`, a key as `key:feed`, an entity as
    /// `entity:user/u-123`, a part of a server as `pool`.
    pub fn target(&self) -> String {
        match self {
            Self::Feature(id, _) => id.to_string(),
            Self::Key(entry) => format!("key:{}", entry.name),
            Self::Erasure(entry) => entry.erasure.target.clone(),
            Self::Server(entry) => entry.change.target.clone(),
        }
    }

    pub fn version(&self) -> Option<&VersionLabel> {
        match self {
            Self::Feature(_, entry) => entry.version.as_ref(),
            Self::Key(_) | Self::Erasure(_) | Self::Server(_) => None,
        }
    }

    /// What [`Self::states`] returns, borrowed.
    pub fn states_shown(&self) -> (Option<&serde_json::Value>, Option<&serde_json::Value>) {
        match self {
            Self::Feature(_, HistoryEntry { before, after, .. }) | Self::Key(KeyHistoryEntry { before, after, .. }) => {
                (before.as_ref(), after.as_ref())
            }
            Self::Erasure(entry) => (None, Some(&entry.erasure.details)),
            Self::Server(entry) => (entry.change.before.as_ref(), entry.change.after.as_ref()),
        }
    }

    /// Its states before and after the change.
    pub fn states(self) -> (Option<serde_json::Value>, Option<serde_json::Value>) {
        match self {
            Self::Feature(_, HistoryEntry { before, after, .. }) | Self::Key(KeyHistoryEntry { before, after, .. }) => {
                (before, after)
            }
            Self::Erasure(entry) => (None, Some(entry.erasure.details)),
            Self::Server(entry) => (entry.change.before, entry.change.after),
        }
    }
}

/// A selection of entries of the audit trail.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// The author of the change, or the person that the author named.
    pub by: Option<String>,
    /// The changed part, as [`AuditEntry::target`] writes it.
    pub target: Option<String>,
    pub action: Option<String>,
    /// Inclusive, by the clock of the server that made the change.
    pub since: Option<Timestamp>,
    /// Inclusive.
    pub until: Option<Timestamp>,
}

impl AuditFilter {
    pub fn matches(&self, entry: &AuditEntry) -> bool {
        let by = entry.by();
        self.by.as_deref().is_none_or(|name| by.as_str() == name || by.behalf() == Some(name))
            && self.target.as_ref().is_none_or(|target| entry.target() == *target)
            && self.action.as_deref().is_none_or(|action| entry.action() == action)
            && self.since.is_none_or(|since| entry.at() >= since)
            && self.until.is_none_or(|until| entry.at() <= until)
    }
}

/// A page of the audit trail.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AuditPage {
    pub entries: Vec<AuditEntry>,
    /// More entries may follow strictly before this revision; `None` at the end. A page that examined many entries may
    /// have few or none, and not be the last.
    pub next: Option<Revision>,
}

/// Entries that one page examines at most. A page that finds few ends there, and returns where the next page begins.
pub(crate) const AUDIT_SCANNED_MAX: usize = 10_000;

impl AuditPage {
    /// A page of the matches among the examined entries. Entries older than `scanned_from` may follow.
    pub(crate) fn of(Page { entries, more }: Page<AuditEntry>, scanned_from: Option<Revision>) -> Self {
        let next = if more { entries.last().map(AuditEntry::revision) } else { scanned_from };
        Self { entries, next }
    }
}

/// Storage of keys, and of the complete audit trail.
#[async_trait]
pub trait AccessStore: Send + Sync + 'static {
    /// All keys; `None` if nothing has changed since the revision `known`. For readings in the background, which may
    /// wait longer for a slow store than a caller would.
    async fn keys(&self, known: Option<Revision>) -> Result<Option<Keys>, MetadataError>;

    /// All keys, for a caller that waits.
    async fn all_keys(&self) -> Result<Vec<ApiKey>, MetadataError> {
        Ok(self.keys(None).await?.map(|keys| keys.keys).unwrap_or_default())
    }

    /// Makes a change in one transaction with its audit entry, and returns the resulting key. It takes the next
    /// revision of the store, unless it has no effect.
    async fn change_key(&self, change: KeyChange, context: ChangeContext) -> Result<ApiKey, MetadataError>;

    /// Notes when keys were last used, without a revision. Ignores moments before the stored one, and unknown keys.
    async fn note_uses(&self, uses: &[(KeyId, Timestamp)]) -> Result<(), MetadataError>;

    /// Notes an erasure in the audit trail. It takes the next revision of the store.
    async fn note_erasure(&self, erasure: Erasure, context: ChangeContext) -> Result<ErasureEntry, MetadataError>;

    /// Notes a change of a server, in the audit trail. It takes the next revision of the store.
    async fn note_server_change(
        &self,
        change: ServerChange,
        context: ChangeContext,
    ) -> Result<ServerChangeEntry, MetadataError>;

    /// The audit trail of definitions, keys, erasures and servers, newest first, strictly before the revision `before`.
    /// Its cost is bounded, regardless of the length of the trail.
    async fn audit(
        &self,
        filter: &AuditFilter,
        before: Option<Revision>,
        page_size: Limit,
    ) -> Result<AuditPage, MetadataError>;
}
