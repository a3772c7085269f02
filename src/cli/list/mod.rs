//! `liststore list`: the items of one list, through a server's HTTP API.

pub(super) mod aggregate;
mod queries;
mod remove;

use clap::{Args, Subcommand};
use liststore_contract::operations::add_items::AddItemsInput;
use liststore_contract::operations::{add_items, get_feature, get_items, remove_all_items};
use liststore_contract::row::Row;
use serde_json::json;
use serde_json::value::RawValue;

use super::confirm::Yes;
use super::extent::items_of;
use super::failure::{Failure, warn};
use super::output::{Format, Output, counted};
use super::parse::{self, FeatureArguments, ServerOptions, VersionOption};
use super::{batch_get, block_on};
use crate::client::{Client, RawPage, Request, excerpt, printable, read, write_json};
use crate::domain::{Clock, EntityId, Limit, Order, SystemClock, Timestamp, ValueType};
use crate::wire::parameters::{AS_OF, LIMIT, MAX_TIMESTAMP, MIN_TIMESTAMP, ORDER, PAGE_TOKEN};
use crate::wire::{Added, Feature, Item, ItemInput};

const EXAMPLES: &str = "\
Examples:
  liststore list add user story_presented u-123 --value story-9
  liststore list get user story_presented u-123 --limit 50
  liststore list contains user story_presented u-123 story-9 story-10
  liststore list lookup status suspended spam u-17 u-18
  liststore list count user story_presented u-123
  liststore list aggregate user payment u-123 --window 1h,24h --count
  liststore list remove user story_presented u-123 --value story-9
  liststore list clear user story_presented u-123
  liststore list batch-get requests.ndjson

An ENTITY_ID can be any text; write -- before an ID that begins with a dash.";

/// Read and change the items of one list
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Get(Get),
    Add(Add),
    Contains(queries::Contains),
    Lookup(queries::Lookup),
    Count(queries::Count),
    Aggregate(Box<aggregate::Arguments>),
    Remove(remove::Remove),
    Clear(Clear),
    BatchGet(batch_get::Arguments),
}

/// The list of one entity.
#[derive(Debug, Args)]
struct ListArguments {
    #[command(flatten)]
    feature: FeatureArguments,
    /// The entity, such as u-123
    #[arg(value_parser = EntityId::new)]
    entity_id: EntityId,
    #[command(flatten)]
    version: VersionOption,
}

/// Values, as text.
#[derive(Debug, Args)]
struct Values {
    /// The values as text of the feature's type: string unchanged, bytes as Base64, json as JSON
    #[arg(value_name = "VALUE", required_unless_present = "values")]
    values_given: Vec<String>,
    /// The same as VALUE; may be given several times
    #[arg(long = "value", value_name = "VALUE", allow_hyphen_values = true)]
    values: Vec<String>,
}

impl Values {
    fn all(&self) -> impl Iterator<Item = &String> {
        self.values_given.iter().chain(&self.values)
    }
}

/// The time bounds of items.
#[derive(Debug, Args)]
struct BoundsArguments {
    /// Only items at or after this time, such as 2024-08-29, "2024-08-29 16:44", -7d or nanoseconds since the Unix
    /// epoch
    #[arg(long, value_name = "TIME", value_parser = parse::time, allow_hyphen_values = true)]
    min_timestamp: Option<Timestamp>,
    /// Only items at or before this time
    #[arg(long, value_name = "TIME", value_parser = parse::time, allow_hyphen_values = true)]
    max_timestamp: Option<Timestamp>,
}

impl BoundsArguments {
    fn of(&self, request: Request) -> Request {
        request
            .query(&MIN_TIMESTAMP, self.min_timestamp.map(Timestamp::as_nanos))
            .query(&MAX_TIMESTAMP, self.max_timestamp.map(Timestamp::as_nanos))
    }
}

/// Show items, newest first
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore list get user story_presented u-123
  liststore list get user story_presented u-123 \\
    --min-timestamp 2024-08-01 --limit 10
  liststore list get user story_presented u-123 --min-timestamp -7d
  liststore list get user story_presented u-123 --order oldest --limit 10
  liststore list get user story_presented u-123 --as-of 2024-08-30T00:00:00Z
  liststore list get user story_presented u-123 --all --output ndjson")]
