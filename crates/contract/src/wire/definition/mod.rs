//! Definitions of features, their versions, entity types and indexes.
//!
//! Each property of a version is declared once, in [`properties`]. [`Feature`] is the document that the metadata stores
//! hold and upgrade. Bodies of requests and replies, the audit trail, files and the catalog carry its parts.

mod document;
pub mod properties;
mod property;

pub use document::{FORMATS, Feature, FeatureVersion, Unreadable, Upgrade};
pub use properties::{GivenProperties, InvalidProperty, VersionProperties};
