//! `liststore feature`: the definitions of list features, through a server's HTTP API.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Args, Subcommand};
use liststore_contract::operations::create_feature::FeatureInput;
use liststore_contract::operations::update_feature::FeaturePatch;
use liststore_contract::operations::{
    create_feature, delete_feature, get_feature, get_history, list_features, update_feature,
};

use super::confirm::Yes;
use super::definitions::{AnnotationChanges, AnnotationOptions, ChangeOptions, Condition, labels};
use super::failure::Failure;
use super::output::{Format, Output, counted, show, show_all};
use super::pages::{entries, note_more};
use super::parse::{self, FeatureArguments, ServerOptions};
use super::{block_on, entities, extent, feature_files, purge};
use crate::client::{Request, Response, read};
use crate::definition::VersionProperties;
use crate::domain::{EntityType, Ttl, ValueType};
use crate::wire::parameters::{ENTITY_TYPE, PAGE_SIZE, TEXT};
use crate::wire::{Change, Deleted, Feature, FeatureVersion};

const HISTORY_DEFAULT: &str = "100";

const EXAMPLES: &str = "\
Examples:
  liststore feature create user story_presented --value-type string --ttl 30d \\
    --owner feed-team
  liststore feature list --output ndjson
  liststore feature history user story_presented";

/// Create, show, change and delete list features
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
    Purge(purge::Arguments),
    History(History),
    Entities(entities::Arguments),
    Export(feature_files::Export),
    Import(feature_files::Import),
}

/// Create a list feature with its default version
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore feature create user story_presented --value-type string --ttl 30d
  liststore feature create user purchase --value-type json --ttl 7300d \\
    --label team=shop --owner shop-team
  liststore feature create status suspended --value-type string --ttl 365d \\
    --identity key

A ttl has whole numbers with units, largest first (30d, 12h, 1d12h), from 1s to
7300d.")]
struct Create {
    #[command(flatten)]
    feature: FeatureArguments,
    /// The type of its values: string, int64, double, bool, bytes or json
    #[arg(long, value_name = "TYPE", value_parser = ValueType::parse)]
    value_type: ValueType,
    /// How long an item is visible after its timestamp
    #[arg(long, value_parser = parse::ttl)]
    ttl: Ttl,
    #[command(flatten)]
    changeable: parse::ChangeableProperties,
    #[command(flatten)]
    fixed: parse::FixedProperties,
    #[command(flatten)]
    annotations: AnnotationOptions,
    #[command(flatten)]
    options: ChangeOptions,
}

/// Show one feature with its versions
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore feature get user story_presented --output json")]
struct Get {
    #[command(flatten)]
    feature: FeatureArguments,
    #[command(flatten)]
    options: ServerOptions,
}

/// List features, by entity type and name
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore feature list
  liststore feature list --entity-type user --query story --output ndjson")]
struct List {
    /// Only features of this entity type
    #[arg(long, value_parser = EntityType::new)]
    entity_type: Option<EntityType>,
    /// Only entries with this text in their name, description or owner
    #[arg(short, long, value_name = "TEXT")]
    query: Option<String>,
    #[command(flatten)]
    options: ServerOptions,
}

/// Change a feature; options that are not given remain unchanged
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore feature update user story_presented --ttl 14d
  liststore feature update user story_presented --label team=feed --label tier=1

A shorter ttl takes effect immediately. Labels are replaced as a whole;
--no-labels removes them.")]
struct Update {
    #[command(flatten)]
    feature: FeatureArguments,
    /// How long an item of the default version is visible after its timestamp
    #[arg(long, value_parser = parse::ttl)]
    ttl: Option<Ttl>,
    #[command(flatten)]
    changeable: parse::ChangeableProperties,
    #[command(flatten)]
    changes: AnnotationChanges,
    #[command(flatten)]
    condition: Condition,
    #[command(flatten)]
    options: ChangeOptions,
}

/// Delete a feature with all its versions; its items expire over time
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore feature delete user story_presented
  liststore feature delete user story_presented --yes

A feature that is created again under the same name starts empty.")]
struct Delete {
    #[command(flatten)]
    feature: FeatureArguments,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    condition: Condition,
    #[command(flatten)]
    options: ChangeOptions,
}