struct Get {
    #[command(flatten)]
    list: ListArguments,
    #[command(flatten)]
    bounds: BoundsArguments,
    /// The list as of this time, without items that have expired or been removed since
    #[arg(long, value_name = "TIME", value_parser = parse::time, allow_hyphen_values = true)]
    as_of: Option<Timestamp>,
    /// Which end of the list comes first: newest or oldest [default: newest]
    #[arg(long, value_parser = order)]
    order: Option<Order>,
    /// Number of items per page [default: 100]
    #[arg(long, value_parser = limit)]
    limit: Option<usize>,
    /// Continue after the page that returned this token
    #[arg(long, value_name = "TOKEN")]
    page_token: Option<String>,
    /// Show all items
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    options: ServerOptions,
}

/// Add items; adding the same item again stores no second one
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore list add user story_presented u-123 --value story-9
  liststore list add user story_presented u-123 story-9 story-10 \\
    --timestamp 2024-08-29T16:44:05.43Z
  liststore list add status suspended spam --key u-17 'sent 400 mails'")]
struct Add {
    #[command(flatten)]
    list: ListArguments,
    #[command(flatten)]
    values: Values,
    /// The timestamp of the items, such as 2024-08-29T16:44:05Z, -1h or nanoseconds since the Unix epoch [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse::time, allow_hyphen_values = true)]
    timestamp: Option<Timestamp>,
    /// The key of the value, if items have keys; one for each value, in order
    #[arg(long = "key", value_name = "KEY", allow_hyphen_values = true)]
    keys: Vec<String>,
    #[command(flatten)]
    options: ServerOptions,
}

/// Remove all items of the list
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore list clear user story_presented u-123
  liststore list clear user story_presented u-123 --yes")]
struct Clear {
    #[command(flatten)]
    list: ListArguments,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    options: ServerOptions,
}

fn limit(text: &str) -> Result<usize, String> {
    let limit = text.parse().map_err(|_| "must be a whole number".to_owned())?;
    Limit::of_items(limit).map(|_| limit).map_err(|e| e.to_string())
}

fn order(text: &str) -> Result<Order, String> {
    Order::parse(text).map_err(|e| e.to_string())
}

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    block_on(async {
        match arguments.command {
            Command::Get(arguments) => get(arguments).await,
            Command::Add(arguments) => add(arguments).await,
            Command::Contains(arguments) => queries::contains(arguments).await,
            Command::Lookup(arguments) => queries::lookup(arguments).await,
            Command::Count(arguments) => queries::count(arguments).await,
            Command::Aggregate(arguments) => aggregate::aggregate(*arguments).await,
            Command::Remove(arguments) => remove::remove(arguments).await,
            Command::Clear(arguments) => clear(arguments).await,
            Command::BatchGet(arguments) => batch_get::run(arguments).await,
        }
    })
}

impl ListArguments {
    fn request(&self, operation: &'static Row) -> Request {
        Request::of_list(operation, &self.feature.id(), &self.entity_id, &self.version.version)
    }
}

async fn get(arguments: Get) -> Result<(), Failure> {
    let client = arguments.options.server.client(None)?;
    let mut shown = Shown::begin(arguments.options.output)?;
    let mut page_token = arguments.page_token.clone();
    loop {
        let request = arguments.list.request(&get_items::ROW);
        let request = arguments
            .bounds
            .of(request)
            .query(&AS_OF, arguments.as_of.map(Timestamp::as_nanos))
            .query(&ORDER, arguments.order.map(Order::as_str))
            .query(&LIMIT, arguments.limit)
            .query(&PAGE_TOKEN, page_token.take());
        let page: RawPage = client.ask(&request).await?;
        shown.items(&page.entries)?;
        page_token = page.next_page_token;
        if page_token.is_none() || !arguments.all {
            return shown.end(page_token.as_deref());
        }
    }
}

/// Prints items page by page, so that a list of any length needs little memory.
struct Shown {
    output: Output,
    format: Format,
    items: u64,
}

impl Shown {
    fn begin(format: Format) -> Result<Self, Failure> {
        Ok(Self { output: Output::open(), format, items: 0 })
    }

    fn items(&mut self, items: &[Box<RawValue>]) -> Result<(), Failure> {
        for raw in items {
            let first = self.items == 0;
            self.items += 1;
            match self.format {
                Format::Json => self.output.text(if first { "{\"items\":[" } else { "," })?,
                Format::Table if first => {
                    let item: Item = read(raw.get().as_bytes())?;
                    let key = if item.key.is_some() { format!("{:KEY_WIDTH$}  ", "KEY") } else { String::new() };
                    self.output.line(&format!("{:30}  {key}VALUE", "TIMESTAMP"))?;
                }
                Format::Table | Format::Ndjson => {}
            }
            match self.format {
                Format::Json => self.output.text(raw.get())?,
                Format::Ndjson => self.output.line(raw.get())?,
                Format::Table => {
                    let item: Item = read(raw.get().as_bytes())?;
                    self.output.line(&row(&item))?;
                }
            }
        }
        // The reader of a pipe gets each page immediately.
        self.output.flush()
    }

