//! `liststore feature export` and `import`: definitions as YAML files. [`crate::transfer`] does the work.

use std::io::Read;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::confirm::Yes;
use super::failure::Failure;
use super::output::{Format, Output, counted};
use super::parse::{Author, Server, ServerOptions};
use crate::client::printable;
use crate::transfer::{Plan, export_definitions};

/// The largest size of a file, far above the definitions of any server.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Print all definitions as YAML
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore feature export > features.yaml")]
pub(super) struct Export {
    #[command(flatten)]
    server: Server,
}

/// Apply the definitions of a YAML file and show the changes
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore feature import features.yaml --dry-run
  liststore feature import features.yaml --user ann
  liststore feature import features.yaml --prune --yes
  liststore feature import features.yaml --dry-run --output json

Definitions that are not in the file remain unchanged, unless --prune deletes
them.")]
pub(super) struct Import {
    /// The file; - is standard input
    file: PathBuf,
    /// Show the changes without applying them
    #[arg(long)]
    dry_run: bool,
    /// Delete features, versions, entity types and indexes that are not in the file
    #[arg(long)]
    prune: bool,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    author: Author,
    #[command(flatten)]
    options: ServerOptions,
}

pub(super) async fn export(arguments: Export) -> Result<(), Failure> {
    let client = arguments.server.client(None)?;
    let mut output = Output::open();
    output.text(&export_definitions(&client).await?)?;
    output.flush()
}

pub(super) async fn import(arguments: Import) -> Result<(), Failure> {
    let Import { file, dry_run, prune, yes, author, options } = arguments;
    let client = options.server.client(author.user)?;
    let plan = Plan::make(&client, &read(&file)?, prune).await?;
    let mut output = Output::open();
    if options.output != Format::Table {
        if !dry_run {
            confirm(&plan, yes).await?;
            plan.carry_out(&client).await?;
        }
        output.json(
            &json!({"dry_run": dry_run, "changes": plan.changes().collect::<Vec<_>>(), "left_alone": plan.left}),
        )?;
        return output.flush();
    }
    for step in &plan.steps {
        output.line(&printable(&step.to_string()))?;
    }
    for left in &plan.left {
        output.line(&printable(&format!("  {left} is not in the file: unchanged")))?;
    }
    let done = match (plan.steps.len(), dry_run) {
        (0, _) => "no changes".to_owned(),
        (changes, true) => format!("{} would be made", counted(changes as u64, "change")),
        (changes, false) => {
            // The changes are shown before they are made.
            output.flush()?;
            confirm(&plan, yes).await?;
            plan.carry_out(&client).await?;
            let were = if changes == 1 { "was" } else { "were" };
            format!("{} {were} made", counted(changes as u64, "change"))
        }
    };
    output.line(&done)?;
    output.flush()
}

/// Asks before something is deleted.
async fn confirm(plan: &Plan, yes: Yes) -> Result<(), Failure> {
    let deletions = plan.deletions();
    if deletions.is_empty() {
        return Ok(());
    }
    let counts: Vec<_> = deletions.into_iter().map(|(kind, count)| counted(count, kind)).collect();
    let question = format!(
        "The file does not have {}. Delete them with the items of their lists? This cannot be undone.",
        counts.join(", ")
    );
    yes.confirm(async { Ok(question) }).await
}

fn read(file: &PathBuf) -> Result<String, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::failed(format!("cannot read {}: {error}", file.display()));
    let input: Box<dyn Read> = match file.as_os_str() == "-" {
        true => Box::new(std::io::stdin()),
        false => Box::new(std::fs::File::open(file).map_err(|error| failed(&error))?),
    };
    let mut text = String::new();
    let bytes = input.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| failed(&error))?;
    // An incomplete file must not count as the complete set.
    if bytes as u64 > FILE_BYTES_MAX {
        return Err(failed(&format!("it is larger than {} MiB", FILE_BYTES_MAX >> 20)));
    }
    Ok(text)
}
