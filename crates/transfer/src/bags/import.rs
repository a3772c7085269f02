//! The bags of files of NDJSON, a line each: `{"entity_id", "properties"}`.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::source::{MovedBag, write};
use crate::client::{Client, Failure, Retries, ServerUrl};
use crate::domain::document::{DOCUMENT_BYTES_MAX, Document};
use crate::domain::{EntityId, EntityType};
use crate::import;
use crate::progress::Progress;

/// Lines that are read before they are written.
const PART_LINES: usize = 256;
/// Escapes make a document longer than its stored form, and an entity ID is next to it.
const LINE_BYTES_MAX: usize = 8 * DOCUMENT_BYTES_MAX;

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
        let opened = import::open(&file).map_err(|error| Failure::failed(format!("cannot read {name}: {error}")))?;
        let mut input = BufReader::new(opened);
        let (mut number, mut bags, mut text) = (0, Vec::new(), Vec::new());
        loop {
            number += 1;
            let read = read_line(&mut input, &mut text);
            let is_end = matches!(read, Ok(Next::End) | Err(_));
            let why = match read {
                Ok(Next::Bag(bag)) => {
                    bags.push(bag);
                    None
                }
                Ok(Next::Blank | Next::End) => None,
                Err(why) => Some(why),
            };
            // The bags before a bad line are written, too.
            if bags.len() == PART_LINES || is_end {
                let count = bags.len() as u64;
                let written = write(&client, &entity_type, one_each(std::mem::take(&mut bags))).await;
                written.map_err(|failure| {
                    let done = bags_of(imported);
                    Failure::failed(format!("{failure} (imported {done}, and perhaps some of the next {count})"))
                })?;
                imported += count;
                progress.add(entity_type.as_str(), count);
            }
            if let Some(why) = why {
                let (done, hint) = (bags_of(imported), "correct the file, and import it again");
                return Err(Failure::failed(format!("{name}, line {number}: {why} (imported {done}: {hint})")));
            }
            if is_end {
                break;
            }
        }
    }
    progress.finish();
    Ok(imported)
}

fn bags_of(count: u64) -> String {
    if count == 1 { "1 bag".to_owned() } else { format!("{count} bags") }
}

/// A line that was read.
enum Next {
    Bag(MovedBag),
    Blank,
    End,
}

fn read_line(input: &mut impl BufRead, text: &mut Vec<u8>) -> Result<Next, String> {
    if !import::read_line(input, text, LINE_BYTES_MAX).map_err(|error| error.to_string())? {
        return Ok(Next::End);
    }
    if text.trim_ascii().is_empty() {
        return Ok(Next::Blank);
    }
    let Line { entity_id, properties } = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let entity_id = EntityId::new(&entity_id).map_err(|invalid| invalid.to_string())?;
    // The server's rule, since it does not see a line that a later one for the same entity replaces.
    Document::parse(properties.get()).map_err(|invalid| format!("properties: {invalid}"))?;
    Ok(Next::Bag(MovedBag { entity_id, properties }))
}

/// The last bag of each entity: the bags of one part are written at once, in no order.
fn one_each(bags: Vec<MovedBag>) -> Vec<MovedBag> {
    let mut seen = std::collections::HashSet::new();
    let mut last: Vec<_> = bags.into_iter().rev().filter(|bag| seen.insert(bag.entity_id.clone())).collect();
    last.reverse();
    last
}
