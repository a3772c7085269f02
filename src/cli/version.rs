//! `liststore version`: the versions of a list feature, through a server's HTTP API.

use clap::{Args, Subcommand};
use liststore_contract::operations::create_version::VersionInput;
use liststore_contract::operations::update_version::VersionPatch;
use liststore_contract::operations::{create_version, delete_version, get_feature, get_version, update_version};
use liststore_contract::row::Row;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::confirm::Yes;
use super::definitions::{ChangeOptions, Condition};
use super::failure::Failure;
use super::feature::{show_deleted, version_header, version_row, version_table};
use super::output::{Format, show, show_all};
use super::parse::{self, FeatureArguments, ServerOptions};
use super::{block_on, extent};
use crate::client::{Request, Response, read};
use crate::domain::{Description, Ttl, VersionLabel};
use crate::wire::FeatureVersion;

const EXAMPLES: &str = "\
Examples:
  liststore version create user story_presented v2 --ttl 7d
  liststore list get user story_presented u-123 --version v2

Each version has separate lists. `liststore --version` prints the version of the
program.";

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
    /// The version's label, such as v2; the default version (empty label) belongs to its feature
    #[arg(value_parser = VersionLabel::new)]
    version: VersionLabel,
}

impl VersionArguments {
    fn request(&self, operation: &'static Row) -> Request {
        Request::of_version(operation, &self.feature.id(), &self.version)
    }
}

/// Create a version with separate, empty lists
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
    changeable: parse::ChangeableProperties,
    #[command(flatten)]
    fixed: parse::FixedProperties,
    /// A description of the version
    #[arg(long, value_parser = parse::description)]
    description: Option<Description>,
    #[command(flatten)]
    options: ChangeOptions,
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

/// Change a version; options that are not given remain unchanged
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
    changeable: parse::ChangeableProperties,
    /// A description of the version
    #[arg(long, value_parser = parse::description)]
    description: Option<Description>,
    #[command(flatten)]
    condition: Condition,
    #[command(flatten)]
    options: ChangeOptions,
}

/// Delete a version; its items expire over time
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore version delete user story_presented v2
  liststore version delete user story_presented v2 --yes")]
struct Delete {
    #[command(flatten)]
    version: VersionArguments,
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
            Command::Get(arguments) => get(arguments).await,
            Command::List(arguments) => list(arguments).await,
            Command::Update(arguments) => update(arguments).await,
            Command::Delete(arguments) => delete(arguments).await,
        }
    })
}

async fn create(arguments: Create) -> Result<(), Failure> {
    let Create { version: VersionArguments { feature, version }, ttl, changeable, fixed, description, options } =
        arguments;
    let input = VersionInput { version, properties: fixed.with(changeable.given(ttl)), description };
    let request = Request::of_feature(&create_version::ROW, &feature.id()).body(&input)?;
    show_version(&options.client()?.send(&request).await?, options.output())
}

async fn get(Get { version, options }: Get) -> Result<(), Failure> {
    let request = version.request(&get_version::ROW);
    show_version(&options.server.client(None)?.send(&request).await?, options.output)
}

async fn list(List { feature, options }: List) -> Result<(), Failure> {
    /// As the server wrote them, so that members which this release does not support are printed too.
    #[derive(Deserialize)]
    struct Versions {
        versions: Vec<Box<RawValue>>,
    }
    let request = Request::of_feature(&get_feature::ROW, &feature.id());
    let Versions { versions } = options.server.client(None)?.ask(&request).await?;
    let row = |version: FeatureVersion| version_row(&version);
    let header = version_header();
    let header: Vec<_> = header.iter().map(String::as_str).collect();
    show_all("versions", &versions, options.output, &header, row)
}

async fn update(arguments: Update) -> Result<(), Failure> {
    let Update { version, ttl, changeable, description, condition, options } = arguments;
    let patch = VersionPatch { properties: changeable.given(ttl), description };
    if patch.is_empty() {
        return Err(Failure::Usage(format!("name what to change: {} or --description", parse::CHANGEABLE)));
    }
    let request = version.request(&update_version::ROW).body(&patch)?.if_match(condition.if_match);
    show_version(&options.client()?.send(&request).await?, options.output())
}

async fn delete(Delete { version, yes, condition, options }: Delete) -> Result<(), Failure> {
    let client = options.client()?;
    let (id, label) = (version.feature.id(), &version.version);
    yes.confirm(async {
        client.send(&version.request(&get_version::ROW)).await?;
        let lists = extent::of_lists(&client, &id, std::slice::from_ref(label)).await?;
        Ok(format!("Delete the version {:?} of {id} with {lists}? This cannot be undone.", label.as_str()))
    })
    .await?;
    let request = version.request(&delete_version::ROW).if_match(condition.if_match);
    let what = format!("{id} version {:?}", label.as_str());
    show_deleted(&client.send(&request).await?, &what, options.output())
}

/// Prints one version.
fn show_version(response: &Response, format: Format) -> Result<(), Failure> {
    let row = || Ok::<_, Failure>(version_row(&read(&response.body)?));
    show(&response.body, format, |output| version_table(output, &[row()?]))
}
