//! `liststore copy`: definitions and items from one server to another. [`crate::transfer`] does the work.

use std::path::PathBuf;

use clap::Args;

use super::block_on;
use super::failure::Failure;
use super::output::{Format, Output};
use super::parse::{Server, TlsArguments};
use crate::client::ServerUrl;
use crate::domain::{EntityType, FeatureName, VersionLabel};
use crate::transfer::{self, Copied, CopyOptions};

const EXAMPLES: &str = "\
Examples:
  liststore copy --from http://127.0.0.1:8080 \\
    --to http://lists-on-cassandra:8080
  liststore copy --from http://127.0.0.1:8080 \\
    --to http://other:8080 user story_presented
  liststore copy --from http://a:8080 --to http://b:8080 --state copy.state \\
    --output json

The command creates missing features and versions in the target; existing ones
must have the same value type, ttl, max_items and identity. At the end it
counts and compares the items of both servers, except items that are about to
expire, and exits with 1 if they differ. Stop all writers during the copy.

To copy the items of a version to another version that differs only in its
bucket, on the same server or another:
  liststore copy --from http://a:8080 --to http://a:8080 \\
    user story_presented --version '' --to-version by_month
During this copy, writers must add to both versions and must not remove items.";

/// Copy features with their items from one server to another, with any stores
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Only features of this entity type
    #[arg(value_parser = EntityType::new)]
    entity_type: Option<EntityType>,
    /// Only this feature
    #[arg(value_parser = FeatureName::new)]
    feature: Option<FeatureName>,
    /// Only this version of the feature, which must exist on both servers
    #[arg(long, value_name = "VERSION", value_parser = VersionLabel::new, requires = "feature")]
    version: Option<VersionLabel>,
    /// The version to copy to [default: the same]
    #[arg(long, value_name = "VERSION", value_parser = VersionLabel::new, requires = "version")]
    to_version: Option<VersionLabel>,
    #[command(flatten)]
    copying: Copying,
}

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { entity_type, feature, version, to_version, copying } = arguments;
    let (from, to) = copying.servers()?;
    let Copying { state, output, .. } = copying;
    let version = version.map(|version| (version.clone(), to_version.unwrap_or(version)));
    let options = CopyOptions { from, to, entity_type, feature, version, state };
    let copied = block_on(async { transfer::copy(options).await.map_err(Failure::from) })?;
    print(&copied, output)?;
    let differ: Vec<_> = copied.iter().filter(|copied| !copied.is_alike()).map(|copied| &*copied.feature).collect();
    if differ.is_empty() {
        return Ok(());
    }
    let reported = "the servers differ in these features: stop all writers and copy again (items that only \
                    the target has stay)";
    Err(Failure::failed(format!("{reported}: {}", differ.join(", "))))
}

/// The source and the target of a copy.
#[derive(Debug, Args)]
pub(super) struct Copying {
    /// The URL of the server to copy from
    #[arg(long, value_name = "URL", value_parser = ServerUrl::parse)]
    from: ServerUrl,
    /// The URL of the server to copy to
    #[arg(long, value_name = "URL", value_parser = ServerUrl::parse)]
    to: ServerUrl,
    /// A file with the API key for the source [default: none]
    #[arg(long, value_name = "FILE")]
    from_token_file: Option<PathBuf>,
    /// A file with the API key for the target [default: none]
    #[arg(long, value_name = "FILE")]
    to_token_file: Option<PathBuf>,
    #[command(flatten)]
    tls: TlsArguments,
    /// A file for the progress, to continue an interrupted copy
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// How to print data
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Format,
}

impl Copying {
    /// The servers, each with a separate key. No key comes from the environment, so that neither server gets the
    /// other's key.
    pub(super) fn servers(&self) -> Result<(ServerUrl, ServerUrl), Failure> {
        let server = |url: &ServerUrl, token_file: &Option<PathBuf>| match token_file {
            Some(_) => {
                let (url, token_file, tls) = (url.clone(), token_file.clone(), self.tls.clone());
                Server { url, token_file, tls }.url().map_err(Failure::Usage)
            }
            None => Ok(url.clone().with_tls(self.tls.tls())),
        };
        Ok((server(&self.from, &self.from_token_file)?, server(&self.to, &self.to_token_file)?))
    }
}

fn print(copied: &[Copied], format: Format) -> Result<(), Failure> {
    let mut output = Output::open();
    match format {
        Format::Json => output.json(&copied)?,
        Format::Ndjson => copied.iter().try_for_each(|copied| output.json(copied))?,
        Format::Table => {
            let row = |copied: &Copied| {
                vec![
                    copied.feature.clone(),
                    copied.version.clone(),
                    copied.copied.to_string(),
                    copied.to.lists.to_string(),
                    copied.to.items.to_string(),
                    format!("{:016x}", copied.to.checksum),
                    if copied.is_alike() { "alike" } else { "DIFFERENT" }.to_owned(),
                ]
            };
            let header = ["FEATURE", "VERSION", "COPIED", "LISTS", "ITEMS", "CHECKSUM", "COMPARED"];
            output.table(&header, &copied.iter().map(row).collect::<Vec<_>>())?;
        }
    }
    output.flush()
}
