//! `liststore list remove`: items with a value, some items, or the items of a time range.

use clap::Args;
use liststore_contract::operations::remove_items;
use liststore_contract::operations::remove_items::{
    RemoveBetweenInput, RemoveItemsInput, RemoveKeysInput, RemoveNamedInput, RemoveValueInput, Removed,
};
use serde_json::json;

use super::{ListArguments, ServerOptions, Values, typed};
use crate::cli::failure::Failure;
use crate::cli::output::{Format, Output};
use crate::cli::parse;
use crate::domain::{NAMED_ITEMS_MAX, Timestamp};
use crate::wire::{ItemInput, check_bounds};

/// Remove items by value, by key or by time range
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore list remove user story_presented u-123 --value story-9
  liststore list remove user story_presented u-123 story-9 \\
    --timestamp 2024-08-29T16:44:05.43Z
  liststore list remove user story_presented u-123 \\
    --max-timestamp 2024-08-01
  liststore list remove status suspended spam --key u-17")]
pub(super) struct Remove {
    #[command(flatten)]
    list: ListArguments,
    /// The values as text of the feature's type: string unchanged, bytes as Base64, json as JSON
    #[arg(value_name = "VALUE", required_unless_present_any = ["values", "keys", "min_timestamp", "max_timestamp"])]
    values_given: Vec<String>,
    /// The same as VALUE; may be given several times
    #[arg(long = "value", value_name = "VALUE", allow_hyphen_values = true)]
    values: Vec<String>,
    /// The key of an item, if items have keys; may be given several times
    #[arg(
        long = "key",
        value_name = "KEY",
        allow_hyphen_values = true,
        conflicts_with_all = ["values_given", "values", "timestamp", "min_timestamp", "max_timestamp"]
    )]
    keys: Vec<String>,
    /// Only items with exactly this time, such as 2024-08-29T16:44:05.43Z
    #[arg(long, value_name = "TIME", value_parser = parse::time, allow_hyphen_values = true)]
    timestamp: Option<Timestamp>,
    /// All items at or after this time, such as 2024-08-29 or -7d
    #[arg(
        long,
        value_name = "TIME",
        value_parser = parse::time,
        allow_hyphen_values = true,
        conflicts_with_all = ["values_given", "values", "timestamp"]
    )]
    min_timestamp: Option<Timestamp>,
    /// All items at or before this time
    #[arg(
        long,
        value_name = "TIME",
        value_parser = parse::time,
        allow_hyphen_values = true,
        conflicts_with_all = ["values_given", "values", "timestamp"]
    )]
    max_timestamp: Option<Timestamp>,
    #[command(flatten)]
    options: ServerOptions,
}

pub(super) async fn remove(arguments: Remove) -> Result<(), Failure> {
    let client = arguments.options.server.client(None)?;
    let Remove { list, values_given, values, keys, timestamp, min_timestamp, max_timestamp, options } = arguments;
    check_bounds(min_timestamp, max_timestamp).map_err(|problem| Failure::Usage(problem.detail.into_owned()))?;
    let values = Values { values_given, values };
    let named = match min_timestamp.or(max_timestamp) {
        Some(_) => Vec::new(),
        None if !keys.is_empty() => Vec::new(),
        None => typed(&client, &list, &values).await?,
    };
    let keys: Vec<_> = keys.into_iter().map(|key| json!(key).to_string()).collect();
    let removals: Vec<_> = match timestamp {
        _ if !keys.is_empty() => {
            let texts: Vec<_> = keys.iter().map(String::as_str).collect();
            let parts = texts.chunks(NAMED_ITEMS_MAX);
            parts.map(|keys| RemoveItemsInput::Keys(RemoveKeysInput { keys: keys.to_vec() })).collect()
        }
        _ if named.is_empty() => {
            vec![RemoveItemsInput::Between(RemoveBetweenInput { min_timestamp, max_timestamp })]
        }
        None => named.iter().map(|value| RemoveItemsInput::Value(RemoveValueInput { value: value.get() })).collect(),
        Some(timestamp) => {
            let items = named.iter().map(|value| ItemInput { timestamp, value: value.get(), key: None });
            let items: Vec<_> = items.collect();
            let parts = items.chunks(NAMED_ITEMS_MAX);
            parts.map(|items| RemoveItemsInput::Items(RemoveNamedInput { items: items.to_vec() })).collect()
        }
    };
    let mut removed = 0;
    for removal in &removals {
        let request = list.request(&remove_items::ROW).body(removal)?;
        removed += client.ask::<Removed>(&request).await?.removed;
    }
    let mut output = Output::open();
    match options.output {
        Format::Table => output.line(&format!("removed {removed}"))?,
        Format::Json | Format::Ndjson => output.json(&Removed { removed })?,
    }
    output.flush()
}
