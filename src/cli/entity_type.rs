//! `liststore entity-type`: which entities have bags, through a server's HTTP API.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use clap::{Args, Subcommand};
use serde_json::value::RawValue;

use super::block_on;
use super::confirm::confirm;
use super::failure::Failure;
use super::feature::{client, show_deleted, show_history};
use super::jobs::{self, Wait, follow};
use super::output::{Format, Output};
use super::parse::{self, Author, ServerOptions};
use crate::client::{Client, RawPage, Request, Response, printable, read};
use crate::domain::{self, Description, Limit, Owner, Ttl};
use crate::service::OperationId;
use crate::wire::parameters::{PAGE_SIZE, PAGE_TOKEN, TYPE_TEXT};
use crate::wire::{EntityType, EntityTypeInput, EntityTypePatch, Job, PurgeBagsInput};

const EXAMPLES: &str = "\
Examples:
  liststore entity-type create user --ttl 365d --owner feed-team
  liststore entity-type list
  liststore entity put user u-17 '{\"name\": \"Ada\"}'";

/// Create, show, change and delete entity types, whose entities have bags
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(Create),
    Get(Get),
    List(List),
    Update(Update),
    Delete(Delete),
    Purge(Purge),
    History(History),
}

/// Create an entity type: its entities may have bags from then on
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore entity-type create user
  liststore entity-type create session --ttl 30d --label team=web")]
struct Create {
    /// The kind of entity, such as user
    #[arg(value_parser = domain::EntityType::new)]
    entity_type: domain::EntityType,
    /// How long a bag lives after it was changed last [default: 7300d, the longest]
    #[arg(long, value_parser = parse::ttl)]
    ttl: Option<Ttl>,
    /// What entities of this type are
    #[arg(long, value_parser = parse::description)]
    description: Option<Description>,
    /// Who answers for it
    #[arg(long, value_parser = parse::owner)]
    owner: Option<Owner>,
    /// A label; may be given several times
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = parse::label)]
    labels: Vec<(String, String)>,
    #[command(flatten)]
    author: Author,
    #[command(flatten)]
    options: ServerOptions,
}

/// Show one entity type
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore entity-type get user --output json")]
struct Get {
    /// The kind of entity, such as user
    #[arg(value_parser = domain::EntityType::new)]
    entity_type: domain::EntityType,
    #[command(flatten)]
    options: ServerOptions,
}

/// List entity types by name
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore entity-type list
  liststore entity-type list --query feed --output ndjson")]
struct List {
    /// Only those with this text in their name, description or owner
    #[arg(short, long, value_name = "TEXT")]
    query: Option<String>,
    #[command(flatten)]
    options: ServerOptions,
}

/// Change an entity type; what is not named stays
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore entity-type update user --ttl 90d

A shorter ttl hides bags at once. Labels are replaced as a whole; --no-labels
removes them.")]
struct Update {
    /// The kind of entity, such as user
    #[arg(value_parser = domain::EntityType::new)]
    entity_type: domain::EntityType,
    /// How long a bag lives after it was changed last
    #[arg(long, value_parser = parse::ttl)]
    ttl: Option<Ttl>,
    /// What entities of this type are
    #[arg(long, value_parser = parse::description)]
    description: Option<Description>,
    /// Who answers for it
    #[arg(long, value_parser = parse::owner)]
    owner: Option<Owner>,
    /// A label; may be given several times
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = parse::label)]
    labels: Vec<(String, String)>,
    /// Remove all labels
    #[arg(long, conflicts_with = "labels")]
    no_labels: bool,
    /// Only if the entity type still has this ETag
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,
    #[command(flatten)]
    author: Author,
    #[command(flatten)]
    options: ServerOptions,
}

/// Delete an entity type: its bags are out of reach at once, lists stay
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore entity-type delete user

One that is created again under the same name starts without bags.")]
struct Delete {
    /// The kind of entity, such as user
    #[arg(value_parser = domain::EntityType::new)]
    entity_type: domain::EntityType,
    /// Only if the entity type still has this ETag
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,
    #[command(flatten)]
    author: Author,
    #[command(flatten)]
    options: ServerOptions,
}

/// Clear all bags of an entity type now, rather than at the end of their TTL
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore entity-type purge user --wait
  liststore entity-type purge user --deleted-only --yes

A job of the server does it, which goes on by itself and over restarts:
liststore jobs shows, pauses and cancels it. The entity type and the lists of
its entities stay. What is written meanwhile may stay. It needs lists:write.")]
struct Purge {
    /// The kind of entity, such as user
    #[arg(value_parser = domain::EntityType::new)]
    entity_type: domain::EntityType,
    /// Only bags of what was deleted since, and may be there again
    #[arg(long)]
    deleted_only: bool,
    /// Bags that are cleared in a second, at most
    #[arg(long, value_name = "BAGS")]
    lists_per_second: Option<NonZeroU32>,
    /// Do not ask whether it is meant
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    wait: Wait,
    #[command(flatten)]
    author: Author,
    #[command(flatten)]
    options: ServerOptions,
}

/// Show who changed an entity type, when and how, newest first
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore entity-type history user --limit 10")]
struct History {
    /// The kind of entity, such as user
    #[arg(value_parser = domain::EntityType::new)]
    entity_type: domain::EntityType,
    /// How many changes to show
    #[arg(long, default_value = "100", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[command(flatten)]
    options: ServerOptions,
}

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    block_on(async {
        match arguments.command {
            Command::Create(arguments) => create(arguments).await,
            Command::Get(arguments) => get(arguments).await,
            Command::List(arguments) => list(arguments).await,
            Command::Update(arguments) => update(arguments).await,
            Command::Delete(arguments) => delete(arguments).await,
            Command::Purge(arguments) => purge(arguments).await,
            Command::History(arguments) => history(arguments).await,
        }
    })
}

