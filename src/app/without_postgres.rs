//! Replaces `postgres.rs` in a program without the store for Postgres, and refuses every use.

use std::sync::Arc;

use prometheus::Registry;

use super::StartError;
use super::steps::Migration;
use crate::config::MetadataSettings;
use crate::left_out::POSTGRES;
use crate::metadata::MetadataStore;

pub(super) async fn open(_: &MetadataSettings, _: &Registry) -> Result<Arc<dyn MetadataStore>, StartError> {
    Err(POSTGRES.refusal().into())
}

pub(super) async fn check(_: &MetadataSettings) -> Result<String, StartError> {
    Err(POSTGRES.refusal().into())
}

pub(super) async fn migrate(_: &MetadataSettings, _: Migration) -> Result<Vec<String>, StartError> {
    Err(POSTGRES.refusal().into())
}

pub(super) fn database_named(_: &MetadataSettings) -> Result<String, StartError> {
    Err(POSTGRES.refusal().into())
}