/// Show the history of a feature, newest first, even after its deletion
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore feature history user story_presented --limit 10")]
struct History {
    #[command(flatten)]
    feature: FeatureArguments,
    /// Maximum number of changes to show
    #[arg(long, default_value = HISTORY_DEFAULT, value_parser = clap::value_parser!(u32).range(1..))]
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
            Command::Purge(arguments) => purge::run(arguments).await,
            Command::History(arguments) => history(arguments).await,
            Command::Entities(arguments) => entities::run(arguments).await,
            Command::Export(arguments) => feature_files::export(arguments).await,
            Command::Import(arguments) => feature_files::import(arguments).await,
        }
    })
}

async fn create(arguments: Create) -> Result<(), Failure> {
    let labels = arguments.annotations.labels()?;
    let input = FeatureInput {
        entity_type: arguments.feature.entity_type,
        name: arguments.feature.feature,
        value_type: arguments.value_type,
        properties: arguments.fixed.with(arguments.changeable.given(Some(arguments.ttl))),
        annotations: arguments.annotations.with(Some(labels)),
    };
    let request = Request::new(&create_feature::ROW, &[]).body(&input)?;
    show_feature(&arguments.options.client()?.send(&request).await?, arguments.options.output())
}

async fn get(arguments: Get) -> Result<(), Failure> {
    let request = Request::of_feature(&get_feature::ROW, &arguments.feature.id());
    show_feature(&arguments.options.server.client(None)?.send(&request).await?, arguments.options.output)
}

async fn list(List { entity_type, query, options }: List) -> Result<(), Failure> {
    let request = |page_size| {
        Request::new(&list_features::ROW, &[])
            .query(&ENTITY_TYPE, entity_type.as_ref())
            .query(&TEXT, query.as_ref())
            .query(&PAGE_SIZE, Some(page_size))
    };
    let features = entries(&options.server.client(None)?, usize::MAX, request).await?.all;
    let header = ["ENTITY TYPE", "NAME", "VALUE TYPE", "TTL", "VERSIONS", "OWNER", "DESCRIPTION"];
    show_all("features", &features, options.output, &header, |feature: Feature| {
        vec![
            feature.entity_type,
            feature.name,
            feature.value_type.to_string(),
            feature.properties.ttl.to_string(),
            feature.versions.len().to_string(),
            feature.owner,
            feature.description,
        ]
    })
}

async fn update(arguments: Update) -> Result<(), Failure> {
    let Update { feature, ttl, changeable, changes, condition, options } = arguments;
    let patch = FeaturePatch { properties: changeable.given(ttl), annotations: changes.annotations()? };
    if patch.is_empty() {
        return Err(Failure::Usage(format!(
            "name what to change: {}, --description, --owner, --label or --no-labels",
            parse::CHANGEABLE
        )));
    }
    let request = Request::of_feature(&update_feature::ROW, &feature.id());
    let request = request.body(&patch)?.if_match(condition.if_match);
    show_feature(&options.client()?.send(&request).await?, options.output())
}

async fn delete(Delete { feature, yes, condition, options }: Delete) -> Result<(), Failure> {
    let (id, client) = (feature.id(), options.client()?);
    yes.confirm(async {
        let labels = labels(&client, &id).await?;
        let (versions, lists) =
            (counted(labels.len() as u64, "version"), extent::of_lists(&client, &id, &labels).await?);
        Ok(format!("Delete the feature {id} with {versions} and {lists}? This cannot be undone."))
    })
    .await?;
    let request = Request::of_feature(&delete_feature::ROW, &id).if_match(condition.if_match);
    show_deleted(&client.send(&request).await?, &id.to_string(), options.output())
}

async fn history(History { feature, limit, options }: History) -> Result<(), Failure> {
    let request = || Request::of_feature(&get_history::ROW, &feature.id());
    show_history(&options, request, limit).await
}

