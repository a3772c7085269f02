//! `liststore entity put`, `get`, `patch` and `delete`: the bag of an entity.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;

use clap::Args;
use liststore_contract::operations::batch_get_bags::{BagRequest, BatchGetBagsInput, JoinedAggregates};
use liststore_contract::operations::{batch_get_bags, delete_bag, get_bag, patch_bag, put_bag};
use liststore_contract::row::Row;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::definitions::Condition;
use super::failure::Failure;
use super::list::aggregate;
use super::output::{Format, Output, show};
use super::parse::ServerOptions;
use crate::client::{Request, Response, printable, read};
use crate::domain::document::DOCUMENT_BYTES_MAX;
use crate::domain::{EntityId, EntityType, FeatureName};
use crate::wire::parameters::JOINED_LISTS;
use crate::wire::{AggregateInput, Aggregated, Bag, BagStored, Item, ProblemBody, read_joined_lists};

/// An entity.
#[derive(Debug, Args)]
struct Entity {
    /// The kind of entity, such as user
    #[arg(value_parser = EntityType::new)]
    entity_type: EntityType,
    /// The entity, such as u-123
    #[arg(value_parser = EntityId::new)]
    entity_id: EntityId,
}

impl Entity {
    fn request(&self, operation: &'static Row) -> Request {
        Request::new(operation, &[self.entity_type.as_str(), self.entity_id.as_str()])
    }
}

/// A JSON object.
#[derive(Debug, Args)]
struct Document {
    /// A JSON object
    #[arg(value_name = "JSON", required_unless_present = "file")]
    json: Option<String>,
    /// The file with the JSON object; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    file: Option<PathBuf>,
}

impl Document {
    fn text(self) -> Result<Vec<u8>, Failure> {
        let text = self.read()?;
        if text.trim_ascii().is_empty() {
            return Err(Failure::Usage(
                "the document is empty: pass a JSON object such as {\"city\": \"Paris\"}".to_owned(),
            ));
        }
        Ok(text)
    }

    fn read(self) -> Result<Vec<u8>, Failure> {
        let Some(file) = self.file else { return Ok(self.json.unwrap_or_default().into_bytes()) };
        let name = file.display().to_string();
        // No server accepts more, and a longer document is refused there.
        let bounded = |input: &mut dyn Read| {
            let mut text = Vec::new();
            input.take(DOCUMENT_BYTES_MAX as u64 + 1).read_to_end(&mut text).map(|_| text)
        };
        let text = if name == "-" {
            bounded(&mut io::stdin().lock())
        } else {
            fs::File::open(&file).and_then(|mut input| bounded(&mut input))
        };
        text.map_err(|e| Failure::failed(format!("cannot read {name}: {e}")))
    }
}

/// Store a JSON object as the bag of an entity, replacing an existing bag
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore entity put user u-17 '{\"name\": \"Ada\", \"city\": \"Paris\"}'
  liststore entity put user u-17 --file ada.json --if-match '\"17f2ab\"'
  jq '.ada' users.json | liststore entity put user u-17 --file - --only-new")]
pub(super) struct Put {
    #[command(flatten)]
    entity: Entity,
    #[command(flatten)]
    document: Document,
    #[command(flatten)]
    condition: Condition,
    /// Only if the entity has no bag
    #[arg(long, conflicts_with = "if_match")]
    only_new: bool,
    #[command(flatten)]
    options: ServerOptions,
}

/// Show the bags of one or more entities, optionally with items of their lists
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore entity get user u-17
  liststore entity get user u-17 u-18 u-19 --output ndjson
  liststore entity get user u-17 --lists story_presented:10 --output json
  liststore entity get user u-17 --aggregate 'payment={\"windows\": [\"1h\", \"24h\"],
    \"aggregates\": [{\"name\": \"payments\", \"function\": \"count\"}]}'")]
pub(super) struct Get {
    /// The kind of entity, such as user
    #[arg(value_parser = EntityType::new)]
    entity_type: EntityType,
    /// The entities, such as u-123; at most 1,000
    #[arg(required = true, value_name = "ENTITY_ID", value_parser = EntityId::new)]
    entity_ids: Vec<EntityId>,
    /// Features whose lists to include, each with an optional number of items: seen:10,bought
    #[arg(long, value_name = "LISTS", value_parser = lists)]
    lists: Option<String>,
    /// A feature and the aggregates of its list to include, as in the API; several features are allowed
    #[arg(long = "aggregate", value_name = "FEATURE=JSON", value_parser = joined_aggregates)]
    aggregates: Vec<(FeatureName, AggregateInput)>,
    #[command(flatten)]
    options: ServerOptions,
}

