//! `liststore list contains`, `lookup` and `count`: queries on a list.

use clap::Args;
use liststore_contract::operations::contains_items::{Contained, ContainedValue, ContainsInput};
use liststore_contract::operations::count_items::Counted;
use liststore_contract::operations::lookup_items::{LookupInput, LookupKeysInput, LookupValuesInput};
use liststore_contract::operations::{contains_items, count_items, get_feature, lookup_items};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::{BoundsArguments, ListArguments, ServerOptions, Values, row, typed, typed_value};
use crate::cli::failure::Failure;
use crate::cli::output::{Format, Output};
use crate::client::{Request, printable};
use crate::domain::{IdentityKind, Limit};
use crate::wire::Feature;
use crate::wire::parameters::COUNT_MAX;

/// Show when each of the given values was last added
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore list contains user story_presented u-123 story-9 story-10
  liststore list contains user story_presented u-123 story-9 \\
    --min-timestamp 2024-08-01

A dash marks a value that the list does not contain.")]
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

/// Look up members of a set by key, or by value if values are unique
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore list lookup status suspended spam u-17 u-18
  liststore list lookup user story_seen u-123 story-9

A dash marks a missing member.")]
pub(super) struct Lookup {
    #[command(flatten)]
    list: ListArguments,
    /// The keys, or the values as text of the feature's type
    #[arg(value_name = "MEMBER", required = true)]
    members: Vec<String>,
    #[command(flatten)]
    options: ServerOptions,
}

/// Count items
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore list count user story_presented u-123
  liststore list count user story_presented u-123 \\
    --min-timestamp -30d --max 100")]
pub(super) struct Count {
    #[command(flatten)]
    list: ListArguments,
    #[command(flatten)]
    bounds: BoundsArguments,
    /// Maximum count [default: 10000]
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
    let client = arguments.options.server.client(None)?;
    let values = typed(&client, &arguments.list, &arguments.values).await?;
    let mut results = Vec::with_capacity(values.len());
    for values in values.chunks(ContainsInput::VALUES_MAX) {
        let values = values.iter().map(|value| value.get()).collect();
        let request = arguments.bounds.of(arguments.list.request(&contains_items::ROW));
        let found: Contained = client.ask(&request.body(&ContainsInput { values })?).await?;
        results.extend(found.results);
    }
    let mut output = Output::open();
    match arguments.options.output {
        Format::Table => {
            let row = |found: &ContainedValue| {
                vec![found.timestamp.clone().unwrap_or_else(|| "-".to_owned()), found.value.get().to_owned()]
            };
            output.table(&["TIMESTAMP", "VALUE"], &results.iter().map(row).collect::<Vec<_>>())?;
        }
        Format::Json => output.json(&Contained { results })?,
        Format::Ndjson => results.iter().try_for_each(|found| output.json(found))?,
    }
    output.flush()
}

pub(super) async fn lookup(arguments: Lookup) -> Result<(), Failure> {
    let client = arguments.options.server.client(None)?;
    let Lookup { list, members, options } = arguments;
    let request = Request::of_feature(&get_feature::ROW, &list.feature.id());
    let feature: Feature = client.ask(&request).await?;
    let label = list.version.version.to_string();
    let version = feature.versions.iter().find(|version| version.version == label);
    if version.is_some_and(|version| version.properties.identity == IdentityKind::Item) {
        let reported = "has the identity item, so it has no members to look up: `liststore list contains` finds values";
        return Err(Failure::failed(format!("the feature {} {reported}", list.feature.id())));
    }
    let has_keys = version.is_none_or(|version| version.properties.identity == IdentityKind::Key);
    let texts: Vec<String> = match has_keys {
        true => members.iter().map(|key| json!(key).to_string()).collect(),
        false => {
            let typed = members.iter().map(|text| typed_value(feature.value_type, text));
            typed.map(|typed| typed.map(|raw| raw.get().to_owned())).collect::<Result<_, _>>()?
        }
    };
    let mut results = Vec::with_capacity(texts.len());
    for part in texts.chunks(LookupInput::MEMBERS_MAX) {
        let part = part.iter().map(String::as_str).collect();
        let input = match has_keys {
            true => LookupInput::Keys(LookupKeysInput { keys: part }),
            false => LookupInput::Values(LookupValuesInput { values: part }),
        };
        let found: Results = client.ask(&list.request(&lookup_items::ROW).body(&input)?).await?;
        results.extend(found.results);
    }
    let mut output = Output::open();
    match options.output {
        Format::Table => {
            for (member, found) in members.iter().zip(&results) {
                match serde_json::from_str(found.get()).ok().flatten() {
                    Some(item) => output.line(&row(&item))?,
                    None => output.line(&format!("{:30}  {}", "-", printable(member)))?,
                }
            }
        }
        Format::Json => output.json(&json!({ "results": results }))?,
        Format::Ndjson => results.iter().try_for_each(|found| output.json(found))?,
    }
    output.flush()
}

/// As the server wrote them, so that members which this release does not support are printed too.
#[derive(Deserialize)]
struct Results {
    results: Vec<Box<RawValue>>,
}

pub(super) async fn count(arguments: Count) -> Result<(), Failure> {
    let client = arguments.options.server.client(None)?;
    let request = arguments.bounds.of(arguments.list.request(&count_items::ROW));
    let counted: Counted = client.ask(&request.query(&COUNT_MAX, arguments.max)).await?;
    let mut output = Output::open();
    match arguments.options.output {
        Format::Table if counted.exact => output.line(&counted.count.to_string())?,
        Format::Table => output.line(&format!("more than {}", counted.count))?,
        Format::Json | Format::Ndjson => output.json(&counted)?,
    }
    output.flush()
}