/// Prints the newest entries of an audit trail.
pub(super) async fn show_history(
    options: &ServerOptions,
    request: impl Fn() -> Request,
    limit: u32,
) -> Result<(), Failure> {
    let request = |page_size| request().query(&PAGE_SIZE, Some(page_size));
    let listed = entries(&options.server.client(None)?, limit as usize, request).await?;
    show_all(
        "history",
        &listed.all,
        options.output,
        &["AT", "BY", "ACTION", "VERSION, INDEX", "CHANGE"],
        |entry: Change| {
            let change = match (&entry.before, &entry.after) {
                (Some(before), Some(after)) => differences(before, after),
                _ => String::new(),
            };
            vec![entry.at, entry.by, entry.action, entry.version.or(entry.index).unwrap_or_default(), change]
        },
    )?;
    note_more(options.output, listed.next_page_token.as_deref());
    Ok(())
}

/// The fields that a change affected: `ttl 30d -> 14d`.
fn differences(before: &serde_json::Value, after: &serde_json::Value) -> String {
    let (Some(before), Some(after)) = (before.as_object(), after.as_object()) else {
        return String::new();
    };
    let shown = |value: Option<&serde_json::Value>| match value {
        Some(serde_json::Value::String(text)) if !text.is_empty() => text.clone(),
        Some(value) => value.to_string(),
        None => "-".to_owned(),
    };
    let names: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let changed = names
        .into_iter()
        .filter(|name| !matches!(name.as_str(), "updated_at" | "versions") && before.get(*name) != after.get(*name));
    let changes: Vec<String> =
        changed.map(|name| format!("{name} {} -> {}", shown(before.get(name)), shown(after.get(name)))).collect();
    changes.join(", ")
}

/// Prints one feature.
fn show_feature(response: &Response, format: Format) -> Result<(), Failure> {
    show(&response.body, format, |output| {
        let feature: Feature = read(&response.body)?;
        output.fields([
            ("feature", format!("{} {}", feature.entity_type, feature.name)),
            ("value type", feature.value_type.to_string()),
        ])?;
        for (name, value) in parse::shown_properties(&feature.properties) {
            output.fields([(name.as_str(), value)])?;
        }
        output.fields([
            ("description", feature.description),
            ("owner", feature.owner),
            ("labels", shown_labels(&feature.labels)),
            ("created at", feature.created_at),
            ("updated at", feature.updated_at),
            ("etag", response.etag.clone().unwrap_or_default()),
        ])?;
        output.line("")?;
        let rows: Vec<Vec<String>> = feature.versions.iter().map(version_row).collect();
        version_table(output, &rows)
    })
}

pub(super) fn shown_labels(labels: &BTreeMap<String, String>) -> String {
    let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    labels.join(", ")
}

/// The columns of a table of versions.
pub(super) fn version_header() -> Vec<String> {
    let properties = parse::shown_properties(&VersionProperties::default());
    let properties = properties.into_iter().map(|(name, _)| name.to_uppercase());
    let others = ["CREATED AT", "DESCRIPTION"].map(str::to_owned);
    ["VERSION".to_owned()].into_iter().chain(properties).chain(others).collect()
}

pub(super) fn version_table(output: &mut Output, rows: &[Vec<String>]) -> Result<(), Failure> {
    let header = version_header();
    output.table(&header.iter().map(String::as_str).collect::<Vec<_>>(), rows)
}

pub(super) fn version_row(version: &FeatureVersion) -> Vec<String> {
    let label = if version.version.is_empty() { "(default)" } else { &version.version };
    let properties = parse::shown_properties(&version.properties).into_iter().map(|(_, value)| value);
    let others = [version.created_at.clone(), version.description.clone()];
    [label.to_owned()].into_iter().chain(properties).chain(others).collect()
}

/// Prints the remains of a deletion.
pub(super) fn show_deleted(response: &Response, what: &str, format: Format) -> Result<(), Failure> {
    show(&response.body, format, |output| {
        let deleted: Deleted = read(&response.body)?;
        output.line(&format!("deleted {what}; its last items expire around {}", deleted.items_expire_by))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_is_shown_by_its_differences() {
        let before = json!({"ttl": "30d", "owner": "a", "updated_at": "1", "labels": {}, "max_items": 9});
        let after = json!({"ttl": "14d", "owner": "a", "updated_at": "2", "labels": {"k": "v"}});
        let reported = r#"labels {} -> {"k":"v"}, max_items 9 -> -, ttl 30d -> 14d"#;
        assert_eq!(differences(&before, &after), reported);
        assert_eq!(differences(&json!(null), &after), "");
    }
}
