//! `liststore entity`: all data of one entity, through a server's HTTP API.

use clap::{Args, Subcommand};
use liststore_contract::operations::erase_entity;
use liststore_contract::operations::erase_entity::{EntityErased, ErasedBag, ErasedList};

use super::confirm::Yes;
use super::extent;
use super::failure::Failure;
use super::find;
use super::output::show;
use super::parse::{Author, ServerOptions};
use super::{bag, bag_files, block_on};
use crate::client::{Request, printable, read};
use crate::domain::{EntityId, EntityType};
use crate::wire::ProblemBody;

const EXAMPLES: &str = "\
Examples:
  liststore entity put user u-17 '{\"name\": \"Ada\", \"city\": \"Paris\"}'
  liststore entity patch user u-17 '{\"city\": \"Rome\"}'
  liststore entity get user u-17 --lists story_presented:10
  liststore entity delete user u-17
  liststore entity export user --file users.ndjson.zst
  liststore entity erase user u-17 --yes

An ENTITY_ID can be any text; write -- before an ID that begins with a dash.";

/// Read, change and move the bags of entities, and erase entities
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Find(find::Arguments),
    Put(bag::Put),
    Get(bag::Get),
    Patch(bag::Patch),
    Delete(bag::Delete),
    Export(bag_files::Export),
    Import(bag_files::Import),
    Copy(bag_files::Copy),
    Erase(Erase),
}

/// Remove the bag and all lists of an entity, including lists of deleted features
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore entity erase user u-123
  liststore entity erase user u-123 --yes --output json > receipt.json

The command prints a receipt that names every list. If a list could not be
cleared, the exit status is 1: run the command again. The audit trail records
the caller and the entity's ID. Requires lists:write for all features of the
entity type.")]
struct Erase {
    /// The kind of entity, such as user
    #[arg(value_parser = EntityType::new)]
    entity_type: EntityType,
    /// The entity, such as u-123
    #[arg(value_parser = EntityId::new)]
    entity_id: EntityId,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    author: Author,
    #[command(flatten)]
    options: ServerOptions,
}

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.command {
        Command::Find(arguments) => block_on(find::run(arguments)),
        Command::Put(arguments) => block_on(bag::put(arguments)),
        Command::Get(arguments) => block_on(bag::get(arguments)),
        Command::Patch(arguments) => block_on(bag::patch(arguments)),
        Command::Delete(arguments) => block_on(bag::delete(arguments)),
        Command::Export(arguments) => block_on(bag_files::export(arguments)),
        Command::Import(arguments) => block_on(bag_files::import(arguments)),
        Command::Copy(arguments) => block_on(bag_files::copy(arguments)),
        Command::Erase(arguments) => erase(arguments),
    }
}

fn erase(Erase { entity_type, entity_id, yes, author, options }: Erase) -> Result<(), Failure> {
    let entity = format!("{entity_type} {}", printable(entity_id.as_str()));
    let request = Request::new(&erase_entity::ROW, &[entity_type.as_str(), entity_id.as_str()]);
    let response = block_on(async {
        let client = options.server.client(author.user)?;
        yes.confirm(async {
            let lists = extent::of_entity(&client, &entity_type, &entity_id).await?;
            Ok(format!("Erase {entity}: its bag, {lists}, and what deleted features left? This cannot be undone."))
        })
        .await?;
        Ok(client.send(&request).await?)
    })?;
    let receipt: EntityErased = read(&response.body)?;
    show(&response.body, options.output, |output| {
        let rows: Vec<_> = receipt.lists.iter().map(row).chain(receipt.bags.iter().map(row_of_bag)).collect();
        output.table(&["FEATURE", "VERSION", "GENERATION", "DEFINITION", "OUTCOME"], &rows)?;
        let date = receipt.bytes_erased_by.as_ref();
        date.map_or(Ok(()), |by| output.line(&format!("All data files will be free of the erased bytes by {by}.")))
    })?;
    let cleared = receipt.lists.iter().map(|list| list.cleared).chain(receipt.bags.iter().map(|bag| bag.cleared));
    let (all, failed) = (cleared.clone().count(), cleared.filter(|cleared| !cleared).count());
    if failed > 0 {
        return Err(Failure::failed(format!("{failed} of {all} lists of {entity} were not cleared: erase again")));
    }
    if !receipt.complete {
        return Err(Failure::failed(format!("the erasure of {entity} is not complete: erase again")));
    }
    Ok(())
}

fn row(list: &ErasedList) -> Vec<String> {
    let (definition, outcome) = describe_outcome(list.deleted, list.problem.as_ref());
    vec![list.feature.clone(), list.version.clone(), list.generation.to_string(), definition, outcome]
}

fn row_of_bag(bag: &ErasedBag) -> Vec<String> {
    let (definition, outcome) = describe_outcome(bag.deleted, bag.problem.as_ref());
    vec!["(bag)".to_owned(), String::new(), bag.generation.to_string(), definition, outcome]
}

fn describe_outcome(deleted: bool, problem: Option<&ProblemBody>) -> (String, String) {
    let definition = if deleted { "deleted" } else { "present" };
    let outcome = match problem {
        None => "cleared".to_owned(),
        Some(problem) => format!("not cleared: {}", problem.detail),
    };
    (definition.to_owned(), outcome)
}
