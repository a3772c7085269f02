//! `liststore pool`: the list actors of one server, through its HTTP API.

use clap::{ArgGroup, Args, Subcommand};
use liststore_contract::operations::resize_pool::PoolInput;
use liststore_contract::operations::{get_pool, resize_pool};

use super::block_on;
use super::failure::Failure;
use super::output::show;
use super::parse::{Author, ServerOptions};
use crate::client::{Request, read};
use crate::domain;
use crate::wire::Pool;

const EXAMPLES: &str = "\
Examples:
  liststore pool get
  liststore pool resize --actors 4

Each server has a separate pool: --url selects the server. A restart uses
items.actors and items.permits_per_actor of the settings again.";

/// Show and resize a server's pool of list actors
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Get(Get),
    Resize(Resize),
}

/// Show the number of list actors, their states and their permits
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore pool get --output json")]
struct Get {
    #[command(flatten)]
    options: ServerOptions,
}

/// Change the number of list actors or their permits without interrupting operations
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore pool resize --actors 8
  liststore pool resize --actors 2 --permits 256

The command ends when the resize is complete. Requires a key with the role
scaler, operator or admin, or an open server.")]
#[command(group(ArgGroup::new("change").required(true).multiple(true).args(["actors", "permits"])))]
struct Resize {
    /// List actors, each with one thread and one session with the item store
    #[arg(long, value_parser = whole::<1_024>)]
    actors: Option<usize>,
    /// Operations in flight in each actor
    #[arg(long, value_parser = whole::<1_000_000>)]
    permits: Option<usize>,
    #[command(flatten)]
    author: Author,
    #[command(flatten)]
    options: ServerOptions,
}

/// A number within the bounds of the settings.
fn whole<const MAX: usize>(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=MAX).contains(number));
    number.ok_or_else(|| format!("must be a whole number from 1 to {MAX}"))
}

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.command {
        Command::Get(Get { options }) => send_and_print(&options, None, &Request::new(&get_pool::ROW, &[])),
        Command::Resize(Resize { actors, permits, author, options }) => {
            let size = PoolInput { actors, permits_per_actor: permits };
            send_and_print(&options, author.user, &Request::new(&resize_pool::ROW, &[]).body(&size)?)
        }
    }
}

/// Prints the state of a server's pool.
fn send_and_print(options: &ServerOptions, author: Option<domain::Author>, request: &Request) -> Result<(), Failure> {
    let response = block_on(async { Ok(options.server.client(author)?.send(request).await?) })?;
    show(&response.body, options.output, |output| {
        let Pool { actors, permits_per_actor, permits, states, resizing_to } = read(&response.body)?;
        output.line(&format!("actors             {actors}"))?;
        if let Some(resizing_to) = resizing_to {
            output.line(&format!("resizing to        {resizing_to}"))?;
        }
        output.line(&format!("states             {}", states.join(" ")))?;
        output.line(&format!("permits per actor  {permits_per_actor}"))?;
        let (in_use, limit, bound) = (permits.in_use, permits.limit, permits.bound);
        output.line(&format!("permits            {in_use} in use, {limit} of at most {bound}"))?;
        output.line(&format!("waiting            {}", permits.waiting))
    })
}
