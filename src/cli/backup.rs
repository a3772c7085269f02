//! `liststore backup`: has a running server write a backup of its data directory.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use serde_json::json;
use serde_json::value::RawValue;

use super::block_on;
use super::client::{Client, Request, Retries, read, views};
use super::failure::Failure;
use super::output::{Format, Output};
use super::parse::Asking;

/// A backup to another file system copies everything: give it time, but not for ever.
const TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

const EXAMPLES: &str = "\
Examples:
  liststore backup /var/backups/liststore/monday
  liststore check --dir /var/backups/liststore/monday
  liststore serve --data-dir /var/backups/liststore/monday

The server writes the backup, so run this on its machine. On the file system of the data directory
it takes little time and space: data files are hard links, since they never change. To bring a
backup back, start a server on it, or on a copy of it.";

/// Back up the embedded stores of a running server
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The directory that is to be the backup: empty, or not there yet
    dir: PathBuf,
    #[command(flatten)]
    asking: Asking,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let dir = std::path::absolute(&arguments.dir)
        .map_err(|error| Failure::Usage(format!("{}: {error}", arguments.dir.display())))?;
    let Some(dir) = dir.to_str() else {
        return Err(Failure::Usage(format!("{} is not UTF-8: name another directory", dir.display())));
    };
    let body = Bytes::from(json!({ "dir": dir }).to_string());
    let request = Request::post("/v1/backups".to_owned(), body).within(TIMEOUT);
    let answer = block_on(async {
        let client = Client::new(arguments.asking.server.url.clone(), None, Retries::PATIENT)?;
        Ok(client.send(&request).await?)
    })?;
    let mut output = Output::open();
    if arguments.asking.output != Format::Table {
        output.json(&read::<Box<RawValue>>(&answer.body)?)?;
        return output.flush();
    }
    let backup: views::Backup = read(&answer.body)?;
    let linked = backup.data_files - backup.copied_files.min(backup.data_files);
    output.line(&format!("backup in {} after {:.2} s", backup.dir, backup.seconds))?;
    output.line(&format!(
        "items     {} data files ({linked} hard links, {} copies), {} bytes; log: {} segments, {} bytes",
        backup.data_files, backup.copied_files, backup.data_bytes, backup.log_segments, backup.log_bytes
    ))?;
    output.line(if backup.definitions {
        "metadata  included"
    } else {
        "metadata  NOT included: the definitions are not kept in the data directory; dump their database now"
    })?;
    output.line(&format!("liststore check --dir {} verifies it", backup.dir))?;
    output.flush()
}
