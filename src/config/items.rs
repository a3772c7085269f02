//! Settings of the data plane.

use std::path::PathBuf;

use serde::Serialize;

use super::choices::{Fsync, ItemStoreKind};
use super::cql::CqlSettings;
use super::forms::{HOUR_MS, ahead_max};
use super::machine;
use super::reader::{Reader, bytes, choice, number, path};
use super::section::section;
use crate::domain::AheadMax;

section! {
    ItemsSettings "items."
    store: ItemStoreKind = ItemStoreKind::Embedded, choice;
    actors: usize = machine::cores(), number(1..=1_024);
    permits_per_actor: usize = 512, number(1..=1_000_000), first Self::allow_for_cluster;
    permit_wait_ms: u64 = 50, number(0..=60_000);
    operation_timeout_ms: u64 = 2_000, number(1..=HOUR_MS);
    timestamp_ahead_max: AheadMax = AheadMax::DAY, ahead_max;
    aggregate_items_max: u64 = 100_000, number(1..=10_000_000);
    { embedded: EmbeddedSettings, cql: CqlSettings, }
}

impl ItemsSettings {
    /// Permits, and the wait for them, if they limit requests to a cluster. docs/contributing/cql.md has the
    /// measurements: nodes of a cluster pause for longer than the embedded store does.
    const CQL_PERMITS: (usize, u64) = (64, 200);

    fn allow_for_cluster(&mut self) {
        if self.store == ItemStoreKind::Cql {
            (self.permits_per_actor, self.permit_wait_ms) = Self::CQL_PERMITS;
        }
    }
}

section! {
    EmbeddedSettings "items.embedded."
    dir: PathBuf = "liststore-data".into(), path;
    fsync: Fsync = Fsync::Group, choice;
    fsync_interval_ms: u64 = 1_000, number(1..=HOUR_MS);
    erase_within_secs: u64 = 86_400, number(60..=30 * 86_400);
    cache_bytes: usize = machine::memory_bytes() / 8, bytes(4 << 20..=1 << 46);
}
