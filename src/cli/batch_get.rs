//! `liststore list batch-get`: many lists, as requests in NDJSON, in as few calls as possible.

use std::fmt::Display;
use std::io::{self, BufReader};
use std::path::PathBuf;

use clap::Args;
use liststore_contract::operations::batch_get;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::failure::Failure;
use super::output::{Format, Output};
use super::parse::ServerOptions;
use crate::client::{Client, Request};
use crate::import;
use crate::wire::{BATCH_LISTS_MAX, ErrorCode, RequestFailed};

/// The size of the requests of a call, and so of a line. It is well below a server's limit.
const CALL_BYTES_MAX: usize = 1 << 20;

/// Show items of many lists: one line per request, one line per result
#[derive(Debug, Args)]
#[command(after_help = "\
Each line of FILE is an object with \"entity_type\", \"feature\", \"entity_id\" and,
optionally, \"version\", \"limit\", \"min_timestamp\", \"max_timestamp\", \"as_of\",
\"order\" and \"page_token\". With \"aggregate\" (as in the API), the result has
aggregates instead of items. The output has one line per request, in order:
{\"items\": [...]}, {\"windows\": [...]} or {\"problem\": {...}}.

Examples:
  liststore list batch-get requests.ndjson
  jq -c '{entity_type: \"user\", feature: \"seen\", entity_id: .id}' users.ndjson |
    liststore list batch-get")]
pub(super) struct Arguments {
    /// The file with the requests, plain or compressed with gzip or zstd; - is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    options: ServerOptions,
}

/// A request, with its line in the file.
struct Asked {
    line: usize,
    text: String,
}

#[derive(Deserialize)]
struct BatchResults {
    results: Vec<Box<RawValue>>,
}

pub(super) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { file, options } = arguments;
    let client = options.server.client(None)?;
    let name = file.display().to_string();
    let unreadable = |error: io::Error| Failure::failed(format!("cannot read {name}: {error}"));
    let mut input = BufReader::new(import::open(&file).map_err(unreadable)?);
    let mut printed = Printed { output: Output::open(), format: options.output, answers: 0, failed: 0 };
    let (mut asked, mut bytes) = (Vec::new(), 0);
    let (mut line, mut bytes_of_line) = (0, Vec::new());
    loop {
        line += 1;
        let refused = |why: &dyn Display| Failure::failed(format!("{name}, line {line}: {why}"));
        if !import::read_line(&mut input, &mut bytes_of_line, CALL_BYTES_MAX).map_err(|error| refused(&error))? {
            break;
        }
        if bytes_of_line.trim_ascii().is_empty() {
            continue;
        }
        let text: Box<RawValue> = serde_json::from_slice(&bytes_of_line).map_err(|_| refused(&"not JSON"))?;
        let text = String::from(Box::<str>::from(text));
        if asked.len() == BATCH_LISTS_MAX || bytes + text.len() > CALL_BYTES_MAX {
            ask(&client, &name, std::mem::take(&mut asked), &mut printed).await?;
            bytes = 0;
        }
        bytes += text.len() + 1;
        asked.push(Asked { line, text });
    }
    ask(&client, &name, asked, &mut printed).await?;
    printed.end()
}

/// Requests lists, repeats requests without space in the answer, and prints each result.
async fn ask(client: &Client, name: &str, asked: Vec<Asked>, printed: &mut Printed) -> Result<(), Failure> {
    let mut results: Vec<Option<Box<RawValue>>> = asked.iter().map(|_| None).collect();
    loop {
        let missing: Vec<usize> = (0..asked.len()).filter(|place| results[*place].is_none()).collect();
        let (Some(&first), Some(&last)) = (missing.first(), missing.last()) else { break };
        let texts: Vec<&str> = missing.iter().map(|place| asked[*place].text.as_str()).collect();
        let body = format!("{{\"requests\":[{}]}}", texts.join(","));
        let request = Request::new(&batch_get::ROW, &[]).json(body.into_bytes());
        let lines = || format!("{name}, lines {} to {}", asked[first].line, asked[last].line);
        let answers: BatchResults =
            client.ask(&request).await.map_err(|error| Failure::failed(format!("{}: {error}", lines())))?;
        if answers.results.len() != missing.len() {
            return Err(Failure::failed("the server returned an unexpected number of results"));
        }
        let mut came = false;
        for (place, result) in missing.into_iter().zip(answers.results) {
            if code(&result).as_deref() != Some(ErrorCode::ResponseTooLarge.name()) {
                results[place] = Some(result);
                came = true;
            }
        }
        if !came {
            return Err(Failure::failed(format!("{}: the server has no memory for any of them", lines())));
        }
    }
    results.into_iter().flatten().try_for_each(|result| printed.answer(&result))?;
    printed.output.flush()
}

/// The error code, if the result is a problem.
fn code(result: &RawValue) -> Option<String> {
    let failed: RequestFailed = serde_json::from_str(result.get()).ok()?;
    Some(failed.problem.code)
}

/// Prints answers as they arrive.
struct Printed {
    output: Output,
    format: Format,
    answers: u64,
    failed: u64,
}

impl Printed {
    fn answer(&mut self, result: &RawValue) -> Result<(), Failure> {
        self.failed += u64::from(code(result).is_some());
        self.answers += 1;
        match self.format {
            Format::Json => {
                self.output.text(if self.answers == 1 { "{\"results\":[" } else { "," })?;
                self.output.text(result.get())
            }
            Format::Table | Format::Ndjson => self.output.line(result.get()),
        }
    }

    /// Fails if some lists failed, for callers that do not check each answer.
    fn end(mut self) -> Result<(), Failure> {
        if self.format == Format::Json {
            self.output.line(if self.answers == 0 { "{\"results\":[]}" } else { "]}" })?;
        }
        self.output.flush()?;
        match self.failed {
            0 => Ok(()),
            failed => Err(Failure::failed(format!("{failed} of {} lists failed", self.answers))),
        }
    }
}
