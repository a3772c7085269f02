//! `liststore entity export`, `import` and `copy`: bags in bulk. [`crate::transfer`] does the work.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::copy::Copying;
use super::export::{print_summary, resume_note};
use super::failure::Failure;
use super::output::{Format, Output, counted};
use super::parse::ServerOptions;
use crate::domain::EntityType;
use crate::transfer::{self, CopyBagsOptions, ExportBagsOptions, ImportBagsOptions};

/// Write the bags of an entity type to an NDJSON file, plain or compressed
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore entity export user --file users.ndjson.zst
  liststore entity export user | jq .properties.city

Each line is {\"entity_id\": …, \"properties\": …}. The file is named FILE.part
until it is complete. Run the same command again to continue an interrupted
export: FILE.state has its position.")]
pub(super) struct Export {
    /// The kind of entity, such as user
    #[arg(value_parser = EntityType::new)]
    entity_type: EntityType,
    /// The file; compressed if its name ends with .gz or .zst; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    options: ServerOptions,
}

/// Store the bags of NDJSON files, replacing existing bags
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore entity import user users.ndjson.zst
  jq -c '{entity_id: .id, properties: .}' people.ndjson |
    liststore entity import user -

Each line must be {\"entity_id\": …, \"properties\": …}. The import stops at the
first malformed line. Of several lines for one entity, the last one counts.
Importing a file again changes no properties. The entity type must exist.")]
pub(super) struct Import {
    /// The kind of entity, such as user
    #[arg(value_parser = EntityType::new)]
    entity_type: EntityType,
    /// The files, plain or compressed with gzip or zstd; - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    options: ServerOptions,
}

/// Copy the bags of an entity type from one server to another
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore entity copy user --from http://127.0.0.1:8080 \\
    --to http://other:8080 --state users.state

The command creates the entity type and its indexes in the target if they are
missing; existing ones must be equal. At the end it counts and compares the bags
of both servers, and exits with 1 if they differ. Stop all writers during the
copy. The time to live of a copied bag restarts.")]
pub(super) struct Copy {
    /// The kind of entity, such as user
    #[arg(value_parser = EntityType::new)]
    entity_type: EntityType,
    #[command(flatten)]
    copying: Copying,
}

pub(super) async fn export(Export { entity_type, file, options }: Export) -> Result<(), Failure> {
    let to_stdout = file.as_os_str() == "-";
    let server = options.server.url().map_err(Failure::Usage)?;
    let exported = transfer::export_bags(ExportBagsOptions { server, entity_type, output: file }).await?;
    let summary = format!("{}{}", counted(exported.bags, "bag"), resume_note(exported.resumed));
    print_summary(&exported, &summary, to_stdout, options.output)
}

pub(super) async fn import(Import { entity_type, files, options }: Import) -> Result<(), Failure> {
    let server = options.server.url().map_err(Failure::Usage)?;
    let imported = transfer::import_bags(ImportBagsOptions { server, entity_type, files }).await?;
    print_summary(&json!({"bags": imported}), &counted(imported, "bag"), false, options.output)
}

pub(super) async fn copy(arguments: Copy) -> Result<(), Failure> {
    let Copy { entity_type, copying } = arguments;
    let (from, to) = copying.servers()?;
    let Copying { state, output: format, .. } = copying;
    let copied = transfer::copy_bags(CopyBagsOptions { from, to, entity_type, state }).await?;
    let mut output = Output::open();
    if format == Format::Table {
        if copied.brought.entity_type_created {
            output.line(&format!("created the entity type {} in the target", copied.entity_type))?;
        }
        for index in &copied.brought.indexes_created {
            output.line(&format!("created the index {index} in the target"))?;
        }
        let verdict = if copied.is_alike() { "both are equal" } else { "they differ" };
        output.line(&format!(
            "{} bags copied; {} in the source, {} in the target: {verdict}",
            copied.copied, copied.from.bags, copied.to.bags
        ))?;
    } else {
        output.json(&copied)?;
    }
    output.flush()?;
    if copied.is_alike() {
        return Ok(());
    }
    let hint = "stop all writers and copy again (bags that only the target has stay)";
    Err(Failure::failed(format!("the bags of {} differ: {hint}", copied.entity_type)))
}