/// Change the bag of an entity with a merge patch (RFC 7396); null removes a member
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore entity patch user u-17 '{\"city\": \"Rome\", \"age\": null}'
  liststore entity patch user u-17 --file change.json --output json")]
pub(super) struct Patch {
    #[command(flatten)]
    entity: Entity,
    #[command(flatten)]
    document: Document,
    #[command(flatten)]
    condition: Condition,
    #[command(flatten)]
    options: ServerOptions,
}

/// Delete the bag of an entity; its lists remain
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore entity delete user u-17

liststore entity erase also removes the lists.")]
pub(super) struct Delete {
    #[command(flatten)]
    entity: Entity,
    #[command(flatten)]
    condition: Condition,
    #[command(flatten)]
    options: ServerOptions,
}

fn lists(text: &str) -> Result<String, String> {
    read_joined_lists(text).map(|_| text.to_owned()).map_err(|problem| problem.detail.into_owned())
}

fn joined_aggregates(text: &str) -> Result<(FeatureName, AggregateInput), String> {
    let example = r#"expected FEATURE=JSON such as payment={"windows":["1h"],"aggregates":[...]}"#;
    let (feature, json) = text.split_once('=').ok_or(example)?;
    let feature = FeatureName::new(feature).map_err(|invalid| invalid.to_string())?;
    let input = AggregateInput::read(json.as_bytes()).map_err(|problem| match &problem.field {
        Some(field) => format!("{field}: {}", problem.detail),
        None => problem.detail.into_owned(),
    })?;
    Ok((feature, input))
}

pub(super) async fn put(arguments: Put) -> Result<(), Failure> {
    let Put { entity, document, condition, only_new, options } = arguments;
    let request = entity.request(&put_bag::ROW).json(document.text()?).if_match(condition.if_match);
    let request = if only_new { request.if_none() } else { request };
    let response = options.server.client(None)?.send(&request).await?;
    show(&response.body, options.output, |output| {
        let stored: BagStored = read(&response.body)?;
        let etag = response.etag.as_deref().unwrap_or_default();
        head(output, &stored.entity_type, &stored.entity_id, &stored.updated_at, etag)
    })
}

pub(super) async fn get(arguments: Get) -> Result<(), Failure> {
    let Get { entity_type, entity_ids, lists, aggregates, options } = arguments;
    let mut joined = JoinedAggregates::new();
    for (feature, input) in aggregates {
        if joined.insert(feature.clone(), input).is_some() {
            return Err(Failure::Usage(format!("--aggregate: duplicate feature {feature}")));
        }
    }
    if let ([entity_id], true) = (&*entity_ids, joined.is_empty()) {
        let entity = Entity { entity_type, entity_id: entity_id.clone() };
        let request = entity.request(&get_bag::ROW).query(&JOINED_LISTS, lists);
        return show_bag(&options.server.client(None)?.send(&request).await?, options.output);
    }
    let request = |entity_id: &EntityId| BagRequest { entity_type: entity_type.clone(), entity_id: entity_id.clone() };
    let input = BatchGetBagsInput { requests: entity_ids.iter().map(request).collect(), aggregates: joined };
    let request = Request::new(&batch_get_bags::ROW, &[]).query(&JOINED_LISTS, lists).body(&input)?;
    let response = options.server.client(None)?.send(&request).await?;
    show_each(&entity_ids, &input.aggregates, &response, options.output)
}

