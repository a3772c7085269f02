//! What is done to the stores without serving: `liststore check` and `liststore migrate`.

use std::net::TcpListener;
use std::sync::Arc;

use super::{StartError, Stores};
use crate::config::{ItemStoreKind, MetadataStoreKind, Settings};
use crate::domain::{Clock, SystemClock};

/// What was found of one part of the application, in a line each.
#[derive(Debug)]
pub struct Finding {
    /// `items`, `metadata` or `http`.
    pub part: &'static str,
    /// What there is, or why `serve` would not start.
    pub outcome: Result<String, StartError>,
}

/// Opens each store and the address as `serve` would, tells what it found, and closes them again.
pub async fn check(settings: &Settings) -> Vec<Finding> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let mut findings = Vec::new();
    match Stores::open(settings, &clock).await {
        Ok(stores) => {
            let closed = stores.items.close().await.map_err(|e| StartError::Items(e.to_string()));
            stores.metadata.close().await;
            findings.push(Finding { part: "items", outcome: closed.map(|()| items(settings)) });
            findings.push(Finding { part: "metadata", outcome: Ok(metadata(settings)) });
        }
        Err(error) => {
            let part = if matches!(error, StartError::Items(_)) { "items" } else { "metadata" };
            findings.push(Finding { part, outcome: Err(error) });
        }
    }
    findings.push(Finding { part: "http", outcome: http(settings) });
    findings
}

fn items(settings: &Settings) -> String {
    let embedded = &settings.items.embedded;
    match settings.items.store {
        ItemStoreKind::Embedded => format!("embedded store in {}, fsync {}", embedded.dir.display(), embedded.fsync),
        other => format!("{other} store"),
    }
}

fn metadata(settings: &Settings) -> String {
    match settings.metadata.store {
        MetadataStoreKind::Embedded => format!("embedded store in {}", settings.items.embedded.dir.display()),
        other => format!("{other} store"),
    }
}

fn http(settings: &Settings) -> Result<String, StartError> {
    let address = settings.http.listen.to_string();
    match TcpListener::bind(&address) {
        Ok(_) => Ok(format!("{address} can be listened on")),
        Err(source) => Err(StartError::Bind { address, source }),
    }
}

/// Brings the schemas up to date, or, in a dry run, tells what that would take. Answers with a
/// line for each step and each store that needs none.
pub async fn migrate(settings: &Settings, _dry_run: bool) -> Result<Vec<String>, StartError> {
    let items = match settings.items.store {
        ItemStoreKind::Embedded | ItemStoreKind::Memory => needs_none("items", settings.items.store.as_str()),
        other @ ItemStoreKind::Cql => return Err(StartError::Items(format!("items.store = {other}"))),
    };
    let metadata = match settings.metadata.store {
        MetadataStoreKind::Embedded | MetadataStoreKind::Memory => {
            needs_none("metadata", settings.metadata.store.as_str())
        }
        other @ MetadataStoreKind::Postgres => return Err(StartError::Metadata(format!("metadata.store = {other}"))),
    };
    Ok(vec![items, metadata])
}

fn needs_none(plane: &str, kind: &str) -> String {
    format!("{plane}: the {kind} store needs no migration")
}
