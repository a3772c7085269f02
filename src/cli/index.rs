//! `liststore index`: the indexes of an entity type's bags, through a server's HTTP API.

use std::time::Duration;

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use liststore_contract::operations::create_index::IndexInput;
use liststore_contract::operations::{create_index, delete_index, get_index, list_indexes};
use liststore_contract::row::Row;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::confirm::Yes;
use super::definitions::{ChangeOptions, Condition, EntityTypeArgument};
use super::failure::Failure;
use super::output::{Format, Output, show, show_all};
use super::parse::{self, ServerOptions};
use super::{block_on, clean, extent};
use crate::client::{Client, Request, Response, printable, read};
use crate::domain::VersionLabel;
use crate::domain::index::Pointer;
use crate::wire::{Index, IndexState};

/// The interval between checks of an index that the user waits for.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
const BAR: &str = "{spinner} {pos} bags  {msg}";
const HEADER: [&str; 5] = ["NAME", "PROPERTIES", "ORDER BY", "STATE", "CREATED AT"];

/// Create, show and drop indexes of bags
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore index create user by_country --property /country --order-by /score
  liststore index list user
  liststore entity find user by_country --value GB
  liststore index drop user by_country")]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(Create),
    List(List),
    Get(Get),
    Clean(clean::Arguments),
    Drop(Drop),
}

/// The selected index.
#[derive(Debug, Args)]
struct Named {
    #[command(flatten)]
    of: EntityTypeArgument,
    /// The index's name
    #[arg(value_name = "INDEX", value_parser = parse::index_name)]
    name: VersionLabel,
}

impl Named {
    fn request(&self, operation: &'static Row) -> Request {
        Request::new(operation, &[self.of.entity_type.as_str(), self.name.as_str()])
    }
}

/// Create an index; existing bags are added in the background
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore index create user by_country --property /country
  liststore index create link by_user --property /user_id --property /tags \\
    --order-by /published --wait

A property is a JSON Pointer: /country, /address/city. Each element of an array
is a separate value. The order is by a number or an RFC 3339 time; the default
is the order of updates.")]
struct Create {
    #[command(flatten)]
    index: Named,
    /// A property to search by; with several, a query has a value for each
    #[arg(long = "property", value_name = "POINTER", required = true, value_parser = Pointer::new)]
    properties: Vec<Pointer>,
    /// The property that orders the bags
    #[arg(long, value_name = "POINTER", value_parser = Pointer::new)]
    order_by: Option<Pointer>,
    /// Show progress until all bags are in the index
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    options: ChangeOptions,
}

/// Show all indexes of an entity type
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore index list user")]
struct List {
    #[command(flatten)]
    of: EntityTypeArgument,
    #[command(flatten)]
    options: ServerOptions,
}

/// Show an index and its build progress
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore index get user by_country --wait")]
struct Get {
    #[command(flatten)]
    index: Named,
    /// Show progress until all bags are in the index
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    options: ServerOptions,
}

/// Drop an index; bags remain unchanged
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore index drop user by_country
  liststore index drop user by_country --yes")]
struct Drop {
    #[command(flatten)]
    index: Named,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    condition: Condition,
    #[command(flatten)]
    options: ChangeOptions,
}

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    block_on(async {
        match arguments.command {
            Command::Create(arguments) => create(arguments).await,
            Command::List(arguments) => list(arguments).await,
            Command::Get(arguments) => get(arguments).await,
            Command::Clean(arguments) => clean::run(arguments).await,
            Command::Drop(arguments) => drop_index(arguments).await,
        }
    })
}

async fn create(arguments: Create) -> Result<(), Failure> {
    let Create { index, properties, order_by, wait, options } = arguments;
    let client = options.client()?;
    let input = IndexInput { name: index.name.clone(), properties, order_by };
    let response = client.send(&index.of.request(&create_index::ROW).body(&input)?).await?;
    if wait { follow(&client, &index, options.output()).await } else { show_index(&response, options.output()) }
}

async fn get(Get { index, wait, options }: Get) -> Result<(), Failure> {
    let client = options.server.client(None)?;
    if wait {
        return follow(&client, &index, options.output).await;
    }
    show_index(&client.send(&index.request(&get_index::ROW)).await?, options.output)
}

/// As the server wrote them, so that members which this release does not support are printed too.
#[derive(Deserialize)]
struct Indexes {
    indexes: Vec<Box<RawValue>>,
}

async fn list(List { of, options }: List) -> Result<(), Failure> {
    let request = of.request(&list_indexes::ROW);
    let Indexes { indexes } = options.server.client(None)?.ask(&request).await?;
    show_all("indexes", &indexes, options.output, &HEADER, row)
}

async fn drop_index(Drop { index, yes, condition, options }: Drop) -> Result<(), Failure> {
    let client = options.client()?;
    yes.confirm(async {
        let found: Index = client.ask(&index.request(&get_index::ROW)).await?;
        let (name, of, properties) = (&index.name, &index.of.entity_type, found.properties.join(" "));
        let bags = extent::of_bags(&client, of).await?;
        Ok(format!(
            "Drop the index {name} ({properties}) of {of}, which has {bags}? Bags remain unchanged; a new index is \
             built from them."
        ))
    })
    .await?;
    let request = index.request(&delete_index::ROW).if_match(condition.if_match);
    client.send(&request).await?;
    let mut output = Output::open();
    match options.output() {
        Format::Table => output.line(&format!("dropped {} of {}", index.name, index.of.entity_type))?,
        Format::Json | Format::Ndjson => output.json(&json!({ "dropped": index.name.as_str() }))?,
    }
    output.flush()
}

/// Prints one index.
fn show_index(response: &Response, format: Format) -> Result<(), Failure> {
    show(&response.body, format, |output| output.table(&HEADER, &[row(read(&response.body)?)]))
}

fn row(index: Index) -> Vec<String> {
    let done = index.bags_done.map(|bags| format!(" ({bags} bags)")).unwrap_or_default();
    vec![
        printable(&index.name),
        printable(&index.properties.join(" ")),
        printable(index.order_by.as_deref().unwrap_or("(updated)")),
        format!("{}{done}", index.state),
        index.created_at,
    ]
}

/// Waits until all bags are in an index, with a bar on a terminal, and then prints it.
async fn follow(client: &Client, index: &Named, format: Format) -> Result<(), Failure> {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    // Without a valid template the bar has the default style.
    if let Ok(style) = ProgressStyle::with_template(BAR) {
        bar.set_style(style);
    }
    loop {
        let response = client.send(&index.request(&get_index::ROW)).await?;
        let found: Index = read(&response.body)?;
        bar.set_position(found.bags_done.unwrap_or_default());
        let problem = found.problem.map(|problem| format!(": {}", printable(&problem))).unwrap_or_default();
        bar.set_message(format!("{}{problem}", found.state));
        if found.state == IndexState::Cancelled.as_str() {
            bar.finish_and_clear();
            let name = printable(&found.name);
            return Err(Failure::failed(format!(
                "the build of the index {name} was cancelled: run `liststore index clean` to complete it"
            )));
        }
        if found.state != IndexState::Building.as_str() {
            bar.finish_and_clear();
            return show_index(&response, format);
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}
