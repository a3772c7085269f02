//! `liststore list contains` and `count`: what is in a list, without its items.

use clap::Args;

use super::{BoundsArguments, ListArguments, ServerOptions, Values, client, typed};
use crate::cli::failure::Failure;
use crate::cli::output::{Format, Output};
use crate::domain::Limit;
use crate::service::OperationId;
use crate::wire::parameters::COUNT_MAX;
use crate::wire::{Contained, ContainsInput, Counted};

/// Say when each of some values was added last
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore list contains user story_presented u-123 story-9 story-10
  liststore list contains user story_presented u-123 story-9 \\
    --min-timestamp 2024-08-01T00:00:00Z

A dash stands for a value that the list does not contain.")]
pub(super) struct Contains {
    #[command(flatten)]
    list: ListArguments,
    #[command(flatten)]
    values: Values,
    #[command(flatten)]
    bounds: BoundsArguments,
    #[command(flatten)]
    options: ServerOptions,
}

/// Count items
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore list count user story_presented u-123
  liststore list count user story_presented u-123 \\
    --min-timestamp 2024-08-01T00:00:00Z --max 100")]
pub(super) struct Count {
    #[command(flatten)]
    list: ListArguments,
    #[command(flatten)]
    bounds: BoundsArguments,
    /// Count no further than this [default: 10000]
    #[arg(long, value_parser = max)]
    max: Option<usize>,
    #[command(flatten)]
    options: ServerOptions,
}

fn max(text: &str) -> Result<usize, String> {
    let max = text.parse().map_err(|_| "must be a whole number".to_owned())?;
    Limit::of_count(max).map(|_| max).map_err(|e| e.to_string())
}

pub(super) async fn contains(arguments: Contains) -> Result<(), Failure> {
    let client = client(&arguments.options)?;
    let values = typed(&client, &arguments.list, &arguments.values).await?;
    let mut results = Vec::with_capacity(values.len());
    for values in values.chunks(ContainsInput::VALUES_MAX) {
        let values = values.iter().map(|value| value.get()).collect();
        let request = arguments.bounds.of(arguments.list.request(OperationId::ContainsItems));
        let found: Contained = client.ask(&request.body(&ContainsInput { values })?).await?;
        results.extend(found.results);
    }
    let mut output = Output::open();
    match arguments.options.output {
        Format::Table => {
            let row = |found: &crate::wire::ContainedValue| {
                vec![found.timestamp.clone().unwrap_or_else(|| "-".to_owned()), found.value.get().to_owned()]
            };
            output.table(&["TIMESTAMP", "VALUE"], &results.iter().map(row).collect::<Vec<_>>())?;
        }
        Format::Json => output.json(&Contained { results })?,
        Format::Ndjson => results.iter().try_for_each(|found| output.json(found))?,
    }
    output.flush()
}

pub(super) async fn count(arguments: Count) -> Result<(), Failure> {
    let client = client(&arguments.options)?;
    let request = arguments.bounds.of(arguments.list.request(OperationId::CountItems));
    let counted: Counted = client.ask(&request.query(&COUNT_MAX, arguments.max)).await?;
    let mut output = Output::open();
    match arguments.options.output {
        Format::Table if counted.exact => output.line(&counted.count.to_string())?,
        Format::Table => output.line(&format!("more than {}", counted.count))?,
        Format::Json | Format::Ndjson => output.json(&counted)?,
    }
    output.flush()
}
