//! `liststore feature purge`: clears all lists of a feature by a job of the server.

use std::num::NonZeroU32;

use clap::Args;
use liststore_contract::operations::purge_feature;
use liststore_contract::operations::purge_feature::PurgeInput;

use super::confirm::Yes;
use super::definitions::{ChangeOptions, labels};
use super::extent;
use super::failure::Failure;
use super::jobs::{Wait, begin};
use super::parse::FeatureArguments;
use crate::client::Request;
use crate::domain::VersionLabel;

const EXAMPLES: &str = "\
Examples:
  liststore feature purge user story_presented --wait
  liststore feature purge user story_presented --lists-per-second 500
  liststore feature purge user story_presented --deleted-only --yes

The server runs a background job that survives restarts: liststore jobs shows,
pauses and cancels it. The definitions remain. Items added during the purge may
remain. Requires lists:write.";

/// Clear all lists of a feature now instead of at the end of their TTL
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    feature: FeatureArguments,
    /// Only the lists of this version; the default version has the label "" [default: all versions]
    #[arg(long, value_parser = VersionLabel::new)]
    version: Option<VersionLabel>,
    /// Only lists of deleted versions and generations
    #[arg(long)]
    deleted_only: bool,
    /// Maximum number of lists to clear per second
    #[arg(long, value_name = "LISTS")]
    lists_per_second: Option<NonZeroU32>,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    wait: Wait,
    #[command(flatten)]
    options: ChangeOptions,
}

pub(super) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { feature, version, deleted_only, lists_per_second, yes, wait, options } = arguments;
    let id = feature.id();
    let client = options.client()?;
    yes.confirm(async {
        let of = version.as_ref().map(|version| format!(", version {:?}", version.as_str())).unwrap_or_default();
        let which = match (deleted_only, &version) {
            (true, _) => "all lists of deleted versions".to_owned(),
            (false, Some(version)) => extent::of_lists(&client, &id, std::slice::from_ref(version)).await?,
            (false, None) => extent::of_lists(&client, &id, &labels(&client, &id).await?).await?,
        };
        Ok(format!("Clear {which} of {id}{of}? This cannot be undone."))
    })
    .await?;
    let input = PurgeInput { version, deleted_only, lists_per_second };
    let request = Request::of_feature(&purge_feature::ROW, &id).body(&input)?;
    begin(&client, &request, &wait, options.output()).await
}
