//! The bags of an entity type in a file of NDJSON.

use std::io::Write;
use std::path::{Path, PathBuf};

use liststore_contract::operations::get_entity_type;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::source::{self, MovedBag};
use crate::checkpoint::{Begun, Checkpoint};
use crate::client::{Client, Failure, Request, Retries, ServerUrl};
use crate::domain::EntityType;
use crate::import::FileCoding;
use crate::out::Out;
use crate::progress::Progress;

#[derive(Debug)]
pub struct ExportBagsOptions {
    pub server: ServerUrl,
    pub entity_type: EntityType,
    /// `-` is standard output.
    pub output: PathBuf,
}

/// The content of the file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ExportedBags {
    pub bags: u64,
    /// Whether an earlier run had written some of it.
    #[serde(skip_deserializing)]
    pub resumed: bool,
}

#[derive(Serialize)]
struct Line<'a> {
    entity_id: &'a str,
    properties: &'a RawValue,
}

/// Writes the file, or continues an interrupted run.
pub async fn export(options: ExportBagsOptions) -> Result<ExportedBags, Failure> {
    let ExportBagsOptions { server, entity_type, output } = options;
    let run = format!("the export of the bags of {entity_type} from {server}");
    let client = Client::new(server, None, Retries::PATIENT)?.for_people();
    client.send(&Request::new(&get_entity_type::ROW, &[entity_type.as_str()])).await?;
    let client = client.with_retries(Retries::PERSISTENT);
    let checkpoint = (output != Path::new("-")).then(|| Checkpoint::new(&output, run));
    let (out, exported, page_token) = match checkpoint.as_ref().map(Checkpoint::begin).transpose()? {
        Some(Begun::Whole(exported)) => return Ok(ExportedBags { resumed: true, ..exported }),
        Some(Begun::Part { file, bytes, exported, page_token }) => {
            let out = Out::to(file, FileCoding::by_name(&output)).map_err(|error| cannot_write(&output, &error))?;
            (out, ExportedBags { resumed: bytes > 0, ..exported }, page_token)
        }
        None => (Out::standard(), ExportedBags::default(), None),
    };
    let written = write((&client, &entity_type), (out, &output), exported, page_token, checkpoint.as_ref()).await;
    written.map_err(|failure| match &checkpoint {
        Some(checkpoint) => checkpoint.broken_off(failure),
        None => failure,
    })
}

fn cannot_write(output: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::cannot_write(&output.display(), error)
}

/// Writes everything after a place, part by part.
async fn write(
    (client, entity_type): (&Client, &EntityType),
    (mut out, output): (Out, &Path),
    mut exported: ExportedBags,
    mut page_token: Option<String>,
    checkpoint: Option<&Checkpoint>,
) -> Result<ExportedBags, Failure> {
    let failed = |error: &dyn std::fmt::Display| cannot_write(output, error);
    let mut progress = Progress::start();
    let bytes = loop {
        let bags;
        (bags, page_token) = source::part(client, entity_type, page_token.as_deref()).await?;
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
        match (&page_token, checkpoint) {
            (Some(token), Some(checkpoint)) => checkpoint.hold(&exported, bytes, token)?,
            (Some(_), None) => {}
            (None, _) => break bytes,
        }
    };
    progress.finish();
    checkpoint.map_or(Ok(()), |checkpoint| checkpoint.finish(&exported, bytes))?;
    Ok(exported)
}
