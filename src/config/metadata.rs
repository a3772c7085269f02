//! Settings of the control plane.

use std::path::PathBuf;

use serde::Serialize;

use super::choices::MetadataStoreKind;
use super::reader::{Reader, choice, number, path, secret, some};
use super::section::section;
use super::texts::Secret;

section! {
    MetadataSettings "metadata."
    store: MetadataStoreKind = MetadataStoreKind::Embedded, choice;
    poll_interval_secs: u64 = 5, number(1..=3_600);
    calls_max: usize = 64, number(1..=100_000);
    call_timeout_ms: u64 = 2_800, number(100..=60_000);
    retry_delay_max_ms: u64 = 2_000, number(100..=60_000);
    look_ups_max: u32 = 5, number(1..=1_000);
    look_up_interval_ms: u64 = 200, number(1..=60_000);
    /// `None`: the catalog is not stored on disk.
    snapshot_dir: Option<PathBuf> = None, some(path);
    snapshot_age_max_secs: u64 = 86_400, number(1..=31_536_000);
    { postgres: PostgresSettings, }
}

section! {
    PostgresSettings "metadata.postgres."
    /// May hold a password, which its `Debug` and `Serialize` mask.
    url: Option<Secret> = None, some(secret);
    /// Instead of `url`; read again for each new connection.
    url_file: Option<PathBuf> = None, some(path);
    connections_max: u32 = 5, number(2..=1_000);
}
