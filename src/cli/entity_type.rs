//! `liststore entity-type`: the entity types with bags, through a server's HTTP API.

use std::num::NonZeroU32;

use clap::{Args, Subcommand};
use liststore_contract::operations::create_entity_type::EntityTypeInput;
use liststore_contract::operations::purge_entity_type::PurgeBagsInput;
use liststore_contract::operations::update_entity_type::EntityTypePatch;
use liststore_contract::operations::{
    create_entity_type, delete_entity_type, get_entity_type, get_entity_type_history, list_entity_types,
    purge_entity_type, update_entity_type,
};
use serde_json::value::RawValue;

use super::confirm::Yes;
use super::definitions::{
    AnnotationChanges, AnnotationOptions, ChangeOptions, Condition, EntityTypeArgument, index_names,
};
use super::failure::Failure;
use super::feature::{show_deleted, show_history, shown_labels};
use super::jobs::{Wait, begin};
use super::output::{Format, counted, show, show_all};
use super::pages::entries;
use super::parse::{self, ServerOptions};
use super::{block_on, extent};
use crate::client::{Client, Request, Response, read};
use crate::domain::Ttl;
use crate::wire::EntityType;
use crate::wire::parameters::{PAGE_SIZE, TYPE_TEXT};

const EXAMPLES: &str = "\
Examples:
  liststore entity-type create user --ttl 365d --owner feed-team
  liststore entity-type list
  liststore entity put user u-17 '{\"name\": \"Ada\"}'";

/// Create, show, change and delete entity types
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

/// Create an entity type, so that its entities can have bags
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore entity-type create user
  liststore entity-type create session --ttl 30d --label team=web")]
struct Create {
    #[command(flatten)]
    which: EntityTypeArgument,
    /// How long a bag lives after its last change [default: 7300d, the maximum]
    #[arg(long, value_parser = parse::ttl)]
    ttl: Option<Ttl>,
    #[command(flatten)]
    annotations: AnnotationOptions,
    #[command(flatten)]
    options: ChangeOptions,
}

/// Show one entity type
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore entity-type get user --output json")]
struct Get {
    #[command(flatten)]
    which: EntityTypeArgument,
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
    /// Only entries with this text in their name, description or owner
    #[arg(short, long, value_name = "TEXT")]
    query: Option<String>,
    #[command(flatten)]
    options: ServerOptions,
}

/// Change an entity type; options that are not given remain unchanged
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore entity-type update user --ttl 90d

A shorter ttl hides bags immediately. Labels are replaced as a whole;
--no-labels removes them.")]
struct Update {
    #[command(flatten)]
    which: EntityTypeArgument,
    /// How long a bag lives after its last change
    #[arg(long, value_parser = parse::ttl)]
    ttl: Option<Ttl>,
    #[command(flatten)]
    changes: AnnotationChanges,
    #[command(flatten)]
    condition: Condition,
    #[command(flatten)]
    options: ChangeOptions,
}

/// Delete an entity type; its bags become unreachable, its lists remain
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore entity-type delete user
  liststore entity-type delete user --yes

An entity type that is created again under the same name starts without bags.")]
struct Delete {
    #[command(flatten)]
    which: EntityTypeArgument,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    condition: Condition,
    #[command(flatten)]
    options: ChangeOptions,
}

/// Clear all bags of an entity type now instead of at the end of their TTL
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore entity-type purge user --wait
  liststore entity-type purge user --deleted-only --yes

The server runs a background job that survives restarts: liststore jobs shows,
pauses and cancels it. The entity type and the lists of its entities remain.
Bags written during the purge may remain. Requires lists:write.")]
struct Purge {
    #[command(flatten)]
    which: EntityTypeArgument,
    /// Only bags of deleted generations
    #[arg(long)]
    deleted_only: bool,
    /// Maximum number of bags to clear per second
    #[arg(long, value_name = "BAGS")]
    lists_per_second: Option<NonZeroU32>,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    wait: Wait,
    #[command(flatten)]
    options: ChangeOptions,
}

