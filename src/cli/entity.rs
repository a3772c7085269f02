//! `liststore entity`: everything that is kept of one entity, through a server's HTTP API.

use clap::{Args, Subcommand};
use serde_json::value::RawValue;

use super::block_on;
use super::confirm::confirm;
use super::failure::Failure;
use super::find;
use super::output::{Format, Output};
use super::parse::{Author, ServerOptions};
use crate::client::{Client, Request, Retries, printable, read};
use crate::domain::{EntityId, EntityType};
use crate::service::OperationId;
use crate::wire::{EntityErased, ErasedList};

const EXAMPLES: &str = "\
Example:
  liststore entity erase user u-123 --yes

Any text may be an ENTITY_ID; put -- before one that begins with a dash.";

/// Erase all lists of an entity
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Find(find::Arguments),
    Erase(Erase),
}

/// Remove all lists of an entity, of every feature and version, deleted ones too
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore entity erase user u-123
  liststore entity erase user u-123 --yes --output json > receipt.json

It prints a receipt that names every list. Where one could not be cleared, the
exit status is 1: erase again. The audit trail keeps who erased what, with the
entity's ID. It needs lists:write for all features of the entity type.")]
struct Erase {
    /// The kind of entity, such as user
    #[arg(value_parser = EntityType::new)]
    entity_type: EntityType,
    /// The entity, such as u-123
    #[arg(value_parser = EntityId::new)]
    entity_id: EntityId,
    /// Do not ask whether it is meant
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    author: Author,
    #[command(flatten)]
    options: ServerOptions,
}

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.command {
        Command::Find(arguments) => block_on(find::run(arguments)),
        Command::Erase(arguments) => erase(arguments),
    }
}

fn erase(Erase { entity_type, entity_id, yes, author, options }: Erase) -> Result<(), Failure> {
    let entity = format!("{entity_type} {}", printable(entity_id.as_str()));
    if !yes {
        confirm(&format!("Erase all lists of {entity}? This cannot be undone."))?;
    }
    let request = Request::new(OperationId::EraseEntity, &[entity_type.as_str(), entity_id.as_str()]);
    let response = block_on(async {
        let client = Client::new(options.server.url().map_err(Failure::Usage)?, author.user, Retries::PATIENT)?;
        Ok(client.send(&request).await?)
    })?;
    let receipt: EntityErased = read(&response.body)?;
    let mut output = Output::open();
    if options.output == Format::Table {
        let rows: Vec<_> = receipt.lists.iter().map(row).collect();
        output.table(&["FEATURE", "VERSION", "GENERATION", "DEFINITION", "OUTCOME"], &rows)?;
    } else {
        output.json(&read::<Box<RawValue>>(&response.body)?)?;
    }
    output.flush()?;
    let failed = receipt.lists.iter().filter(|list| !list.cleared).count();
    if failed > 0 {
        return Err(Failure::failed(format!(
            "{failed} of {} lists of {entity} were not cleared: erase again",
            receipt.lists.len()
        )));
    }
    Ok(())
}

fn row(list: &ErasedList) -> Vec<String> {
    let definition = if list.deleted { "deleted" } else { "present" };
    let outcome = match &list.problem {
        None => "cleared".to_owned(),
        Some(problem) => format!("not cleared: {}", problem.detail),
    };
    vec![list.feature.clone(), list.version.clone(), list.generation.to_string(), definition.to_owned(), outcome]
}