async fn create(arguments: Create) -> Result<(), Failure> {
    let client = client(&arguments.options, arguments.author)?;
    let input = EntityTypeInput {
        entity_type: arguments.entity_type,
        ttl: arguments.ttl,
        description: arguments.description,
        owner: arguments.owner,
        labels: Some(parse::labels(arguments.labels)?),
    };
    let request = Request::new(OperationId::CreateEntityType, &[]).body(&input)?;
    show(&client.send(&request).await?, arguments.options.output)
}

async fn get(Get { entity_type, options }: Get) -> Result<(), Failure> {
    let client = client(&options, Author { user: None })?;
    let request = Request::new(OperationId::GetEntityType, &[entity_type.as_str()]);
    show(&client.send(&request).await?, options.output)
}

/// The names of all entity types.
pub(super) async fn names(client: &Client) -> Result<Vec<String>, Failure> {
    let name = |raw: &RawValue| Ok(read::<EntityType>(raw.get().as_bytes())?.entity_type);
    all(client, None).await?.iter().map(|raw| name(raw)).collect()
}

/// All entity types that a text stands in, as the server wrote them.
async fn all(client: &Client, query: Option<&String>) -> Result<Vec<Box<RawValue>>, Failure> {
    let mut types: Vec<Box<RawValue>> = Vec::new();
    let mut page_token = None;
    loop {
        let request = Request::new(OperationId::ListEntityTypes, &[])
            .query(&TYPE_TEXT, query)
            .query(&PAGE_SIZE, Some(Limit::PAGE_SIZE_MAX))
            .query(&PAGE_TOKEN, page_token);
        let page: RawPage = client.ask(&request).await?;
        types.extend(page.entries);
        page_token = page.next_page_token;
        if page_token.is_none() {
            return Ok(types);
        }
    }
}

async fn list(List { query, options }: List) -> Result<(), Failure> {
    let types = all(&client(&options, Author { user: None })?, query.as_ref()).await?;
    let mut output = Output::open();
    match options.output {
        Format::Json => output.json(&BTreeMap::from([("entity_types", &types)]))?,
        Format::Ndjson => types.iter().try_for_each(|entity_type| output.json(entity_type))?,
        Format::Table => {
            let row = |raw: &RawValue| {
                let EntityType { entity_type, ttl, owner, description, .. } = read(raw.get().as_bytes())?;
                Ok(vec![entity_type, ttl, owner, description])
            };
            let rows = types.iter().map(|raw| row(raw)).collect::<Result<Vec<_>, Failure>>()?;
            output.table(&["ENTITY TYPE", "TTL", "OWNER", "DESCRIPTION"], &rows)?;
        }
    }
    output.flush()
}

async fn update(arguments: Update) -> Result<(), Failure> {
    let has_labels = arguments.no_labels || !arguments.labels.is_empty();
    let patch = EntityTypePatch {
        ttl: arguments.ttl,
        description: arguments.description,
        owner: arguments.owner,
        labels: if has_labels { Some(parse::labels(arguments.labels)?) } else { None },
    };
    if patch.is_empty() {
        let what = "name what to change: --ttl, --description, --owner, --label or --no-labels";
        return Err(Failure::Usage(what.into()));
    }
    let client = client(&arguments.options, arguments.author)?;
    let request = Request::new(OperationId::UpdateEntityType, &[arguments.entity_type.as_str()])
        .body(&patch)?
        .if_match(arguments.if_match);
    show(&client.send(&request).await?, arguments.options.output)
}

async fn delete(Delete { entity_type, if_match, author, options }: Delete) -> Result<(), Failure> {
    let client = client(&options, author)?;
    let request = Request::new(OperationId::DeleteEntityType, &[entity_type.as_str()]).if_match(if_match);
    show_deleted(&client.send(&request).await?, entity_type.as_str(), options.output)
}

async fn purge(arguments: Purge) -> Result<(), Failure> {
    let Purge { entity_type, deleted_only, lists_per_second, yes, wait, author, options } = arguments;
    if !yes {
        let which = if deleted_only { "all bags of deleted generations" } else { "all bags" };
        confirm(&format!("Clear {which} of {entity_type}? This cannot be undone."))?;
    }
    let client = client(&options, author)?;
    let input = PurgeBagsInput { deleted_only, lists_per_second };
    let request = Request::new(OperationId::PurgeEntityType, &[entity_type.as_str()]).body(&input)?;
    let response = client.send(&request).await?;
    if wait.wait {
        let job: Job = read(&response.body)?;
        return follow(&client, &job.id, options.output).await;
    }
    jobs::show(&response.body, options.output)
}

async fn history(History { entity_type, limit, options }: History) -> Result<(), Failure> {
    let client = client(&options, Author { user: None })?;
    let request = || Request::new(OperationId::GetEntityTypeHistory, &[entity_type.as_str()]);
    show_history(&client, request, limit as usize, options.output).await
}

/// Prints one entity type.
fn show(response: &Response, format: Format) -> Result<(), Failure> {
    let mut output = Output::open();
    if format != Format::Table {
        output.json(&read::<Box<RawValue>>(&response.body)?)?;
        return output.flush();
    }
    let shown: EntityType = read(&response.body)?;
    let labels: Vec<String> = shown.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    for (name, value) in [
        ("entity type", shown.entity_type),
        ("ttl", shown.ttl),
        ("description", shown.description),
        ("owner", shown.owner),
        ("labels", labels.join(", ")),
        ("created at", shown.created_at),
        ("updated at", shown.updated_at),
        ("etag", response.etag.clone().unwrap_or_default()),
    ] {
        output.line(format!("{name:13}{}", printable(&value)).trim_end())?;
    }
    output.flush()
}
