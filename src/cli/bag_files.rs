//! `liststore entity export`, `import` and `copy`: bags in bulk. [`crate::transfer`] does the work.

use std::path::PathBuf;

use clap::Args;

use super::copy::Copying;
use super::failure::Failure;
use super::output::{Format, Output};
use super::parse::Server;
use crate::domain::EntityType;
use crate::transfer::{self, CopyBagsOptions, ExportBagsOptions, ImportBagsOptions};

/// Write the bags of an entity type to an NDJSON file, plain or compressed
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore entity export user --output users.ndjson.gz
  liststore entity export user --output - | jq .properties.city

A line is {\"entity_id\": …, \"properties\": …}. A run that was cut off is taken up
by the same command: FILE.state says where.")]
pub(super) struct Export {
    /// The kind of entity, such as user
    #[arg(value_parser = EntityType::new)]
    entity_type: EntityType,
    /// The file; compressed if its name ends with .gz; - is standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    server: Server,
}

/// Store the bags of NDJSON files, each in the place of the one before
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore entity import user users.ndjson.gz
  jq -c '{entity_id: .id, properties: .}' people.ndjson |
    liststore entity import user -

A line is {\"entity_id\": …, \"properties\": …}. It stops at the first line that is
none; importing a file again changes no properties. The entity type must be
there.")]
pub(super) struct Import {
    /// The kind of entity, such as user
    #[arg(value_parser = EntityType::new)]
    entity_type: EntityType,
    /// The files; compressed if their names end with .gz; - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    server: Server,
}

/// Copy the bags of an entity type from one server to another
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore entity copy user --from http://127.0.0.1:8080 \\
    --to http://other:8080 --state users.state

The entity type, and its indexes, must be there. At the end the bags of both are
counted and compared; the exit status is 1 if they differ. Let nobody write
meanwhile. A bag that was copied begins its life anew.")]
pub(super) struct Copy {
    /// The kind of entity, such as user
    #[arg(value_parser = EntityType::new)]
    entity_type: EntityType,
    #[command(flatten)]
    copying: Copying,
}

pub(super) async fn export(Export { entity_type, output, server }: Export) -> Result<(), Failure> {
    let to_stdout = output.as_os_str() == "-";
    let server = server.url().map_err(Failure::Usage)?;
    let exported = transfer::export_bags(ExportBagsOptions { server, entity_type, output }).await?;
    let went_on = if exported.resumed { ", of which an earlier run wrote some" } else { "" };
    let told = format!("{} bags{went_on}", exported.bags);
    if to_stdout {
        eprintln!("{told}");
        return Ok(());
    }
    let mut output = Output::open();
    output.line(&told)?;
    output.flush()
}

pub(super) async fn import(Import { entity_type, files, server }: Import) -> Result<(), Failure> {
    let server = server.url().map_err(Failure::Usage)?;
    let imported = transfer::import_bags(ImportBagsOptions { server, entity_type, files }).await?;
    let mut output = Output::open();
    output.line(&format!("{imported} bags"))?;
    output.flush()
}

pub(super) async fn copy(arguments: Copy) -> Result<(), Failure> {
    let Copy { entity_type, copying } = arguments;
    let (from, to) = copying.servers()?;
    let Copying { state, output: format, .. } = copying;
    let copied = transfer::copy_bags(CopyBagsOptions { from, to, entity_type, state }).await?;
    let mut output = Output::open();
    if format == Format::Table {
        let told = if copied.is_alike() { "both have the same" } else { "they differ" };
        output.line(&format!(
            "{} bags copied; {} there, {} here: {told}",
            copied.copied, copied.to.bags, copied.from.bags
        ))?;
    } else {
        output.json(&copied)?;
    }
    output.flush()?;
    if copied.is_alike() {
        return Ok(());
    }
    Err(Failure::failed(format!("the bags of {} differ: did somebody write meanwhile?", copied.entity_type)))
}
