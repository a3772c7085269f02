//! `liststore copy`: definitions and items from one server to another, or from one version of a feature to another,
//! compared at the end.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::adder::Adder;
use super::definitions::{self, Version};
use super::digest::{Digest, Digesting};
use super::progress::Progress;
use super::source::Source;
use super::state::StateFile;
use crate::client::{Client, Failure, OptionNames, Retries, ServerUrl};
use crate::domain::{Clock, EntityType, FeatureName, SystemClock, Timestamp, VersionLabel};

/// Items that expire within this part of a version's TTL, and within this time, are not compared. They may expire on
/// one server before the other is read.
const MARGIN_PART: u64 = 20;
const MARGIN_NANOS_MAX: u64 = 3_600_000_000_000;

#[derive(Debug)]
pub struct CopyOptions {
    pub from: ServerUrl,
    pub to: ServerUrl,
    pub entity_type: Option<EntityType>,
    pub feature: Option<FeatureName>,
    /// Only this version of the feature, which is named, and to which version there, if that is another one.
    pub version: Option<(VersionLabel, VersionLabel)>,
    /// The file with the progress of the run.
    pub state: Option<PathBuf>,
}

/// The outcome of one feature version.
#[derive(Debug, Clone, Serialize)]
pub struct Copied {
    pub feature: String,
    pub version: String,
    /// Items that this run sent and the target stored, including items that it already had.
    pub copied: u64,
    pub already_expired: u64,
    pub from: Digest,
    pub to: Digest,
}

impl Copied {
    pub fn is_alike(&self) -> bool {
        self.from == self.to
    }
}

/// The completed versions, and the current one with the place where its walk continues.
#[derive(Debug, Default, Serialize, Deserialize)]
struct State {
    done: Vec<(String, String)>,
    begun: Option<Begun>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Begun {
    version: (String, String),
    page_token: String,
}

/// Copies, and compares everything that this run and earlier ones copied.
pub async fn copy(options: CopyOptions) -> Result<Vec<Copied>, Failure> {
    let CopyOptions { from, to, entity_type, feature, version, state } = options;
    let run = match &version {
        None => format!("the copy from {from} to {to}"),
        Some((label, to_label)) => format!("the copy from {from}, version {label:?}, to {to}, version {to_label:?}"),
    };
    let (from, to) = clients(from, to)?;
    let mut versions = Vec::new();
    for feature in definitions::features(&from, entity_type.as_ref(), feature.as_ref()).await? {
        versions.extend(match &version {
            None => definitions::bring(&to, &feature).await?,
            Some((label, to_label)) => vec![definitions::pair(&to, &feature, label, to_label).await?],
        });
    }
    if let (true, Some(entity_type)) = (versions.is_empty(), &entity_type) {
        return Err(Failure::failed(format!(
            "the server to copy from has no feature of the entity type {entity_type}"
        )));
    }
    let servers = (from.with_retries(Retries::PERSISTENT), to.with_retries(Retries::PERSISTENT));
    let state_file = state.map(|path| StateFile::new(path, run));
    let kept: Option<State> = state_file.as_ref().map(StateFile::read).transpose()?.flatten();
    let mut state = kept.unwrap_or_default();
    let mut progress = Progress::start();
    let mut counts = Vec::with_capacity(versions.len());
    for version in &versions {
        let name = (version.feature.to_string(), version.label.to_string());
        if state.done.contains(&name) {
            counts.push((0, 0));
            continue;
        }
        counts.push(items(&servers, version, &mut state, state_file.as_ref(), &mut progress).await?);
        state.done.push(name);
        state_file.as_ref().map_or(Ok(()), |file| file.write(&state))?;
    }
    let mut all = Vec::with_capacity(versions.len());
    for (version, (copied, already_expired)) in versions.iter().zip(counts) {
        let (from, to) = compare(&servers, version, &mut progress).await?;
        let (feature, version) = (version.feature.to_string(), version.label.to_string());
        all.push(Copied { feature, version, copied, already_expired, from, to });
    }
    progress.finish();
    state_file.as_ref().map_or(Ok(()), StateFile::remove)?;
    Ok(all)
}

/// Clients of the source and the target of a copy.
pub(super) fn clients(from: ServerUrl, to: ServerUrl) -> Result<(Client, Client), Failure> {
    let source =
        OptionNames { role: Some("the source"), url: "--from", key: "--from-token-file FILE", knows_names: true };
    // The copy itself creates what is missing there.
    let target = OptionNames { role: Some("the target"), url: "--to", key: "--to-token-file FILE", knows_names: false };
    let client = |url, options| Ok::<_, Failure>(Client::new(url, None, Retries::PATIENT)?.with_options(options));
    Ok((client(from, source)?, client(to, target)?))
}

/// Copies the items of a version. Adding an item again changes nothing, so an interrupted part is copied again.
async fn items(
    (from, to): &(Client, Client),
    version: &Version,
    state: &mut State,
    state_file: Option<&StateFile>,
    progress: &mut Progress,
) -> Result<(u64, u64), Failure> {
    let Version { feature, label, to_label, .. } = version;
    let source = Source { client: from, feature, version: label, min_timestamp: None, as_of: None };
    let mut adder = Adder::new(to, feature, to_label);
    let version = (feature.to_string(), label.to_string());
    // Another interrupted version starts again in its turn: features may have been added since.
    let mut page_token = state.begun.take().filter(|begun| begun.version == version).map(|begun| begun.page_token);
    loop {
        let before = adder.added;
        page_token = source.part(page_token.as_deref(), &mut adder).await?;
        adder.flush().await?;
        progress.add(&format!("copying {feature}"), adder.added - before);
        let Some(page_token) = page_token.clone() else { return Ok((adder.added, adder.already_expired)) };
        state.begun = Some(Begun { version: version.clone(), page_token });
        state_file.map_or(Ok(()), |file| file.write(state))?;
    }
}

/// The items of a version on both servers, without items that are about to expire.
async fn compare(
    (from, to): &(Client, Client),
    version: &Version,
    progress: &mut Progress,
) -> Result<(Digest, Digest), Failure> {
    let Version { feature, label, to_label, ttl } = version;
    let margin = (ttl.as_secs() * 1_000_000_000 / MARGIN_PART).min(MARGIN_NANOS_MAX);
    let oldest = ttl.visible_from(SystemClock.now()).as_nanos().saturating_add(margin);
    let min_timestamp = Timestamp::from_nanos(oldest).ok();
    let mut digests = Vec::with_capacity(2);
    for (client, version) in [(from, label), (to, to_label)] {
        let source = Source { client, feature, version, min_timestamp, as_of: None };
        let (mut digesting, mut page_token) = (Digesting::default(), None);
        loop {
            let before = digesting.digest.items;
            page_token = source.part(page_token.as_deref(), &mut digesting).await?;
            progress.add(&format!("comparing {feature}"), digesting.digest.items - before);
            if page_token.is_none() {
                break;
            }
        }
        digests.push(digesting.digest);
    }
    let to = digests.pop().unwrap_or_default();
    Ok((digests.pop().unwrap_or_default(), to))
}
