//! The bags of files of NDJSON, a line each: `{"entity_id", "properties"}`.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::source::{MovedBag, write};
use crate::client::{Client, Failure, Retries, ServerUrl};
use crate::domain::document::DOCUMENT_BYTES_MAX;
use crate::domain::{EntityId, EntityType};
use crate::import;
use crate::transfer::progress::Progress;

/// Lines that are read before they are written.
const PART_LINES: usize = 256;
/// Escapes make a document longer than its stored form, and an entity ID is next to it.
const LINE_BYTES_MAX: u64 = 8 * DOCUMENT_BYTES_MAX as u64;

#[derive(Debug)]
pub struct ImportBagsOptions {
    pub server: ServerUrl,
    pub entity_type: EntityType,
    /// `-` is standard input.
    pub files: Vec<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    entity_id: String,
    properties: Box<RawValue>,
}

/// Writes all bags of the files, and returns their number. A repetition changes no properties.
pub async fn import(options: ImportBagsOptions) -> Result<u64, Failure> {
    let ImportBagsOptions { server, entity_type, files } = options;
    let client = Client::new(server, None, Retries::PATIENT)?.for_people();
    let (mut imported, mut progress) = (0, Progress::start());
    for file in files {
        let name = file.display().to_string();
        let failed = |line: u64, why: &dyn std::fmt::Display| Failure::failed(format!("{name}, line {line}: {why}"));
        let opened = import::open(&file).map_err(|error| Failure::failed(format!("cannot read {name}: {error}")))?;
        let mut input = BufReader::new(opened);
        let (mut number, mut bags, mut text) = (0, Vec::new(), Vec::new());
        loop {
            text.clear();
            number += 1;
            let read = input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut text);
            let is_last = read.map_err(|error| failed(number, &error))? == 0;
            if text.len() as u64 == LINE_BYTES_MAX {
                return Err(failed(number, &"the line is longer than a bag may be"));
            }
            if !text.trim_ascii().is_empty() {
                let Line { entity_id, properties } =
                    serde_json::from_slice(&text).map_err(|error| failed(number, &error))?;
                let entity_id = EntityId::new(&entity_id).map_err(|invalid| failed(number, &invalid))?;
                bags.push(MovedBag { entity_id, properties });
            }
            if bags.len() == PART_LINES || is_last {
                let count = bags.len() as u64;
                write(&client, &entity_type, one_each(std::mem::take(&mut bags))).await?;
                imported += count;
                progress.add(entity_type.as_str(), count);
            }
            if is_last {
                break;
            }
        }
    }
    progress.finish();
    Ok(imported)
}

/// The last bag of each entity: the bags of one part are written at once, in no order.
fn one_each(bags: Vec<MovedBag>) -> Vec<MovedBag> {
    let mut seen = std::collections::HashSet::new();
    let mut last: Vec<_> = bags.into_iter().rev().filter(|bag| seen.insert(bag.entity_id.clone())).collect();
    last.reverse();
    last
}
