//! `liststore log`: the log configuration of a running server.

use clap::{ArgGroup, Args, Subcommand};
use liststore_contract::operations::change_log::LogInput;
use liststore_contract::operations::{change_log, get_log};

use super::block_on;
use super::failure::Failure;
use super::output::show;
use super::parse::{Author, Way};
use crate::client::{Request, read};
use crate::domain::{self, AccessLog};
use crate::wire::LogState;

/// Show and change the log configuration of a running server
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore log get
  liststore log set --filter info,liststore::items=debug
  liststore log set --filter info --access off

Each server has a separate log: --url selects the server. A restart uses
log.filter and log.access of the settings again.")]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Get(Get),
    Set(Set),
}

/// Show the log configuration
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore log get --output json")]
struct Get {
    #[command(flatten)]
    way: Way,
}

/// Change the log configuration
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore log set --access errors
  liststore log set --filter debug --local --data-dir /var/lib/liststore

Requires a key with the role operator or admin, an open server, or --local. The
change is written to the audit trail first; if that fails, nothing changes.")]
#[command(group(ArgGroup::new("change").required(true).multiple(true).args(["filter", "access"])))]
struct Set {
    /// Directives, such as debug or info,liststore::items=debug
    #[arg(long)]
    filter: Option<String>,
    /// Which requests to log: off, errors (a status of 400 or above) or all
    #[arg(long, value_parser = AccessLog::parse, value_name = "REQUESTS")]
    access: Option<AccessLog>,
    #[command(flatten)]
    author: Author,
    #[command(flatten)]
    way: Way,
}

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.command {
        Command::Get(Get { way }) => send_and_print(&way, None, &Request::new(&get_log::ROW, &[])),
        Command::Set(Set { filter, access, author, way }) => {
            send_and_print(&way, author.user, &Request::new(&change_log::ROW, &[]).body(&LogInput { filter, access })?)
        }
    }
}

/// Prints a server's log configuration.
fn send_and_print(way: &Way, author: Option<domain::Author>, request: &Request) -> Result<(), Failure> {
    let response = block_on(async { Ok(way.client(author)?.send(request).await?) })?;
    show(&response.body, way.options.output, |output| {
        let LogState { filter, access } = read(&response.body)?;
        output.line(&format!("filter    {filter}"))?;
        output.line(&format!("requests  {access}"))
    })
}
