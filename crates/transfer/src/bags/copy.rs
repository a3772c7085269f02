//! The bags of an entity type from one server to another, compared at the end.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use super::definitions::{Brought, bring};
use super::source;
use crate::client::{Client, Failure, Retries, ServerUrl};
use crate::copy::clients;
use crate::domain::EntityType;
use crate::progress::Progress;
use crate::state::StateFile;

#[derive(Debug)]
pub struct CopyBagsOptions {
    pub from: ServerUrl,
    pub to: ServerUrl,
    pub entity_type: EntityType,
    /// The file with the progress of the run.
    pub state: Option<PathBuf>,
}

/// The digest of one server: equal bags make equal numbers, in any order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BagDigest {
    pub bags: u64,
    /// The sum of the hashes of all bags.
    pub checksum: u64,
}

/// The outcome of a copy.
#[derive(Debug, Clone, Serialize)]
pub struct CopiedBags {
    pub entity_type: String,
    #[serde(flatten)]
    pub brought: Brought,
    pub copied: u64,
    pub from: BagDigest,
    pub to: BagDigest,
}

impl CopiedBags {
    pub fn is_alike(&self) -> bool {
        self.from == self.to
    }
}

/// The number of copied bags, and where the walk continues; `None` at its end.
#[derive(Default, Serialize, Deserialize)]
struct State {
    copied: u64,
    page_token: Option<String>,
}

/// Copies, and compares all bags of both servers. The entity type and its indexes are created there, if they are
/// missing.
pub async fn copy(options: CopyBagsOptions) -> Result<CopiedBags, Failure> {
    let CopyBagsOptions { from, to, entity_type, state } = options;
    let run = format!("the copy of the bags of {entity_type} from {from} to {to}");
    let (from, to) = clients(from, to)?;
    let brought = bring(&from, &to, &entity_type).await?;
    let (from, to) = (from.with_retries(Retries::PERSISTENT), to.with_retries(Retries::PERSISTENT));
    let state_file = state.map(|path| StateFile::new(path, run));
    let kept: Option<State> = state_file.as_ref().map(StateFile::read).transpose()?.flatten();
    let mut state = kept.unwrap_or_default();
    let mut progress = Progress::start();
    loop {
        let (bags, next) = source::part(&from, &entity_type, state.page_token.as_deref()).await?;
        let count = bags.len() as u64;
        source::write(&to, &entity_type, bags).await?;
        progress.add(&format!("copying {entity_type}"), count);
        state.copied += count;
        state.page_token = next;
        if state.page_token.is_none() {
            break;
        }
        state_file.as_ref().map_or(Ok(()), |file| file.write(&state))?;
    }
    let digests = (digest(&from, &entity_type, &mut progress).await?, digest(&to, &entity_type, &mut progress).await?);
    progress.finish();
    state_file.as_ref().map_or(Ok(()), StateFile::remove)?;
    let entity_type = entity_type.to_string();
    Ok(CopiedBags { entity_type, brought, copied: state.copied, from: digests.0, to: digests.1 })
}

async fn digest(client: &Client, entity_type: &EntityType, progress: &mut Progress) -> Result<BagDigest, Failure> {
    let (mut digest, mut page_token) = (BagDigest::default(), None);
    loop {
        let bags;
        (bags, page_token) = source::part(client, entity_type, page_token.as_deref()).await?;
        for bag in &bags {
            // No text has a zero byte: JSON writes it otherwise, and no entity ID may hold one.
            let text = [bag.entity_id.as_str(), bag.properties.get()].join("\0");
            digest.checksum = digest.checksum.wrapping_add(XxHash3_64::oneshot(text.as_bytes()));
        }
        digest.bags += bags.len() as u64;
        progress.add(&format!("comparing {entity_type}"), bags.len() as u64);
        if page_token.is_none() {
            return Ok(digest);
        }
    }
}
