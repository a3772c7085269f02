//! Replaces `cql.rs` in a program without the store for ScyllaDB and Cassandra, and refuses every use.

use std::sync::Arc;

use prometheus::Registry;

use super::StartError;
use super::steps::Migration;
use crate::config::ItemsSettings;
use crate::domain::Clock;
use crate::items::ItemStore;
use crate::left_out::CQL;

pub(super) async fn open(
    _: &ItemsSettings,
    _: &Arc<dyn Clock>,
    _: &Registry,
) -> Result<Arc<dyn ItemStore>, StartError> {
    Err(CQL.refusal().into())
}

pub(super) async fn check(_: &ItemsSettings) -> Result<String, StartError> {
    Err(CQL.refusal().into())
}

pub(super) async fn migrate(_: &ItemsSettings, _: Migration) -> Result<Vec<String>, StartError> {
    Err(CQL.refusal().into())
}
