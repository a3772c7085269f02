//! `liststore feature`: the definitions of list features, through a server's HTTP API.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Args, Subcommand};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::failure::Failure;
use super::output::{Format, Output};
use super::parse::{self, Author, FeatureArguments, ServerOptions};
use super::{block_on, entities, feature_files};
use crate::client::printable;
use crate::client::{Client, RawPage, Request, Response, Retries, read};
use crate::domain::{
    Bucket, BucketInput, Description, EntityType, IdentityKind, Keep, Limit, MaxItems, MaxItemsInput, Owner, Ttl,
    ValueType,
};
use crate::service::OperationId;
use crate::wire::parameters::{ENTITY_TYPE, PAGE_SIZE, PAGE_TOKEN, TEXT};
use crate::wire::{Change, Deleted, Feature, FeatureInput, FeaturePatch, FeatureVersion};

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

A ttl is whole numbers with units, largest first (30d, 12h, 1d12h), from 1s to
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
    /// How many items of a list are shown, at most: its newest, 1 to 100000 [default: all]
    #[arg(long, value_name = "ITEMS", value_parser = parse::max_items)]
    max_items: Option<MaxItems>,
    /// What tells its items from each other, for ever: item (timestamp and value), value or key
    #[arg(long, value_parser = IdentityKind::parse)]
    identity: Option<IdentityKind>,
    /// Which item of a value or key stays: newest or oldest
    #[arg(long, value_name = "WHICH", value_parser = Keep::parse)]
    keep: Option<Keep>,
    /// Of which period a partition of a list holds the items (with ScyllaDB and Cassandra), for ever: day, week,
    /// month or year [default: none]
    #[arg(long, value_name = "PERIOD", value_parser = parse::bucket)]
    bucket: Option<BucketInput>,
    /// What the feature means
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
    /// Only those of this entity type
    #[arg(long, value_parser = EntityType::new)]
    entity_type: Option<EntityType>,
    /// Only those with this text in their name, description or owner
    #[arg(short, long, value_name = "TEXT")]
    query: Option<String>,
    #[command(flatten)]
    options: ServerOptions,
}

/// Change a feature; what is not named stays
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore feature update user story_presented --ttl 14d
  liststore feature update user story_presented --label team=feed --label tier=1

A shorter ttl takes effect at once. Labels are replaced as a whole; --no-labels
removes them.")]
struct Update {
    #[command(flatten)]
    feature: FeatureArguments,
    /// How long an item of the default version is visible after its timestamp
    #[arg(long, value_parser = parse::ttl)]
    ttl: Option<Ttl>,
    #[command(flatten)]
    max_items: parse::MaxItemsArguments,
    /// What the feature means
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
    /// Only if the feature still has this ETag
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,
    #[command(flatten)]
    author: Author,
    #[command(flatten)]
    options: ServerOptions,
}

/// Delete a feature with all its versions; its items are left to expire
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore feature delete user story_presented

A feature that is created again under the same name starts empty.")]
struct Delete {
    #[command(flatten)]
    feature: FeatureArguments,
    /// Only if the feature still has this ETag
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,
    #[command(flatten)]
    author: Author,
    #[command(flatten)]
    options: ServerOptions,
}

/// Show who changed a feature, when and how, newest first; also after its deletion
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore feature history user story_presented --limit 10")]
struct History {
    #[command(flatten)]
    feature: FeatureArguments,
    /// How many changes to show
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
            Command::History(arguments) => history(arguments).await,
            Command::Entities(arguments) => entities::run(arguments).await,
            Command::Export(arguments) => feature_files::export(arguments).await,
            Command::Import(arguments) => feature_files::import(arguments).await,
        }
    })
}

pub(super) fn client(options: &ServerOptions, author: Author) -> Result<Client, Failure> {
    Ok(Client::new(options.server.url().map_err(Failure::Usage)?, author.user, Retries::PATIENT)?)
}

async fn create(arguments: Create) -> Result<(), Failure> {
    let client = client(&arguments.options, arguments.author)?;
    let input = FeatureInput {
        entity_type: arguments.feature.entity_type,
        name: arguments.feature.feature,
        value_type: arguments.value_type,
        ttl: arguments.ttl,
        max_items: arguments.max_items.map_or(MaxItemsInput::Absent, MaxItemsInput::AtMost),
        identity: arguments.identity,
        keep: arguments.keep,
        bucket: arguments.bucket.unwrap_or_default(),
        description: arguments.description,
        owner: arguments.owner,
        labels: Some(parse::labels(arguments.labels)?),
    };
    let request = Request::new(OperationId::CreateFeature, &[]).body(&input)?;
    show(&client.send(&request).await?, arguments.options.output)
}

