//! Maintenance of stores without a running server: `liststore check` and `liststore migrate`.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use super::agreement::compare;
use super::signals::Signals;
use super::steps::{Migration, needs_none};
use super::stores::{are_built, new_store_id, parts_here};
use super::{StartError, cql, postgres};
use crate::config::{ItemStoreKind, MetadataStoreKind, Settings};
use crate::data_dir::{self, DataDirError, Part, Plan};
use crate::items::embedded::{self, RealDisk};
use crate::metadata;

/// The findings about one part of the application, one line each.
#[derive(Debug)]
pub struct Finding {
    /// `data`, `items`, `log`, `metadata`, `agreement` or `http`.
    pub part: &'static str,
    /// A description of the part, or the reason why `serve` would not start or not become ready.
    pub outcome: Result<String, StartError>,
}

/// Checks each store and the address as `serve` would, and reports each finding immediately. It creates and changes
/// nothing.
pub async fn check(settings: &Settings, mut report: impl FnMut(Finding)) {
    let mut report = |part, outcome| report(Finding { part, outcome });
    let parts = parts_here(settings);
    let plan = Plan::make(&RealDisk, &settings.items.embedded.dir, &parts, new_store_id());
    let plan = plan.map_err(|error| report("data", Err(error.into()))).ok();
    report("items", items(settings, plan.as_ref()).await);
    report("metadata", metadata(settings, plan.as_ref()).await);
    report("http", http(settings));
}

/// Reads the whole content of the embedded stores in a data directory, and reports each finding immediately. It changes
/// nothing. Returns whether a server uses the directory, so that its content cannot be checked.
pub fn verify(dir: &Path, mut report: impl FnMut(Finding)) -> bool {
    let mut report = |part, outcome| report(Finding { part, outcome });
    let belongs = |part, path: PathBuf, found| match data_dir::expected(&RealDisk, dir, part) {
        Ok(Some(expected)) if found != Some(expected) => {
            Err(StartError::from(DataDirError::Mixed { path, found, other: dir.to_owned(), expected }))
        }
        Ok(_) => Ok(()),
        Err(error) => Err(error.into()),
    };
    let (mut stored, mut is_in_use) = (None, false);
    match embedded::verify(dir) {
        Ok(found) => {
            stored = found.problems.is_empty().then_some(found.feature_keys);
            if let Err(error) = belongs(Part::Items, dir.join("items"), found.store) {
                report("items", Err(error));
            }
            report(
                "items",
                Ok(format!(
                    "{} data files, {} bytes: {} items, {} of them tombstones",
                    found.data_files, found.data_bytes, found.items, found.deleted
                )),
            );
            report(
                "log",
                Ok(format!(
                    "{} segments: {} changes with {} items not yet flushed to data files",
                    found.log_segments, found.log_changes, found.log_items
                )),
            );
            for problem in found.problems {
                report("items", Err(StartError::Items(problem.to_string())));
            }
        }
        Err(error) => {
            is_in_use |= matches!(error, embedded::OpenError::Locked { .. });
            report("items", Err(StartError::Items(error.to_string())));
        }
    }
    let mut metadata = None;
    report(
        "metadata",
        match metadata::embedded::verify(dir) {
            Ok(Some(found)) => {
                let line = format!("{} features, {} changes in their history", found.features, found.changes);
                let belongs = belongs(Part::Metadata, dir.join(metadata::embedded::FILE_NAME), found.store);
                metadata = Some(found).filter(|_| belongs.is_ok());
                belongs.map(|()| line)
            }
            Ok(None) => missing_definitions(dir),
            Err(error) => {
                is_in_use |= matches!(error, metadata::embedded::OpenError::Locked { .. });
                Err(StartError::Metadata(error.to_string()))
            }
        },
    );
    if let (Some(stored), Some(found)) = (stored, metadata) {
        for outcome in agreement(dir, &stored, &found) {
            report("agreement", outcome);
        }
    }
    is_in_use
}

/// Compares both parts. Returns lines of counts, followed by the disagreements.
fn agreement(
    dir: &Path,
    stored: &BTreeSet<String>,
    found: &metadata::embedded::Verified,
) -> Vec<Result<String, StartError>> {
    let compared = match compare(dir, found, stored) {
        Ok(compared) => compared,
        Err(error) => return vec![Err(error)],
    };
    let mut lines = vec![Ok(format!("{} ready indexes, {} finished jobs", compared.indexes, compared.jobs))];
    let unended = |target: &String| Ok(format!("unfinished erasure: {target}; erase it again"));
    lines.extend(found.unended.iter().map(unended));
    lines.extend(compared.problems.into_iter().map(|problem| Err(StartError::Disagree(problem))));
    lines
}

