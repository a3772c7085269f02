//! `liststore clean`: makes entries of indexes agree with bags, by jobs of the server.

use std::num::NonZeroU32;

use clap::Args;

use super::block_on;
use super::definitions::ChangeOptions;
use super::entity_type;
use super::failure::Failure;
use super::index;
use super::jobs::{Wait, begin};
use crate::client::Request;
use crate::domain::{EntityType, VersionLabel};
use crate::service::OperationId;
use crate::wire::CleanInput;

const EXAMPLES: &str = "\
Examples:
  liststore clean
  liststore clean user --index by_country
  liststore clean user --lists-per-second 1000 --no-wait

Servers keep indexes right by themselves; this looks at everything once. It adds
entries that are missing, removes those that no bag has, counts the others, and
says what it did. Jobs of the server do it, one for each entity type, which go
on though the command is interrupted: liststore jobs shows, pauses and cancels
them. Without an ENTITY_TYPE all are cleaned. It needs lists:write.";

/// Look at all bags and all entries of their indexes, and mend what is wrong
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The kind of entity, such as user [default: all]
    #[arg(value_parser = EntityType::new)]
    entity_type: Option<EntityType>,
    /// Only this index
    #[arg(long, value_parser = index::name, requires = "entity_type")]
    index: Option<VersionLabel>,
    /// Bags and entries that are looked at in a second, at most
    #[arg(long, value_name = "LISTS")]
    lists_per_second: Option<NonZeroU32>,
    /// End once the job is made
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    options: ChangeOptions,
}

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { entity_type, index, lists_per_second, no_wait, options } = arguments;
    block_on(async {
        let client = options.client()?;
        let types = match entity_type {
            Some(entity_type) => vec![entity_type.to_string()],
            None => entity_type::names(&client).await?,
        };
        for entity_type in types {
            let input = CleanInput { index: index.clone(), lists_per_second };
            let request = Request::new(OperationId::CleanIndexes, &[&entity_type]).body(&input)?;
            begin(&client, &request, &Wait { wait: !no_wait }, options.output()).await?;
        }
        Ok(())
    })
}
