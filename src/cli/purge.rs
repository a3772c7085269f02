//! `liststore purge`: clears all lists of a feature by a job of the server.

use std::num::NonZeroU32;

use clap::Args;

use super::block_on;
use super::confirm::confirm;
use super::definitions::ChangeOptions;
use super::failure::Failure;
use super::jobs::{Wait, begin};
use super::parse::FeatureArguments;
use crate::client::Request;
use crate::domain::VersionLabel;
use crate::service::OperationId;
use crate::wire::PurgeInput;

const EXAMPLES: &str = "\
Examples:
  liststore purge user story_presented --wait
  liststore purge user story_presented --version v2 --lists-per-second 500
  liststore purge user story_presented --deleted-only --yes

A job of the server does it, which goes on by itself and over restarts:
liststore jobs shows, pauses and cancels it. The definitions stay. What is added
meanwhile may stay. It needs lists:write.";

/// Clear all lists of a feature now, rather than at the end of their TTL
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    feature: FeatureArguments,
    /// Only the lists of this version; the default version has the label "" [default: of all]
    #[arg(long, value_parser = VersionLabel::new)]
    version: Option<VersionLabel>,
    /// Only lists of what was deleted since, and may be there again
    #[arg(long)]
    deleted_only: bool,
    /// Lists that are cleared in a second, at most
    #[arg(long, value_name = "LISTS")]
    lists_per_second: Option<NonZeroU32>,
    /// Do not ask whether it is meant
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    wait: Wait,
    #[command(flatten)]
    options: ChangeOptions,
}

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { feature, version, deleted_only, lists_per_second, yes, wait, options } = arguments;
    let id = feature.id();
    if !yes {
        let of = version.as_ref().map(|version| format!(", version {:?}", version.as_str())).unwrap_or_default();
        let which = if deleted_only { "all lists of deleted versions" } else { "all lists" };
        confirm(&format!("Clear {which} of {id}{of}? This cannot be undone."))?;
    }
    let input = PurgeInput { version, deleted_only, lists_per_second };
    let request = Request::of_feature(OperationId::PurgeFeature, &id).body(&input)?;
    block_on(async { begin(&options.client()?, &request, &wait, options.output()).await })
}
