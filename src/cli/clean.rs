//! `liststore index clean`: repairs entries of indexes, by jobs of the server.

use std::num::NonZeroU32;

use clap::Args;
use liststore_contract::operations::clean_indexes;
use liststore_contract::operations::clean_indexes::CleanInput;

use super::definitions::{ChangeOptions, entity_type_names};
use super::failure::Failure;
use super::jobs::{Wait, begin};
use crate::client::Request;
use crate::domain::{EntityType, VersionLabel};

const EXAMPLES: &str = "\
Examples:
  liststore index clean
  liststore index clean user --index by_country
  liststore index clean user --lists-per-second 1000 --no-wait

Servers repair indexes automatically; this command checks all bags and entries
once. It adds missing entries, removes entries without a bag, counts the correct
ones and reports the result. The server runs one job for each entity type. The
jobs continue if the command is interrupted: liststore jobs shows, pauses and
cancels them. Without an ENTITY_TYPE, all are cleaned. Requires lists:write.";

/// Check all bags and index entries, and repair errors
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The kind of entity, such as user [default: all]
    #[arg(value_parser = EntityType::new)]
    entity_type: Option<EntityType>,
    /// Only this index
    #[arg(long, value_parser = super::parse::index_name, requires = "entity_type")]
    index: Option<VersionLabel>,
    /// Maximum number of bags and entries to check per second
    #[arg(long, value_name = "LISTS")]
    lists_per_second: Option<NonZeroU32>,
    /// Exit after the job is created
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    options: ChangeOptions,
}

pub(super) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { entity_type, index, lists_per_second, no_wait, options } = arguments;
    let client = options.client()?;
    let types = match entity_type {
        Some(entity_type) => vec![entity_type.to_string()],
        None => entity_type_names(&client).await?,
    };
    for entity_type in types {
        let input = CleanInput { index: index.clone(), lists_per_second };
        let request = Request::new(&clean_indexes::ROW, &[&entity_type]).body(&input)?;
        begin(&client, &request, &Wait { wait: !no_wait }, options.output()).await?;
    }
    Ok(())
}