async fn get(arguments: Get) -> Result<(), Failure> {
    let client = client(&arguments.options, Author { user: None })?;
    let request = Request::of_feature(OperationId::GetFeature, &arguments.feature.id());
    show(&client.send(&request).await?, arguments.options.output)
}

async fn list(arguments: List) -> Result<(), Failure> {
    let client = client(&arguments.options, Author { user: None })?;
    let mut features: Vec<Box<RawValue>> = Vec::new();
    let mut page_token = None;
    loop {
        let request = Request::new(OperationId::ListFeatures, &[])
            .query(&ENTITY_TYPE, arguments.entity_type.as_ref())
            .query(&TEXT, arguments.query.as_ref())
            .query(&PAGE_SIZE, Some(Limit::PAGE_SIZE_MAX))
            .query(&PAGE_TOKEN, page_token);
        let page: RawPage = client.ask(&request).await?;
        features.extend(page.entries);
        page_token = page.next_page_token;
        if page_token.is_none() {
            break;
        }
    }
    let mut output = Output::open();
    match arguments.options.output {
        Format::Json => output.json(&BTreeMap::from([("features", &features)]))?,
        Format::Ndjson => features.iter().try_for_each(|feature| output.json(feature))?,
        Format::Table => {
            let row = |feature: Feature| {
                vec![
                    feature.entity_type,
                    feature.name,
                    feature.value_type.to_string(),
                    feature.ttl,
                    feature.versions.len().to_string(),
                    feature.owner,
                    feature.description,
                ]
            };
            let rows = features.iter().map(|raw| read_raw(raw).map(row)).collect::<Result<Vec<_>, Failure>>()?;
            output.table(&["ENTITY TYPE", "NAME", "VALUE TYPE", "TTL", "VERSIONS", "OWNER", "DESCRIPTION"], &rows)?;
        }
    }
    output.flush()
}

async fn update(arguments: Update) -> Result<(), Failure> {
    let has_labels = arguments.no_labels || !arguments.labels.is_empty();
    let patch = FeaturePatch {
        ttl: arguments.ttl,
        max_items: arguments.max_items.input(),
        description: arguments.description,
        owner: arguments.owner,
        labels: if has_labels { Some(parse::labels(arguments.labels)?) } else { None },
    };
    if patch.is_empty() {
        return Err(Failure::Usage(
            "name what to change: --ttl, --max-items, --no-max-items, --description, --owner, --label or --no-labels"
                .into(),
        ));
    }
    let client = client(&arguments.options, arguments.author)?;
    let request = Request::of_feature(OperationId::UpdateFeature, &arguments.feature.id())
        .body(&patch)?
        .if_match(arguments.if_match);
    show(&client.send(&request).await?, arguments.options.output)
}

async fn delete(arguments: Delete) -> Result<(), Failure> {
    let client = client(&arguments.options, arguments.author)?;
    let id = arguments.feature.id();
    let request = Request::of_feature(OperationId::DeleteFeature, &id).if_match(arguments.if_match);
    show_deleted(&client.send(&request).await?, &id.to_string(), arguments.options.output)
}

async fn history(arguments: History) -> Result<(), Failure> {
    let client = client(&arguments.options, Author { user: None })?;
    let request = || Request::of_feature(OperationId::GetHistory, &arguments.feature.id());
    show_history(&client, request, arguments.limit as usize, arguments.options.output).await
}

/// Prints the newest entries of an audit trail, which is asked for page by page.
pub(super) async fn show_history(
    client: &Client,
    request: impl Fn() -> Request,
    limit: usize,
    format: Format,
) -> Result<(), Failure> {
    let mut entries: Vec<Box<RawValue>> = Vec::new();
    let mut page_token = None;
    loop {
        let page: RawPage = client.ask(&request().query(&PAGE_TOKEN, page_token)).await?;
        entries.extend(page.entries);
        page_token = page.next_page_token;
        if page_token.is_none() || entries.len() >= limit {
            break;
        }
    }
    entries.truncate(limit);
    let mut output = Output::open();
    match format {
        Format::Json => output.json(&BTreeMap::from([("history", &entries)]))?,
        Format::Ndjson => entries.iter().try_for_each(|entry| output.json(entry))?,
        Format::Table => {
            let row = |entry: Change| {
                let change = match (&entry.before, &entry.after) {
                    (Some(before), Some(after)) => differences(before, after),
                    _ => String::new(),
                };
                vec![entry.at, entry.by, entry.action, entry.version.unwrap_or_default(), change]
            };
            let rows = entries.iter().map(|raw| read_raw(raw).map(row)).collect::<Result<Vec<_>, Failure>>()?;
            output.table(&["AT", "BY", "ACTION", "VERSION", "CHANGE"], &rows)?;
        }
    }
    output.flush()
}