/// A data directory without definitions is correct only if it needs none.
fn missing_definitions(dir: &Path) -> Result<String, StartError> {
    match data_dir::expected(&RealDisk, dir, Part::Metadata)? {
        Some(_) => {
            let path = dir.join(metadata::embedded::FILE_NAME);
            let why = "this store includes them".to_owned();
            Err(DataDirError::Missing { path, why }.into())
        }
        None => Ok("no definitions in this directory: they must be stored elsewhere".to_owned()),
    }
}

const NOT_TO_BE_BEGUN: &str = "the directory is empty and no store would be created: see above";

/// The finding about a part that a start would create.
fn nothing_there(line: &str, plan: Option<&Plan>) -> Option<String> {
    plan.is_some().then(|| format!("{line}: empty"))
}

/// The effect of a start on the items in the data directory. Without a plan it would refuse them all.
fn embedded_items(settings: &Settings, plan: Option<&Plan>) -> Result<String, StartError> {
    let failed = |error: embedded::OpenError| StartError::Items(error.to_string());
    let embedded = &settings.items.embedded;
    let found = embedded::peek(&RealDisk, &embedded.dir).map_err(failed)?;
    let line = format!("embedded store in {}, fsync {}", embedded.dir.display(), embedded.fsync);
    if found.is_none() {
        return nothing_there(&line, plan).ok_or_else(|| StartError::Items(NOT_TO_BE_BEGUN.to_owned()));
    }
    let found = embedded::inspect(&embedded.dir).map_err(failed)?;
    plan.map_or(Ok(()), |plan| plan.check(Part::Items, found))?;
    Ok(line)
}

fn embedded_metadata(settings: &Settings, plan: Option<&Plan>) -> Result<String, StartError> {
    let dir = &settings.items.embedded.dir;
    let found = metadata::embedded::verify(dir).map_err(|error| StartError::Metadata(error.to_string()))?;
    let line = format!("embedded store in {}", dir.display());
    let Some(found) = found else {
        return nothing_there(&line, plan).ok_or_else(|| StartError::Metadata(NOT_TO_BE_BEGUN.to_owned()));
    };
    plan.map_or(Ok(()), |plan| plan.check(Part::Metadata, found.store))?;
    Ok(line)
}

async fn items(settings: &Settings, plan: Option<&Plan>) -> Result<String, StartError> {
    match settings.items.store {
        ItemStoreKind::Cql => cql::check(&settings.items).await,
        ItemStoreKind::Embedded => embedded_items(settings, plan),
        other @ ItemStoreKind::Memory => Ok(format!("{other} store")),
    }
}

async fn metadata(settings: &Settings, plan: Option<&Plan>) -> Result<String, StartError> {
    match settings.metadata.store {
        MetadataStoreKind::Postgres => postgres::check(&settings.metadata).await,
        MetadataStoreKind::Embedded => embedded_metadata(settings, plan),
        other @ MetadataStoreKind::Memory => Ok(format!("{other} store")),
    }
}

fn http(settings: &Settings) -> Result<String, StartError> {
    let address = settings.http.listen.to_string();
    match TcpListener::bind(&address) {
        Ok(_) => Ok(format!("{address} is available")),
        Err(source) => Err(StartError::Bind { address, source }),
    }
}

/// Migrates the schemas, or reports the necessary steps in a dry run. Returns a line for each step, and for each store
/// without a schema.
pub async fn migrate(settings: &Settings, how: Migration) -> Result<Vec<String>, StartError> {
    are_built(settings)?;
    let mut signals = Signals::listen().map_err(StartError::Signals)?;
    tokio::select! {
        done = migrate_stores(settings, how) => done,
        () = signals.next() => Err(StartError::MigrationStopped),
    }
}

async fn migrate_stores(settings: &Settings, how: Migration) -> Result<Vec<String>, StartError> {
    let mut lines = match settings.items.store {
        ItemStoreKind::Cql => cql::migrate(&settings.items, how).await?,
        kind => vec![needs_none("items", kind.as_str())],
    };
    match settings.metadata.store {
        MetadataStoreKind::Postgres => lines.extend(postgres::migrate(&settings.metadata, how).await?),
        kind => lines.push(needs_none("metadata", kind.as_str())),
    }
    Ok(lines)
}
