//! `liststore feature entities`: the entities with lists of a feature version, through a server's HTTP API.

use clap::Args;
use liststore_contract::operations::list_entities;

use super::failure::Failure;
use super::output::{Format, Output};
use super::parse::{FeatureArguments, ServerOptions, VersionOption};
use crate::client::{Request, printable};
use crate::domain::Limit;
use crate::wire::EntityPage;
use crate::wire::parameters::{PAGE_SIZE, PAGE_TOKEN, VERSION};

/// List the entities that have lists of a feature, in hash order
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore feature entities user story_presented --limit 10
  liststore feature entities user story_presented --version v2 --output ndjson

Entities that are added or removed during the scan may be missing or included.")]
pub(super) struct Arguments {
    #[command(flatten)]
    feature: FeatureArguments,
    #[command(flatten)]
    version: VersionOption,
    /// Maximum number of entities to show [default: all]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    #[command(flatten)]
    options: ServerOptions,
}

pub(super) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let client = arguments.options.server.client(None)?;
    let mut output = Output::open();
    let (mut left, mut page_token, mut all) = (arguments.limit.unwrap_or(u64::MAX), None, Vec::new());
    loop {
        let page_size = usize::try_from(left).unwrap_or(usize::MAX).min(Limit::PAGE_SIZE_MAX);
        let request = Request::of_feature(&list_entities::ROW, &arguments.feature.id())
            .query(&VERSION, Some(&arguments.version.version).filter(|label| !label.is_default()))
            .query(&PAGE_SIZE, Some(page_size))
            .query(&PAGE_TOKEN, page_token);
        let page: EntityPage = client.ask(&request).await?;
        left = left.saturating_sub(page.entities.len() as u64);
        match arguments.options.output {
            Format::Table => page.entities.iter().try_for_each(|entity| output.line(&printable(entity)))?,
            Format::Ndjson => page.entities.iter().try_for_each(|entity| output.json(entity))?,
            Format::Json => all.extend(page.entities),
        }
        output.flush()?;
        page_token = page.next_page_token;
        if page_token.is_none() || left == 0 {
            break;
        }
    }
    if arguments.options.output == Format::Json {
        output.json(&EntityPage { entities: all, next_page_token: page_token })?;
    }
    output.flush()
}
