//! `liststore entity export`, `import` and `copy`: bags in bulk. [`crate::transfer`] does the work.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::copy::Copying;
use super::export::{tell, went_on};
use super::failure::Failure;
use super::output::{Format, Output};
use super::parse::ServerOptions;
use crate::domain::EntityType;
use crate::transfer::{self, CopyBagsOptions, ExportBagsOptions, ImportBagsOptions};

/// Write the bags of an entity type to an NDJSON file, plain or compressed
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore entity export user --file users.ndjson.zst
  liststore entity export user | jq .properties.city

A line is {\"entity_id\": …, \"properties\": …}. The file is FILE.part until it is
whole. The same command continues a run that was cut off: FILE.state holds its
position.")]
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

/// Store the bags of NDJSON files, each in the place of the one before
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore entity import user users.ndjson.zst
  jq -c '{entity_id: .id, properties: .}' people.ndjson |
    liststore entity import user -

A line is {\"entity_id\": …, \"properties\": …}. It stops at the first line that is
none; importing a file again changes no properties. The entity type must be
there.")]
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

The entity type and its indexes are created in the target if they are missing;
those that are there must be alike. At the end the bags of both are counted and
compared; the exit status is 1 if they differ. Let nobody write meanwhile. A bag
that was copied begins its life anew.")]
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
    let told = format!("{} bags{}", exported.bags, went_on(exported.resumed));
    tell(&exported, &told, to_stdout, options.output)
}

pub(super) async fn import(Import { entity_type, files, options }: Import) -> Result<(), Failure> {
    let server = options.server.url().map_err(Failure::Usage)?;
    let imported = transfer::import_bags(ImportBagsOptions { server, entity_type, files }).await?;
    tell(&json!({"bags": imported}), &format!("{imported} bags"), false, options.output)
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
        let told = if copied.is_alike() { "both have the same" } else { "they differ" };
        output.line(&format!(
            "{} bags copied; {} in the source, {} in the target: {told}",
            copied.copied, copied.from.bags, copied.to.bags
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