fn read_raw<T: DeserializeOwned>(raw: &RawValue) -> Result<T, Failure> {
    Ok(read(raw.get().as_bytes())?)
}

/// The fields that a change has changed: `ttl 30d -> 14d`.
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
fn show(response: &Response, format: Format) -> Result<(), Failure> {
    let mut output = Output::open();
    if format == Format::Table {
        table(&mut output, &read(&response.body)?, response.etag.as_deref())?;
    } else {
        output.json(&read::<Box<RawValue>>(&response.body)?)?;
    }
    output.flush()
}

fn table(output: &mut Output, feature: &Feature, etag: Option<&str>) -> Result<(), Failure> {
    let labels: Vec<String> = feature.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    for (name, value) in [
        ("feature", format!("{} {}", feature.entity_type, feature.name)),
        ("value type", feature.value_type.to_string()),
        ("ttl", feature.ttl.clone()),
        ("max items", shown_max_items(feature.max_items)),
        ("identity", identity_text(feature.identity, feature.keep)),
        ("bucket", bucket_text(feature.bucket)),
        ("description", feature.description.clone()),
        ("owner", feature.owner.clone()),
        ("labels", labels.join(", ")),
        ("created at", feature.created_at.clone()),
        ("updated at", feature.updated_at.clone()),
        ("etag", etag.unwrap_or_default().to_owned()),
    ] {
        output.line(format!("{name:13}{}", printable(&value)).trim_end())?;
    }
    output.line("")?;
    let rows: Vec<Vec<String>> = feature.versions.iter().map(version_row).collect();
    output.table(&VERSION_HEADER, &rows)
}

fn identity_text(identity: IdentityKind, keep: Option<Keep>) -> String {
    match keep {
        Some(keep) => format!("{identity}, {keep}"),
        None => identity.to_string(),
    }
}

fn bucket_text(bucket: Option<Bucket>) -> String {
    bucket.map_or_else(|| "none".to_owned(), |bucket| bucket.to_string())
}

pub(super) const VERSION_HEADER: [&str; 7] =
    ["VERSION", "TTL", "MAX ITEMS", "IDENTITY", "BUCKET", "CREATED AT", "DESCRIPTION"];

fn shown_max_items(max_items: Option<u64>) -> String {
    max_items.map_or_else(|| "all".to_owned(), |items| items.to_string())
}

pub(super) fn version_row(version: &FeatureVersion) -> Vec<String> {
    let label = if version.version.is_empty() { "(default)" } else { &version.version };
    vec![
        label.to_owned(),
        version.ttl.clone(),
        shown_max_items(version.max_items),
        identity_text(version.identity, version.keep),
        bucket_text(version.bucket),
        version.created_at.clone(),
        version.description.clone(),
    ]
}

/// Prints what a deletion leaves behind.
pub(super) fn show_deleted(response: &Response, what: &str, format: Format) -> Result<(), Failure> {
    let mut output = Output::open();
    if format == Format::Table {
        let deleted: Deleted = read(&response.body)?;
        output.line(&format!("deleted {what}; its items have expired by about {}", deleted.items_expire_by))?;
    } else {
        output.json(&read::<Box<RawValue>>(&response.body)?)?;
    }
    output.flush()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_is_told_by_what_differs() {
        let before = json!({"ttl": "30d", "owner": "a", "updated_at": "1", "labels": {}, "max_items": 9});
        let after = json!({"ttl": "14d", "owner": "a", "updated_at": "2", "labels": {"k": "v"}});
        let told = r#"labels {} -> {"k":"v"}, max_items 9 -> -, ttl 30d -> 14d"#;
        assert_eq!(differences(&before, &after), told);
        assert_eq!(differences(&json!(null), &after), "");
    }
}
