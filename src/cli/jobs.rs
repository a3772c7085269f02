//! `liststore jobs`: the background work of a server, through its HTTP API.

use std::num::NonZeroU32;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use liststore_contract::operations::update_job::JobPatch;
use liststore_contract::operations::{cancel_job, get_job, list_jobs, pause_job, resume_job, update_job};

use super::block_on;
use super::failure::Failure;
use super::output::{Format, show, show_all};
use super::pages::entries;
use super::parse::{Author, ServerOptions};
use crate::client::{Client, Request, Response, printable, read};
use crate::domain::JobId;
use crate::wire::Job;
use crate::wire::parameters::PAGE_SIZE;

/// The interval between checks of a job that the user waits for.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
const BAR: &str = "{bar:30} {pos}/{len}  {msg}";

/// Show, pause, resume and cancel background jobs
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore jobs list
  liststore jobs get 0190a5f2c1d27b6e8f0a1b2c3d4e5f60 --wait
  liststore jobs pause 0190a5f2c1d27b6e8f0a1b2c3d4e5f60
  liststore jobs cancel 0190a5f2c1d27b6e8f0a1b2c3d4e5f60

liststore feature purge, liststore entity-type purge, liststore index clean and
liststore index create start jobs.")]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(List),
    Get(Get),
    Rate(Rate),
    Pause(Pause),
    Resume(Resume),
    Cancel(Cancel),
}

/// Whether the command ends with the job.
#[derive(Debug, Args)]
pub(super) struct Wait {
    /// Show progress until the job ends; interrupting the command does not stop the job
    #[arg(long)]
    pub wait: bool,
}

/// The selected job.
#[derive(Debug, Args)]
struct Named {
    /// The job, as `liststore jobs list` shows it
    #[arg(value_name = "JOB_ID", value_parser = JobId::parse)]
    id: JobId,
    #[command(flatten)]
    options: ServerOptions,
}

/// List all jobs, newest first
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore jobs list --output json")]
struct List {
    #[command(flatten)]
    options: ServerOptions,
}

/// Show a job
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore jobs get 0190a5f2c1d27b6e8f0a1b2c3d4e5f60 --wait

With --wait, the exit status is 0 if the job finished and 1 if it was cancelled.")]
struct Get {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    wait: Wait,
}

/// Change the rate of a job
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  liststore jobs rate 0190a5f2c1d27b6e8f0a1b2c3d4e5f60 --lists-per-second 500
  liststore jobs rate 0190a5f2c1d27b6e8f0a1b2c3d4e5f60 --no-limit")]
#[command(group(ArgGroup::new("rate").required(true).args(["lists_per_second", "no_limit"])))]
struct Rate {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    author: Author,
    /// Lists to clear, or bags and entries to check, per second
    #[arg(long, value_name = "LISTS")]
    lists_per_second: Option<NonZeroU32>,
    /// Remove the limit
    #[arg(long)]
    no_limit: bool,
}

/// Pause a job
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore jobs pause 0190a5f2c1d27b6e8f0a1b2c3d4e5f60")]
struct Pause {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    author: Author,
}

/// Resume a paused job
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore jobs resume 0190a5f2c1d27b6e8f0a1b2c3d4e5f60")]
struct Resume {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    author: Author,
}

/// Cancel a job; finished work is not undone
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  liststore jobs cancel 0190a5f2c1d27b6e8f0a1b2c3d4e5f60")]
struct Cancel {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    author: Author,
}

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    let request = |operation, named: &Named| Request::new(operation, &[&named.id.to_string()]);
    let (request, named, author) = match arguments.command {
        Command::List(List { options }) => return block_on(list(options)),
        Command::Get(Get { named, wait }) if wait.wait => {
            return block_on(async {
                follow(&named.options.server.client(None)?, &named.id.to_string(), named.options.output).await
            });
        }
        Command::Get(Get { named, .. }) => (request(&get_job::ROW, &named), named, None),
        Command::Rate(Rate { named, author, lists_per_second, .. }) => {
            (request(&update_job::ROW, &named).body(&JobPatch { lists_per_second })?, named, author.user)
        }
        Command::Pause(Pause { named, author }) => (request(&pause_job::ROW, &named), named, author.user),
        Command::Resume(Resume { named, author }) => (request(&resume_job::ROW, &named), named, author.user),
        Command::Cancel(Cancel { named, author }) => (request(&cancel_job::ROW, &named), named, author.user),
    };
    block_on(async { show_job(&named.options.server.client(author)?.send(&request).await?.body, named.options.output) })
}