/// Prints each bag, or why it is missing.
fn show_each(
    entity_ids: &[EntityId],
    aggregates: &JoinedAggregates,
    response: &Response,
    format: Format,
) -> Result<(), Failure> {
    #[derive(Deserialize)]
    struct Results {
        results: Vec<Box<RawValue>>,
    }
    #[derive(Deserialize)]
    struct Failed {
        problem: Option<ProblemBody>,
    }
    let Results { results } = read(&response.body)?;
    let mut output = Output::open();
    let mut missing = 0;
    if format == Format::Json {
        output.json(&read::<Box<RawValue>>(&response.body)?)?;
    }
    for (number, (entity_id, result)) in entity_ids.iter().zip(&results).enumerate() {
        let Failed { problem } = read(result.get().as_bytes())?;
        missing += usize::from(problem.is_some());
        match (format, problem) {
            (Format::Json, _) => {}
            (Format::Ndjson, _) => output.json(result)?,
            (Format::Table, problem) => {
                if number > 0 {
                    output.line("")?;
                }
                match problem {
                    Some(problem) => {
                        let id = printable(entity_id.as_str());
                        output.line(&format!("{id}: {}", printable(&problem.detail)))?;
                    }
                    None => table(&mut output, read(result.get().as_bytes())?, aggregates)?,
                }
            }
        }
    }
    output.flush()?;
    if missing > 0 {
        return Err(Failure::failed(format!("{missing} of {} entities could not be read", results.len())));
    }
    Ok(())
}

pub(super) async fn patch(Patch { entity, document, condition, options }: Patch) -> Result<(), Failure> {
    let request = entity.request(&patch_bag::ROW).json(document.text()?).if_match(condition.if_match);
    show_bag(&options.server.client(None)?.send(&request).await?, options.output)
}

pub(super) async fn delete(Delete { entity, condition, options }: Delete) -> Result<(), Failure> {
    let request = entity.request(&delete_bag::ROW).if_match(condition.if_match);
    options.server.client(None)?.send(&request).await?;
    let mut output = Output::open();
    if options.output == Format::Table {
        let Entity { entity_type, entity_id } = entity;
        output.line(&format!("deleted the bag of {entity_type} {}", printable(entity_id.as_str())))?;
    }
    output.flush()
}

/// A list that was returned with a bag, or its error.
#[derive(Deserialize)]
struct Joined {
    #[serde(default)]
    items: Vec<Item>,
    problem: Option<ProblemBody>,
}

/// Aggregates that were returned with a bag, or their error.
#[derive(Deserialize)]
#[serde(untagged)]
enum JoinedWindows {
    Failed { problem: ProblemBody },
    Aggregated(Aggregated),
}

fn show_bag(response: &Response, format: Format) -> Result<(), Failure> {
    show(&response.body, format, |output| table(output, read(&response.body)?, &JoinedAggregates::new()))
}

/// Prints a bag, and the lists and aggregates that were returned with it.
fn table(output: &mut Output, bag: Bag, aggregates: &JoinedAggregates) -> Result<(), Failure> {
    head(output, &bag.entity_type, &bag.entity_id, &bag.updated_at, &bag.etag)?;
    output.line(&printable(bag.properties.get()))?;
    let lists: Option<BTreeMap<String, Joined>> = bag.lists.map(|lists| read(lists.get().as_bytes())).transpose()?;
    for (feature, list) in lists.into_iter().flatten() {
        output.line("")?;
        if let Some(problem) = list.problem {
            output.line(&format!("{feature}: {}", printable(&problem.detail)))?;
            continue;
        }
        let row = |item: Item| vec![item.timestamp, item.key.unwrap_or_default(), item.value.get().to_owned()];
        let rows: Vec<_> = list.items.into_iter().map(row).collect();
        output.table(&[&format!("{feature}: TIMESTAMP"), "KEY", "VALUE"], &rows)?;
    }
    let results: Option<BTreeMap<String, JoinedWindows>> =
        bag.aggregates.map(|results| read(results.get().as_bytes())).transpose()?;
    for (feature, result) in results.into_iter().flatten() {
        output.line("")?;
        match (result, aggregates.iter().find(|(name, _)| name.as_str() == feature)) {
            (JoinedWindows::Failed { problem }, _) => {
                output.line(&format!("{feature}: {}", printable(&problem.detail)))?;
            }
            (JoinedWindows::Aggregated(aggregated), Some((_, input))) => {
                aggregate::table(output, &format!("{feature}: WINDOW"), input, &aggregated)?;
            }
            (JoinedWindows::Aggregated(_), None) => {}
        }
    }
    Ok(())
}

fn head(output: &mut Output, kind: &str, id: &str, updated_at: &str, etag: &str) -> Result<(), Failure> {
    output.line(&format!("entity      {kind} {}", printable(id)))?;
    output.line(&format!("updated at  {updated_at}"))?;
    output.line(&format!("etag        {etag}"))
}
