//! `liststore version`: the versions of a list feature, through a server's HTTP API.

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::block_on;
use super::failure::Failure;
use super::feature::{VERSION_HEADER, client, show_deleted, version_row};
use super::output::{Format, Output};
use super::parse::{self, Author, FeatureArguments, ServerOptions};
use crate::client::{Request, Response, read};
use crate::domain::{BucketInput, Description, IdentityKind, Keep, Ttl, VersionLabel};
use crate::service::OperationId;
use crate::wire::{VersionInput, VersionPatch};

const EXAMPLES: &str = "\
Examples:
  liststore version create user story_presented v2 --ttl 7d
  liststore list get user story_presented u-123 --version v2

Each version has lists of its own.";

/// Create, show, change and delete versions of a list feature
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
}

/// One version of a feature.
#[derive(Debug, Args)]
struct VersionArguments {
    #[command(flatten)]
    feature: FeatureArguments,
    /// The version's label, such as v2; the default version (the empty label) goes with its feature
    #[arg(value_parser = VersionLabel::new)]
    version: VersionLabel,
}

/// Create a version, with empty lists of its own
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore version create user story_presented v2 --ttl 7d \\
    --description 'ranked by the new model'
  liststore version create user story_presented v3 --identity value
  liststore version create user story_presented v4 --bucket month")]
struct Create {
    #[command(flatten)]
    version: VersionArguments,
    /// How long an item is visible after its timestamp [default: the feature's]
    #[arg(long, value_parser = parse::ttl)]
    ttl: Option<Ttl>,
    #[command(flatten)]
    max_items: parse::MaxItemsArguments,
    /// What tells its items from each other, for ever: item (timestamp and value), value or key [default: the
    /// feature's]
    #[arg(long, value_parser = IdentityKind::parse)]
    identity: Option<IdentityKind>,
    /// Which item of a value or key stays: newest or oldest [default: the feature's]
    #[arg(long, value_name = "WHICH", value_parser = Keep::parse)]
    keep: Option<Keep>,
    /// Of which period a partition of a list holds the items (with ScyllaDB and Cassandra), for ever: day, week,
    /// month, year or none [default: the feature's]
    #[arg(long, value_name = "PERIOD", value_parser = parse::bucket)]
    bucket: Option<BucketInput>,
    /// What is different about it
    #[arg(long, value_parser = parse::description)]
    description: Option<Description>,
    #[command(flatten)]
    author: Author,
    #[command(flatten)]
    options: ServerOptions,
}

/// Show one version
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore version get user story_presented v2 --output json")]
struct Get {
    #[command(flatten)]
    version: VersionArguments,
    #[command(flatten)]
    options: ServerOptions,
}

/// List the versions of a feature, the default one first
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore version list user story_presented --output ndjson")]
struct List {
    #[command(flatten)]
    feature: FeatureArguments,
    #[command(flatten)]
    options: ServerOptions,
}

/// Change a version; what is not named stays
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore version update user story_presented v2 --ttl 14d")]
struct Update {
    #[command(flatten)]
    version: VersionArguments,
    /// How long an item is visible after its timestamp
    #[arg(long, value_parser = parse::ttl)]
    ttl: Option<Ttl>,
    #[command(flatten)]
    max_items: parse::MaxItemsArguments,
    /// What is different about it
    #[arg(long, value_parser = parse::description)]
    description: Option<Description>,
    /// Only if the version still has this ETag
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,
    #[command(flatten)]
    author: Author,
    #[command(flatten)]
    options: ServerOptions,
}

/// Delete a version; its items are left to expire
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore version delete user story_presented v2")]
struct Delete {
    #[command(flatten)]
    version: VersionArguments,
    /// Only if the version still has this ETag
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
            Command::Get(arguments) => get(arguments).await,
            Command::List(arguments) => list(arguments).await,
            Command::Update(arguments) => update(arguments).await,
            Command::Delete(arguments) => delete(arguments).await,
        }
    })
}

async fn create(arguments: Create) -> Result<(), Failure> {
    let client = client(&arguments.options, arguments.author)?;
    let VersionArguments { feature, version } = arguments.version;
    let Create { ttl, max_items, identity, keep, bucket, description, .. } = arguments;
    let (max_items, bucket) = (max_items.input(), bucket.unwrap_or_default());
    let input = VersionInput { version, ttl, max_items, identity, keep, bucket, description };
    let request = Request::of_feature(OperationId::CreateVersion, &feature.id()).body(&input)?;
    show(&client.send(&request).await?, arguments.options.output)
}

async fn get(arguments: Get) -> Result<(), Failure> {
    let client = client(&arguments.options, Author { user: None })?;
    let VersionArguments { feature, version } = arguments.version;
    let request = Request::of_version(OperationId::GetVersion, &feature.id(), &version);
    show(&client.send(&request).await?, arguments.options.output)
}

async fn list(arguments: List) -> Result<(), Failure> {
    /// As the server wrote them: members that this release does not know are printed too.
    #[derive(Deserialize)]
    struct Versions {
        versions: Vec<Box<RawValue>>,
    }
    let client = client(&arguments.options, Author { user: None })?;
    let request = Request::of_feature(OperationId::GetFeature, &arguments.feature.id());
    let Versions { versions } = client.ask(&request).await?;
    let mut output = Output::open();
    match arguments.options.output {
        Format::Table => {
            let rows = versions.iter().map(|version| Ok(version_row(&read(version.get().as_bytes())?)));
            output.table(&VERSION_HEADER, &rows.collect::<Result<Vec<_>, Failure>>()?)?;
        }
        Format::Json => output.json(&json!({ "versions": versions }))?,
        Format::Ndjson => versions.iter().try_for_each(|version| output.json(version))?,
    }
    output.flush()
}

async fn update(arguments: Update) -> Result<(), Failure> {
    let patch =
        VersionPatch { ttl: arguments.ttl, max_items: arguments.max_items.input(), description: arguments.description };
    if patch.is_empty() {
        return Err(Failure::Usage("name what to change: --ttl, --max-items, --no-max-items or --description".into()));
    }
    let client = client(&arguments.options, arguments.author)?;
    let VersionArguments { feature, version } = arguments.version;
    let request = Request::of_version(OperationId::UpdateVersion, &feature.id(), &version)
        .body(&patch)?
        .if_match(arguments.if_match);
    show(&client.send(&request).await?, arguments.options.output)
}

async fn delete(arguments: Delete) -> Result<(), Failure> {
    let client = client(&arguments.options, arguments.author)?;
    let VersionArguments { feature, version } = arguments.version;
    let id = feature.id();
    let request = Request::of_version(OperationId::DeleteVersion, &id, &version).if_match(arguments.if_match);
    let response = client.send(&request).await?;
    show_deleted(&response, &format!("{id} version {:?}", version.as_str()), arguments.options.output)
}

/// Prints one version.
fn show(response: &Response, format: Format) -> Result<(), Failure> {
    let mut output = Output::open();
    if format == Format::Table {
        output.table(&VERSION_HEADER, &[version_row(&read(&response.body)?)])?;
    } else {
        output.json(&read::<Box<RawValue>>(&response.body)?)?;
    }
    output.flush()
}