async fn list(options: ServerOptions) -> Result<(), Failure> {
    let request = |page_size| Request::new(&list_jobs::ROW, &[]).query(&PAGE_SIZE, Some(page_size));
    let jobs = entries(&options.server.client(None)?, usize::MAX, request).await?.all;
    let header = ["ID", "KIND", "STATE", "FEATURE", "DONE", "CREATED", "BY"];
    show_all("jobs", &jobs, options.output, &header, row)
}

/// Creates a job, and prints its first state, or its last if the user waits.
pub(super) async fn begin(client: &Client, request: &Request, wait: &Wait, format: Format) -> Result<(), Failure> {
    let response = client.send(request).await?;
    if !wait.wait {
        return show_job(&response.body, format);
    }
    let job: Job = read(&response.body)?;
    follow(client, &job.id, format).await
}

/// The feature of a job, or the entity type whose bags it processes.
fn target(job: &Job) -> String {
    match &job.feature {
        Some(feature) => format!("{}.{feature}", job.entity_type),
        None => job.entity_type.clone(),
    }
}

fn row(job: Job) -> Vec<String> {
    let (feature, cleared) = (target(&job), job.lists_cleared.to_string());
    vec![job.id, job.kind, job.state, feature, cleared, job.created_at, job.created_by]
}

/// Prints a job as the server returned it.
fn show_job(body: &[u8], format: Format) -> Result<(), Failure> {
    show(body, format, |output| {
        let job: Job = read(body)?;
        let target = target(&job);
        let is_clearing = matches!(&*job.kind, "purge" | "drop_index");
        let done = format!("{} of {}", job.generations_cleared, job.generations);
        let count = |count: Option<u64>| count.map(|count| count.to_string()).unwrap_or_default();
        let erased = job.bytes_erased.map_or("not yet".to_owned(), |erased| erased.to_string());
        let rows = [
            ("id", job.id),
            ("kind", job.kind),
            ("state", job.state),
            ("feature", target),
            ("indexes", job.indexes.join(" ")),
            (if is_clearing { "versions cleared" } else { "indexes done" }, done),
            (if is_clearing { "lists cleared" } else { "looked at" }, job.lists_cleared.to_string()),
            ("gone through", job.walked_percent.map(|percent| format!("{percent} %")).unwrap_or_default()),
            ("entries added", count(job.entries_added)),
            ("entries removed", count(job.entries_removed)),
            ("entries", count(job.entries)),
            ("lists per second", job.lists_per_second.map_or("no limit".to_owned(), |limit| limit.to_string())),
            ("bytes erased", if is_clearing { erased } else { String::new() }),
            ("problem", job.problem.unwrap_or_default()),
            ("created", format!("{} by {}", job.created_at, job.created_by)),
            ("updated", job.updated_at),
        ];
        let mut rows = rows.into_iter().filter(|(_, text)| !text.is_empty());
        rows.try_for_each(|(name, text)| output.line(&format!("{name:16}  {}", printable(&text))))
    })
}

/// Waits for the end of a job, with a bar on a terminal, and then prints it.
async fn follow(client: &Client, id: &str, format: Format) -> Result<(), Failure> {
    let response = ended(client, id).await?;
    show_job(&response.body, format)?;
    is_done(&response, id)
}

/// Creates a job and waits for its end, without printing it.
pub(super) async fn finish(client: &Client, request: &Request) -> Result<(), Failure> {
    let job: Job = client.ask(request).await?;
    is_done(&ended(client, &job.id).await?, &job.id)
}

fn is_done(response: &Response, id: &str) -> Result<(), Failure> {
    match &*read::<Job>(&response.body)?.state {
        "cancelled" => Err(Failure::failed(format!("the job {id} was cancelled"))),
        _ => Ok(()),
    }
}

/// The ended job, with a bar on a terminal until then.
async fn ended(client: &Client, id: &str) -> Result<Response, Failure> {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    // Without a valid template the bar has the default style.
    if let Ok(style) = ProgressStyle::with_template(BAR) {
        bar.set_style(style);
    }
    let request = Request::new(&get_job::ROW, &[id]);
    loop {
        let response = client.send(&request).await?;
        let job: Job = read(&response.body)?;
        bar.set_length(job.generations);
        bar.set_position(job.generations_cleared);
        let problem = job.problem.map(|problem| format!(": {}", printable(&problem))).unwrap_or_default();
        let done = if matches!(&*job.kind, "purge" | "drop_index") { "lists cleared" } else { "looked at" };
        let walked = job.walked_percent.map(|percent| format!(", {percent} % scanned")).unwrap_or_default();
        bar.set_message(format!("{} {done}{walked}, {}{problem}", job.lists_cleared, job.state));
        match &*job.state {
            "done" | "cancelled" => {
                bar.finish_and_clear();
                return Ok(response);
            }
            _ => tokio::time::sleep(CHECK_INTERVAL).await,
        }
    }
}
