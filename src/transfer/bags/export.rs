//! The bags of an entity type in a file of NDJSON.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::source::{self, MovedBag};
use crate::client::{Client, Failure, Request, Retries, ServerUrl};
use crate::domain::EntityType;
use crate::service::OperationId;
use crate::transfer::out::Out;
use crate::transfer::progress::Progress;
use crate::transfer::state::{StateFile, with_ending};

#[derive(Debug)]
pub struct ExportBagsOptions {
    pub server: ServerUrl,
    pub entity_type: EntityType,
    /// `-` is standard output.
    pub output: PathBuf,
}

/// What is in the file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ExportedBags {
    pub bags: u64,
    /// Whether an earlier run had written some of it.
    #[serde(skip_deserializing)]
    pub resumed: bool,
}

/// What was written so far, and where the walk goes on.
#[derive(Serialize, Deserialize)]
struct State {
    exported: ExportedBags,
    bytes: u64,
    page_token: String,
}

#[derive(Serialize)]
struct Line<'a> {
    entity_id: &'a str,
    properties: &'a RawValue,
}

/// Writes the file, or goes on where an earlier run was cut off.
pub async fn export(options: ExportBagsOptions) -> Result<ExportedBags, Failure> {
    let ExportBagsOptions { server, entity_type, output } = options;
    let run = format!("the export of the bags of {entity_type} from {server}");
    let client = Client::new(server, None, Retries::PATIENT)?;
    client.send(&Request::new(OperationId::GetEntityType, &[entity_type.as_str()])).await?;
    let client = client.with_retries(Retries::PERSISTENT);
    let to_stdout = output == Path::new("-");
    let state_file = (!to_stdout).then(|| StateFile::new(with_ending(&output, ".state"), run));
    let kept: Option<State> = state_file.as_ref().map(StateFile::read).transpose()?.flatten();
    if kept.is_none() && !to_stdout && output.exists() {
        let name = output.display();
        return Err(Failure::failed(format!("{name} is there already: remove it, or write another file")));
    }
    let kept_bytes = kept.as_ref().map(|state| state.bytes);
    let failed = |error: &dyn std::fmt::Display| Failure::failed(format!("cannot write {}: {error}", output.display()));
    let mut out = if to_stdout { Out::standard() } else { Out::open(&output, kept_bytes).map_err(|e| failed(&e))? };
    let (mut exported, mut page_token) = match kept {
        Some(state) => (ExportedBags { resumed: true, ..state.exported }, Some(state.page_token)),
        None => (ExportedBags::default(), None),
    };
    let mut progress = Progress::start();
    loop {
        let bags;
        (bags, page_token) = source::part(&client, &entity_type, page_token.as_deref()).await?;
        for MovedBag { entity_id, properties } in &bags {
            let mut line =
                serde_json::to_vec(&Line { entity_id: entity_id.as_str(), properties }).map_err(|e| failed(&e))?;
            line.push(b'\n');
            out.write_all(&line).map_err(|e| failed(&e))?;
        }
        let bytes;
        (out, bytes) = out.end_part().map_err(|e| failed(&e))?;
        exported.bags += bags.len() as u64;
        progress.add(entity_type.as_str(), bags.len() as u64);
        let Some(token) = &page_token else { break };
        if let Some(state_file) = &state_file {
            state_file.write(&State { exported: exported.clone(), bytes, page_token: token.clone() })?;
        }
    }
    progress.finish();
    state_file.as_ref().map_or(Ok(()), StateFile::remove)?;
    Ok(exported)
}
