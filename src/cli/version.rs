//! `liststore version`: the versions of a list feature, through a server's HTTP API.

use bytes::Bytes;
use clap::{Args, Subcommand};
use serde_json::json;
use serde_json::value::RawValue;

use super::block_on;
use super::client::{Answer, Request, feature_path, read, version_path};
use super::failure::Failure;
use super::feature::{VERSION_HEADER, client, show_deleted, version_row};
use super::output::{Format, Output};
use super::parse::{self, Asking, Author, FeatureArguments};
use crate::domain::{Ttl, VersionLabel};

const EXAMPLES: &str = "\
Examples:
  liststore version create user story_presented v2 --ttl 7d
  liststore list get user story_presented u-123 --version v2

Each version has lists of its own. `liststore feature get` shows all versions.";

/// Create, change and delete versions of a list feature
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(Create),
    Update(Update),
    Delete(Delete),
}

#[derive(Debug, Args)]
struct Which {
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
  liststore version create user story_presented v2 --ttl 7d --description 'ranked by the new model'")]
struct Create {
    #[command(flatten)]
    which: Which,
    /// How long an item is visible after its timestamp [default: the feature's]
    #[arg(long, value_parser = parse::ttl)]
    ttl: Option<Ttl>,
    /// What is different about it
    #[arg(long, default_value = "", hide_default_value = true)]
    description: String,
    #[command(flatten)]
    author: Author,
    #[command(flatten)]
    asking: Asking,
}

/// Change a version; what is not named stays
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore version update user story_presented v2 --ttl 14d")]
struct Update {
    #[command(flatten)]
    which: Which,
    /// How long an item is visible after its timestamp
    #[arg(long, value_parser = parse::ttl)]
    ttl: Option<Ttl>,
    /// What is different about it
    #[arg(long)]
    description: Option<String>,
    /// Only if the version still has this ETag
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,
    #[command(flatten)]
    author: Author,
    #[command(flatten)]
    asking: Asking,
}

/// Delete a version; its items are left to expire
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore version delete user story_presented v2")]
struct Delete {
    #[command(flatten)]
    which: Which,
    /// Only if the version still has this ETag
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,
    #[command(flatten)]
    author: Author,
    #[command(flatten)]
    asking: Asking,
}

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    block_on(async {
        match arguments.command {
            Command::Create(arguments) => create(arguments).await,
            Command::Update(arguments) => update(arguments).await,
            Command::Delete(arguments) => delete(arguments).await,
        }
    })
}

async fn create(arguments: Create) -> Result<(), Failure> {
    let client = client(&arguments.asking, arguments.author)?;
    let mut version = serde_json::Map::new();
    version.insert("version".to_owned(), json!(arguments.which.version));
    version.insert("description".to_owned(), json!(arguments.description));
    version.extend(arguments.ttl.map(|ttl| ("ttl".to_owned(), json!(ttl))));
    let path = format!("{}/versions", feature_path(&arguments.which.feature.id()));
    let body = Bytes::from(serde_json::Value::Object(version).to_string());
    show(&client.send(&Request::post(path, body)).await?, arguments.asking.output)
}

async fn update(arguments: Update) -> Result<(), Failure> {
    let mut changes = serde_json::Map::new();
    changes.extend(arguments.ttl.map(|ttl| ("ttl".to_owned(), json!(ttl))));
    changes.extend(arguments.description.map(|text| ("description".to_owned(), json!(text))));
    if changes.is_empty() {
        return Err(Failure::Usage("name what to change: --ttl or --description".into()));
    }
    let client = client(&arguments.asking, arguments.author)?;
    let path = version_path(&arguments.which.feature.id(), &arguments.which.version);
    let body = Bytes::from(serde_json::Value::Object(changes).to_string());
    let request = Request::patch(path, body).if_match(arguments.if_match);
    show(&client.send(&request).await?, arguments.asking.output)
}

async fn delete(arguments: Delete) -> Result<(), Failure> {
    let client = client(&arguments.asking, arguments.author)?;
    let id = arguments.which.feature.id();
    let path = version_path(&id, &arguments.which.version);
    let answer = client.send(&Request::delete(path).if_match(arguments.if_match)).await?;
    show_deleted(&answer, &format!("{id} version {:?}", arguments.which.version.as_str()), arguments.asking.output)
}

/// Prints one version.
fn show(answer: &Answer, format: Format) -> Result<(), Failure> {
    let mut output = Output::open();
    if format == Format::Table {
        output.table(&VERSION_HEADER, &[version_row(&read(&answer.body)?)])?;
    } else {
        output.json(&read::<Box<RawValue>>(&answer.body)?)?;
    }
    output.flush()
}
