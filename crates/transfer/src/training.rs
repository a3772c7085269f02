//! `liststore export --spine`: a training set, which has for each row of a spine the items that its lists showed at
//! the row's moment, and none that came later.

use std::path::PathBuf;

use liststore_contract::operations::get_feature;
use serde::Serialize;

use super::ExportFormat;
use super::lists::{Asked, CALL_LISTS, first_pages};
use super::progress::Progress;
use super::spine::{Column, Spine, SpineFile, SpineRow};
use super::training_file::{FeatureColumn, TrainingFile};
use crate::client::{Client, Failure, Request, Retries, ServerUrl, known_versions};
use crate::domain::{FeatureId, Limit, VersionLabel};
use crate::import::{NO_ZONE, OPEN_END};
use crate::wire::Feature;

#[derive(Debug)]
pub struct TrainingOptions {
    pub server: ServerUrl,
    pub spine: SpineFile,
    /// All of one entity type; at least one.
    pub features: Vec<FeatureId>,
    pub version: VersionLabel,
    /// Items of each list, at most: its newest of the moment.
    pub limit: Limit,
    /// `-` is standard output.
    pub output: PathBuf,
    pub format: ExportFormat,
}

/// The content of the file.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Joined {
    pub rows: u64,
    pub items: u64,
    /// Signs that the spine was not read as it was meant.
    #[serde(skip)]
    pub warnings: Vec<String>,
}

/// Writes the complete file, or none.
pub async fn join(options: TrainingOptions) -> Result<Joined, Failure> {
    let TrainingOptions { server, spine, features, version, limit, output, format } = options;
    if output.as_os_str() != "-" && output.exists() {
        let name = output.display();
        return Err(Failure::failed(format!("{name} already exists: remove it, or write another file")));
    }
    let client = Client::new(server, None, Retries::PATIENT)?.for_people();
    let mut joining = Vec::with_capacity(features.len());
    for id in features {
        joining.push(definition(&client, id, &version).await?);
    }
    let client = client.with_retries(Retries::PERSISTENT);
    let names = (spine.entity_id.clone(), spine.timestamp.clone());
    let mut spine = Spine::open(spine)?;
    check_names(&names, &spine.columns, &joining)?;
    let mut file = TrainingFile::create(&output, format, &names, &spine.columns, &joining)?;
    let (mut joined, mut progress) = (Joined::default(), Progress::start());
    joined.warnings.extend(spine.open_end.map(|line| spine.failed(line, OPEN_END).to_string()));
    loop {
        let mut rows = Vec::new();
        while rows.len() < (CALL_LISTS / joining.len()).max(1)
            && let Some(row) = spine.next()?
        {
            rows.push(row);
        }
        if rows.is_empty() {
            break;
        }
        let asked: Vec<_> =
            rows.iter().flat_map(|row| joining.iter().map(|f| asked(f, &version, row, limit))).collect();
        let mut pages = Vec::with_capacity(asked.len());
        for some in asked.chunks(CALL_LISTS) {
            let read = first_pages(&client, some).await;
            pages
                .extend(read.map_err(|failure| spine.failed(rows[0].line, &format!("{failure} (or in a later row)")))?);
        }
        for (row, pages) in rows.iter().zip(pages.chunks(joining.len())) {
            file.write(row, pages)?;
            joined.rows += 1;
            joined.items += pages.iter().map(|page| page.items.len() as u64).sum::<u64>();
        }
        progress.add("the training set", pages.iter().map(|page| page.items.len() as u64).sum());
    }
    progress.finish();
    file.finish()?;
    joined.warnings.extend(spine.is_utc_assumed.then(|| NO_ZONE.to_owned()));
    Ok(joined)
}

async fn definition(client: &Client, id: FeatureId, label: &VersionLabel) -> Result<FeatureColumn, Failure> {
    let feature: Feature = client.ask(&Request::of_feature(&get_feature::ROW, &id)).await?;
    let version = feature.versions.iter().find(|version| version.version == label.as_str());
    let version = version.ok_or_else(|| {
        let (label, known) = (label.as_str(), known_versions(&feature));
        Failure::failed(format!("the feature {id} has no version {label:?}: {known}"))
    })?;
    Ok(FeatureColumn { id, value_type: feature.value_type, identity: version.properties.identity })
}

fn check_names(names: &(String, String), columns: &[Column], joining: &[FeatureColumn]) -> Result<(), Failure> {
    let of_spine = [&names.0, &names.1].into_iter().chain(columns.iter().map(|column| &column.name));
    let mut all: Vec<_> = of_spine.map(String::as_str).chain(joining.iter().map(|f| f.id.name.as_str())).collect();
    all.sort_unstable();
    match all.windows(2).find(|two| two[0] == two[1]) {
        None => Ok(()),
        Some(two) => {
            let name = two[0];
            Err(Failure::Usage(format!(
                "two columns would have the name {name:?}: name each feature once, or rename the spine's column"
            )))
        }
    }
}

fn asked<'a>(feature: &'a FeatureColumn, version: &'a VersionLabel, row: &'a SpineRow, limit: Limit) -> Asked<'a> {
    let as_of = Some(row.timestamp.as_nanos());
    Asked { as_of, ..Asked::new(&feature.id, version, row.entity_id.as_str(), limit.get()) }
}
