//! The words of the product as types: pure values and arithmetic, no I/O and no framework.
//!
//! Every type is parsed once, at the edge, by its one fallible constructor; past it, nothing is
//! checked twice. This module must never name actix, scylla, sqlx or a storage engine.

pub mod access_log;
pub mod ahead_max;
pub mod api_key;
pub mod bucket;
pub mod clock;
pub mod document;
pub mod entity;
pub mod feature;
pub mod feature_key;
pub mod format;
pub mod identity;
pub mod index;
pub mod int64_as;
pub mod invalid;
pub mod item;
pub mod item_key;
pub mod job_id;
pub mod json;
pub mod key_form;
pub mod list;
pub mod log_mark;
mod md5_lanes;
pub mod page;
pub mod rate;
pub mod retention;
pub mod scope;
pub mod store_id;
pub mod timestamp;
pub mod token;
pub mod ttl;
pub mod value;

pub use access_log::AccessLog;
pub use ahead_max::AheadMax;
pub use api_key::{ApiKey, KeyId, KeyName, KeyState, PreviousSecret, SecretHash};
pub use bucket::Bucket;
pub use clock::{Clock, ManualClock, SystemClock};
pub use document::{Document, Property};
pub use entity::{EntityId, EntityType};
pub use feature::{Author, Description, FeatureId, FeatureName, Generation, Labels, Owner, Revision, VersionLabel};
pub use feature_key::FeatureKey;
pub use format::{FormatError, Formats};
pub use identity::{Identity, IdentityKind, Keep, MemberKey};
pub use index::{Index, IndexSpec};
pub use int64_as::Int64As;
pub use invalid::{Code, Invalid};
pub use item::{ADD_ITEMS_MAX, Item, NAMED_ITEMS_MAX, NewItem, Order};
pub use item_key::{ItemKey, ValueDigest};
pub use job_id::JobId;
pub use list::{ListKey, ListKeyRef, ListKeys};
pub use log_mark::LogMark;
pub use page::{Limit, PageToken};
pub use rate::{Rate, RateLimits};
pub use retention::{MaxItems, Retention};
pub use scope::{Role, Scope};
pub use store_id::{Belonging, StoreId};
pub use timestamp::{Rfc3339Writer, Timestamp, TimestampUnit};
pub use token::Token;
pub use ttl::{Admission, Ttl};
pub use value::{JsonForm, Value, ValueType};