/// Show the history of an entity type, newest first
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore entity-type history user --limit 10")]
struct History {
    #[command(flatten)]
    which: EntityTypeArgument,
    /// Maximum number of changes to show
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

async fn create(Create { which, ttl, annotations, options }: Create) -> Result<(), Failure> {
    let labels = Some(annotations.labels()?);
    let input = EntityTypeInput { entity_type: which.entity_type, ttl, annotations: annotations.with(labels) };
    let request = Request::new(&create_entity_type::ROW, &[]).body(&input)?;
    show_type(&options.client()?.send(&request).await?, options.output())
}

async fn get(Get { which, options }: Get) -> Result<(), Failure> {
    let request = which.request(&get_entity_type::ROW);
    show_type(&options.server.client(None)?.send(&request).await?, options.output)
}

/// All entity types that match a text.
async fn all(client: &Client, query: Option<&String>) -> Result<Vec<Box<RawValue>>, Failure> {
    let request = |page_size| {
        let request = Request::new(&list_entity_types::ROW, &[]);
        request.query(&TYPE_TEXT, query).query(&PAGE_SIZE, Some(page_size))
    };
    Ok(entries(client, usize::MAX, request).await?.all)
}

async fn list(List { query, options }: List) -> Result<(), Failure> {
    let types = all(&options.server.client(None)?, query.as_ref()).await?;
    let header = ["ENTITY TYPE", "TTL", "OWNER", "DESCRIPTION"];
    show_all("entity_types", &types, options.output, &header, |shown: EntityType| {
        vec![shown.entity_type, shown.ttl, shown.owner, shown.description]
    })
}

async fn update(Update { which, ttl, changes, condition, options }: Update) -> Result<(), Failure> {
    let patch = EntityTypePatch { ttl, annotations: changes.annotations()? };
    if patch.is_empty() {
        let what = "nothing to change: pass --ttl, --description, --owner, --label or --no-labels";
        return Err(Failure::Usage(what.into()));
    }
    let request = which.request(&update_entity_type::ROW).body(&patch)?.if_match(condition.if_match);
    show_type(&options.client()?.send(&request).await?, options.output())
}

async fn delete(Delete { which, yes, condition, options }: Delete) -> Result<(), Failure> {
    let (client, name) = (options.client()?, &which.entity_type);
    yes.confirm(async {
        client.send(&which.request(&get_entity_type::ROW)).await?;
        let (bags, indexes) = (extent::of_bags(&client, name).await?, index_names(&client, &which).await?);
        let indexes = counted(indexes.len() as u64, "index");
        Ok(format!("Delete the entity type {name} with {bags} and {indexes}? This cannot be undone."))
    })
    .await?;
    let request = which.request(&delete_entity_type::ROW).if_match(condition.if_match);
    show_deleted(&client.send(&request).await?, which.entity_type.as_str(), options.output())
}

async fn purge(arguments: Purge) -> Result<(), Failure> {
    let Purge { which, deleted_only, lists_per_second, yes, wait, options } = arguments;
    let (client, name) = (options.client()?, &which.entity_type);
    yes.confirm(async {
        let bags = match deleted_only {
            true => "all bags of deleted generations".to_owned(),
            false => extent::of_bags(&client, name).await?,
        };
        Ok(format!("Clear {bags} of {name}? This cannot be undone."))
    })
    .await?;
    let input = PurgeBagsInput { deleted_only, lists_per_second };
    let request = which.request(&purge_entity_type::ROW).body(&input)?;
    begin(&client, &request, &wait, options.output()).await
}

async fn history(History { which, limit, options }: History) -> Result<(), Failure> {
    show_history(&options, || which.request(&get_entity_type_history::ROW), limit).await
}

/// Prints one entity type.
fn show_type(response: &Response, format: Format) -> Result<(), Failure> {
    show(&response.body, format, |output| {
        let shown: EntityType = read(&response.body)?;
        output.fields([
            ("entity type", shown.entity_type),
            ("ttl", shown.ttl),
            ("description", shown.description),
            ("owner", shown.owner),
            ("labels", shown_labels(&shown.labels)),
            ("created at", shown.created_at),
            ("updated at", shown.updated_at),
            ("etag", response.etag.clone().unwrap_or_default()),
        ])
    })
}
