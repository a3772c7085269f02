//! `liststore index`: the indexes of an entity type's bags, through a server's HTTP API.

use std::time::Duration;

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::block_on;
use super::failure::Failure;
use super::output::{Format, Output};
use super::parse::{Author, ServerOptions};
use crate::client::{Client, Request, Response, Retries, printable, read};
use crate::domain::index::Pointer;
use crate::domain::{EntityType, VersionLabel};
use crate::service::OperationId;
use crate::wire::{Index, IndexInput, IndexState};

/// How often an index is looked at while somebody waits for it.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
const BAR: &str = "{spinner} {pos} bags  {msg}";
const HEADER: [&str; 5] = ["NAME", "PROPERTIES", "ORDER BY", "STATE", "CREATED AT"];

/// Create, show and drop indexes by which bags are found
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
    Drop(Drop),
}

/// Which index.
#[derive(Debug, Args)]
struct Named {
    /// The kind of entity, such as user
    #[arg(value_parser = EntityType::new)]
    entity_type: EntityType,
    /// The index's name
    #[arg(value_name = "INDEX", value_parser = name)]
    name: VersionLabel,
}

impl Named {
    fn request(&self, operation: OperationId) -> Request {
        Request::new(operation, &[self.entity_type.as_str(), self.name.as_str()])
    }
}

pub(super) fn name(text: &str) -> Result<VersionLabel, String> {
    VersionLabel::of_index(text).map_err(|invalid| invalid.to_string())
}

/// Create an index, at any time: bags that are there are entered in the background
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore index create user by_country --property /country
  liststore index create link by_user --property /user_id --property /tags \\
    --order-by /published --wait

A property is a JSON Pointer: /country, /address/city. Of an array, a bag is
found by each element. The order is that of a number, or of a time in RFC 3339;
without one, that in which bags were updated.")]
struct Create {
    #[command(flatten)]
    index: Named,
    /// A property that bags are found by; several are found by together
    #[arg(long = "property", value_name = "POINTER", required = true, value_parser = Pointer::new)]
    properties: Vec<Pointer>,
    /// What bags are ordered by
    #[arg(long, value_name = "POINTER", value_parser = Pointer::new)]
    order_by: Option<Pointer>,
    /// Show how far it is, and end when all bags are in it
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    author: Author,
    #[command(flatten)]
    options: ServerOptions,
}

/// Show all indexes of an entity type
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore index list user")]
struct List {
    /// The kind of entity, such as user
    #[arg(value_parser = EntityType::new)]
    entity_type: EntityType,
    #[command(flatten)]
    options: ServerOptions,
}

/// Show an index, and how far it is
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore index get user by_country --wait")]
struct Get {
    #[command(flatten)]
    index: Named,
    /// Show how far it is, and end when all bags are in it
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    options: ServerOptions,
}

/// Drop an index; bags stay as they are
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore index drop user by_country")]
struct Drop {
    #[command(flatten)]
    index: Named,
    /// Only if the index still has this ETag
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,
    #[command(flatten)]
    author: Author,
    #[command(flatten)]
    options: ServerOptions,
}

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    block_on(async {
        match arguments.command {
            Command::Create(arguments) => create(arguments).await,
            Command::List(arguments) => list(arguments).await,
            Command::Get(arguments) => get(arguments).await,
            Command::Drop(arguments) => drop_index(arguments).await,
        }
    })
}

fn client(options: &ServerOptions, author: Option<crate::domain::Author>) -> Result<Client, Failure> {
    Ok(Client::new(options.server.url().map_err(Failure::Usage)?, author, Retries::PATIENT)?)
}

async fn create(arguments: Create) -> Result<(), Failure> {
    let Create { index, properties, order_by, wait, author, options } = arguments;
    let client = client(&options, author.user)?;
    let request = Request::new(OperationId::CreateIndex, &[index.entity_type.as_str()]);
    let input = IndexInput { name: index.name.clone(), properties, order_by };
    let response = client.send(&request.body(&input)?).await?;
    if wait { follow(&client, &index, options.output).await } else { show(&response, options.output) }
}

async fn get(arguments: Get) -> Result<(), Failure> {
    let Get { index, wait, options } = arguments;
    let client = client(&options, None)?;
    if wait {
        return follow(&client, &index, options.output).await;
    }
    show(&client.send(&index.request(OperationId::GetIndex)).await?, options.output)
}

async fn list(arguments: List) -> Result<(), Failure> {
    /// As the server wrote them: members that this release does not know are printed too.
    #[derive(Deserialize)]
    struct Indexes {
        indexes: Vec<Box<RawValue>>,
    }
    let List { entity_type, options } = arguments;
    let request = Request::new(OperationId::ListIndexes, &[entity_type.as_str()]);
    let Indexes { indexes } = client(&options, None)?.ask(&request).await?;
    let mut output = Output::open();
    match options.output {
        Format::Table => {
            let rows = indexes.iter().map(|index| Ok(row(read(index.get().as_bytes())?)));
            output.table(&HEADER, &rows.collect::<Result<Vec<_>, Failure>>()?)?;
        }
        Format::Json => output.json(&json!({ "indexes": indexes }))?,
        Format::Ndjson => indexes.iter().try_for_each(|index| output.json(index))?,
    }
    output.flush()
}

async fn drop_index(arguments: Drop) -> Result<(), Failure> {
    let Drop { index, if_match, author, options } = arguments;
    let request = index.request(OperationId::DeleteIndex).if_match(if_match);
    client(&options, author.user)?.send(&request).await?;
    let mut output = Output::open();
    match options.output {
        Format::Table => output.line(&format!("dropped {} of {}", index.name, index.entity_type))?,
        Format::Json | Format::Ndjson => output.json(&json!({ "dropped": index.name.as_str() }))?,
    }
    output.flush()
}

/// Prints one index.
fn show(response: &Response, format: Format) -> Result<(), Failure> {
    let mut output = Output::open();
    if format == Format::Table {
        output.table(&HEADER, &[row(read(&response.body)?)])?;
    } else {
        output.json(&read::<Box<RawValue>>(&response.body)?)?;
    }
    output.flush()
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

/// Waits until all bags are in an index, with a bar on a terminal, and prints it then.
async fn follow(client: &Client, index: &Named, format: Format) -> Result<(), Failure> {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    // A template that does not parse would be drawn in the default style.
    if let Ok(style) = ProgressStyle::with_template(BAR) {
        bar.set_style(style);
    }
    loop {
        let response = client.send(&index.request(OperationId::GetIndex)).await?;
        let found: Index = read(&response.body)?;
        bar.set_position(found.bags_done.unwrap_or_default());
        let problem = found.problem.map(|problem| format!(": {}", printable(&problem))).unwrap_or_default();
        bar.set_message(format!("{}{problem}", found.state));
        if found.state != IndexState::Building.as_str() {
            bar.finish_and_clear();
            return show(&response, format);
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}
