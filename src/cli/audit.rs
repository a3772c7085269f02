//! `liststore audit`: changes of definitions, keys and servers, with who made them, through a server's HTTP API.

use clap::Args;
use liststore_contract::operations::list_audit;
use liststore_contract::operations::list_audit::Audited;

use super::block_on;
use super::failure::Failure;
use super::output::show_all;
use super::pages::{Entries, entries, note_more};
use super::parse::{self, ServerOptions};
use crate::client::Request;
use crate::domain::Timestamp;
use crate::wire::parameters::{AUDIT_ACTION, AUDIT_BY, AUDIT_TARGET, PAGE_SIZE, SINCE, UNTIL};

const EXAMPLES: &str = "\
Examples:
  liststore audit
  liststore audit --by key:feed --since -7d
  liststore audit --target user.story_presented --limit 10 --output ndjson
  liststore audit --action change_log

Newest first. Requires a key with the role admin, or an open server.";

/// Show who changed which definitions, keys and servers
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Only changes by or on behalf of this name, such as key:feed
    #[arg(long)]
    by: Option<String>,
    /// Only changes of this target: user.story_presented, user, key:feed, entity:user/u-1, pool, log, backup or job:ID
    #[arg(long)]
    target: Option<String>,
    /// Only changes of this kind, such as create_key or resize_pool
    #[arg(long)]
    action: Option<String>,
    /// Only changes at or after this time, such as 2024-08-29 or -7d
    #[arg(long, value_name = "TIME", value_parser = parse::time, allow_hyphen_values = true)]
    since: Option<Timestamp>,
    /// Only changes at or before this time
    #[arg(long, value_name = "TIME", value_parser = parse::time, allow_hyphen_values = true)]
    until: Option<Timestamp>,
    /// Maximum number of changes to show
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    #[command(flatten)]
    options: ServerOptions,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let request = |page_size| {
        Request::new(&list_audit::ROW, &[])
            .query(&AUDIT_BY, arguments.by.as_ref())
            .query(&AUDIT_TARGET, arguments.target.as_ref())
            .query(&AUDIT_ACTION, arguments.action.as_ref())
            .query(&SINCE, arguments.since)
            .query(&UNTIL, arguments.until)
            .query(&PAGE_SIZE, Some(page_size))
    };
    let options = &arguments.options;
    let limit = usize::try_from(arguments.limit).unwrap_or(usize::MAX);
    let Entries { all: changes, next_page_token } =
        block_on(async { entries(&options.server.client(None)?, limit, request).await })?;
    let header = ["AT", "BY", "FOR", "ACTION", "TARGET", "VERSION, INDEX"];
    show_all("changes", &changes, options.output, &header, row)?;
    note_more(options.output, next_page_token.as_deref());
    Ok(())
}

fn row(change: Audited) -> Vec<String> {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let Audited { at, by, on_behalf_of, action, target, version, index, .. } = change;
    vec![at, by, or_none(on_behalf_of), action, target, or_none(version.or(index))]
}