    fn end(mut self, page_token: Option<&str>) -> Result<(), Failure> {
        match (self.format, page_token) {
            (Format::Json, token) => {
                let open = if self.items == 0 { "{\"items\":[" } else { "" };
                let token = token.map(|token| format!(",\"next_page_token\":{}", json!(token))).unwrap_or_default();
                self.output.line(&format!("{open}]{token}}}"))?;
            }
            (_, Some(token)) => {
                eprintln!(
                    "more items follow: pass --page-token {} for the next page, or --all for all",
                    printable(token)
                );
            }
            (Format::Table, None) if self.items == 0 => eprintln!("the list is empty"),
            (_, None) => {}
        }
        self.output.flush()
    }
}

/// Longer keys move their value to the right.
const KEY_WIDTH: usize = 12;

/// An item as a line of a table: its key, if it has one, precedes its value.
fn row(item: &Item) -> String {
    let key = item.key.as_deref().map(|key| format!("{:KEY_WIDTH$}  ", printable(key))).unwrap_or_default();
    format!("{:30}  {key}{}", printable(&item.timestamp), printable(item.value.get()))
}

/// The values as JSON of the feature's type, which the server returns.
async fn typed(client: &Client, list: &ListArguments, values: &Values) -> Result<Vec<Box<RawValue>>, Failure> {
    let request = Request::of_feature(&get_feature::ROW, &list.feature.id());
    let feature: Feature = client.ask(&request).await?;
    values.all().map(|text| typed_value(feature.value_type, text)).collect()
}

fn typed_value(value_type: ValueType, text: &str) -> Result<Box<RawValue>, Failure> {
    let mut json = Vec::new();
    write_json(value_type, text, &mut json)
        .map_err(|reason| Failure::Usage(format!("invalid value {:?}: {reason}", excerpt(text))))?;
    Ok(read(&json)?)
}

async fn add(arguments: Add) -> Result<(), Failure> {
    let client = arguments.options.server.client(None)?;
    let values = typed(&client, &arguments.list, &arguments.values).await?;
    let timestamp = arguments.timestamp.unwrap_or_else(|| SystemClock.now());
    let keys: Vec<_> = arguments.keys.iter().map(|key| json!(key).to_string()).collect();
    if !keys.is_empty() && keys.len() != values.len() {
        return Err(Failure::Usage(format!(
            "{} given for {}: pass one --key for each value",
            counted(keys.len() as u64, "key"),
            counted(values.len() as u64, "value")
        )));
    }
    let keys = keys.iter().map(|key| Some(key.as_str())).chain(std::iter::repeat(None));
    let items = values.iter().zip(keys).map(|(value, key)| ItemInput { timestamp, value: value.get(), key }).collect();
    let request = arguments.list.request(&add_items::ROW).body(&AddItemsInput { items })?;
    let added: Added = client.ask(&request).await?;
    let mut output = Output::open();
    for warning in &added.warnings {
        warn(warning);
    }
    match arguments.options.output {
        Format::Table if added.already_expired > 0 => {
            output.line(&format!("added {}; already expired: {}", added.added, added.already_expired))?;
        }
        Format::Table => output.line(&format!("added {}", added.added))?,
        Format::Json | Format::Ndjson => output.json(&added)?,
    }
    output.flush()
}

async fn clear(arguments: Clear) -> Result<(), Failure> {
    let client = arguments.options.server.client(None)?;
    let ListArguments { feature, entity_id, version } = &arguments.list;
    let (id, label) = (feature.id(), version.version.as_str());
    let confirmed = arguments.yes.confirm(async {
        let items = items_of(&client, &id, entity_id, &version.version).await?.of("item");
        let of_version = if label.is_empty() { String::new() } else { format!(", version {label:?},") };
        Ok(format!("Remove {items} from the list {id}{of_version} of {}? This cannot be undone.", entity_id.as_str()))
    });
    confirmed.await?;
    client.send(&arguments.list.request(&remove_all_items::ROW)).await?;
    let mut output = Output::open();
    match arguments.options.output {
        Format::Table => output.line("removed all items")?,
        Format::Json | Format::Ndjson => output.json(&json!({}))?,
    }
    output.flush()
}
