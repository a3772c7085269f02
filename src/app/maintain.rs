//! What is done to the stores without serving: `liststore check` and `liststore migrate`.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

use prometheus::Registry;

use super::stores::{open_items, open_metadata};
use super::{StartError, options};
use crate::config::{ItemStoreKind, MetadataStoreKind, Settings};
use crate::domain::{Clock, SystemClock};
use crate::items::{cql, embedded};
use crate::metadata::{self, postgres};

/// What was found of one part of the application, in a line each.
#[derive(Debug)]
pub struct Finding {
    /// `items`, `log`, `metadata` or `http`.
    pub part: &'static str,
    /// What there is, or why `serve` would not start.
    pub outcome: Result<String, StartError>,
}

/// Opens each store and the address as `serve` would, tells what it found, and closes them again.
pub async fn check(settings: &Settings) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut look = |part, outcome| findings.push(Finding { part, outcome });
    look("items", items(settings).await);
    look("metadata", metadata(settings).await);
    look("http", http(settings));
    findings
}

/// Reads all that the embedded stores keep in a data directory, which no server may be using, and
/// tells what it found. Changes nothing.
pub fn verify(dir: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut look = |part, outcome| findings.push(Finding { part, outcome });
    match embedded::verify(dir) {
        Ok(found) => {
            look(
                "items",
                Ok(format!(
                    "{} data files, {} bytes: {} items, {} of them deletion marks",
                    found.data_files, found.data_bytes, found.items, found.deleted
                )),
            );
            look(
                "log",
                Ok(format!(
                    "{} segments: {} changes with {} items that are not in data files yet",
                    found.log_segments, found.log_changes, found.log_items
                )),
            );
            for problem in found.problems {
                look("items", Err(StartError::Items(problem.to_string())));
            }
        }
        Err(error) => look("items", Err(StartError::Items(error.to_string()))),
    }
    look(
        "metadata",
        match metadata::embedded::verify(dir) {
            Ok(Some(found)) => Ok(format!("{} features, {} changes in their history", found.features, found.changes)),
            Ok(None) => Ok("no definitions here: they must be elsewhere".to_owned()),
            Err(error) => Err(StartError::Metadata(error.to_string())),
        },
    );
    findings
}

async fn items(settings: &Settings) -> Result<String, StartError> {
    match settings.items.store {
        ItemStoreKind::Cql => {
            let found = cql::inspect(&options::cql(&settings.items.cql)).await;
            let found = found.map_err(|error| StartError::Items(error.to_string()))?;
            if found.problems.is_empty() {
                Ok(cluster(&found, settings.items.actors))
            } else {
                Err(StartError::Items(format!(
                    "{}; {}",
                    found.problems.join("; "),
                    cluster(&found, settings.items.actors)
                )))
            }
        }
        kind => {
            let clock: Arc<dyn Clock> = Arc::new(SystemClock);
            let store = open_items(settings, &clock, &Registry::new()).await?;
            store.close().await.map_err(|error| StartError::Items(error.to_string()))?;
            let embedded = &settings.items.embedded;
            Ok(match kind {
                ItemStoreKind::Embedded => {
                    format!("embedded store in {}, fsync {}", embedded.dir.display(), embedded.fsync)
                }
                other => format!("{other} store"),
            })
        }
    }
}

/// A cluster in one line: dialect, nodes with releases and shards, replicas, schema, connections.
fn cluster(found: &cql::Inspection, actors: usize) -> String {
    let nodes = found.nodes.iter().map(|node| {
        let release = node.release.as_deref().unwrap_or("no answer");
        format!("{} ({}, rack {}, {release}, {} shards)", node.address, node.datacenter, node.rack, node.shards)
    });
    format!(
        "{} cluster \"{}\": {}; datacenter {}, {} replicas{}; {}; {} connections for {actors} actors",
        found.dialect,
        found.cluster_name,
        nodes.collect::<Vec<_>>().join(", "),
        found.datacenter,
        found.replicas.map_or_else(|| "unknown".to_owned(), |replicas| replicas.to_string()),
        if found.tablets { ", tablets" } else { "" },
        found.schema,
        found.connections * actors as u64,
    )
}

async fn metadata(settings: &Settings) -> Result<String, StartError> {
    let failed = |error: String| StartError::Metadata(error);
    match settings.metadata.store {
        MetadataStoreKind::Postgres => {
            let found = postgres::inspect(&options::postgres(&settings.metadata).url).await;
            let found = found.map_err(|error| failed(error.to_string()))?;
            let line = format!("postgres {}, database \"{}\": {}", found.server_version, found.database, found.schema);
            if found.schema.is_current() { Ok(line) } else { Err(failed(line)) }
        }
        kind => {
            open_metadata(settings, &Registry::new()).await?.close().await;
            Ok(match kind {
                MetadataStoreKind::Embedded => {
                    format!("embedded store in {}", settings.items.embedded.dir.display())
                }
                other => format!("{other} store"),
            })
        }
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
pub async fn migrate(settings: &Settings, dry_run: bool) -> Result<Vec<String>, StartError> {
    let mut lines = Vec::new();
    match settings.items.store {
        ItemStoreKind::Cql => {
            let report = cql::migrate(&options::cql(&settings.items.cql), dry_run).await;
            let report = report.map_err(|error| StartError::Items(error.to_string()))?;
            let steps = report.steps.iter().map(|step| step.name.clone()).collect();
            lines.extend(steps_taken("items", &format!("{} schema", report.dialect), steps, dry_run));
            lines.extend(report.notes.iter().map(|note| format!("items: note: {note}")));
        }
        kind => lines.push(needs_none("items", kind.as_str())),
    }
    match settings.metadata.store {
        MetadataStoreKind::Postgres => {
            let report = postgres::migrate(&options::postgres(&settings.metadata).url, dry_run).await;
            let report = report.map_err(|error| StartError::Metadata(error.to_string()))?;
            let steps = report.steps.iter().map(|step| format!("{:04} {}", step.version, step.description)).collect();
            lines.extend(steps_taken("metadata", "postgres schema", steps, dry_run));
        }
        kind => lines.push(needs_none("metadata", kind.as_str())),
    }
    Ok(lines)
}

fn steps_taken(plane: &str, schema: &str, steps: Vec<String>, dry_run: bool) -> Vec<String> {
    if steps.is_empty() {
        return vec![format!("{plane}: the {schema} is up to date")];
    }
    let done = if dry_run { "would apply" } else { "applied" };
    steps.into_iter().map(|step| format!("{plane}: {done} {step} ({schema})")).collect()
}

fn needs_none(plane: &str, kind: &str) -> String {
    format!("{plane}: the {kind} store needs no migration")
}
