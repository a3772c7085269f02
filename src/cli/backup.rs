//! `liststore backup`: has a running server write a backup of its data directory.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use liststore_contract::operations::create_backup;

use super::block_on;
use super::failure::Failure;
use super::output::{Format, show};
use super::parse::Author;
use crate::client::{Client, Request, Retries, read};
use crate::wire::{Backup, BackupInput};

/// A backup to another file system copies everything: give it time, but not for ever.
const TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

const EXAMPLES: &str = "\
Examples:
  liststore backup /var/backups/liststore/monday
  liststore check --dir /var/backups/liststore/monday
  liststore serve --data-dir /var/backups/liststore/monday

The server writes the backup: run this command on the server's machine, as the
server's user. A backup on the file system of the data directory takes little
time and space because data files are hard-linked. To restore a backup, start a
server on it or on a copy of it.";

/// Back up the embedded stores of a running server
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The directory for the backup: empty or new
    dir: PathBuf,
    /// The data directory of the running server
    #[arg(long, value_name = "DIRECTORY", env = "LISTSTORE__ITEMS__EMBEDDED__DIR", default_value = "liststore-data")]
    data_dir: PathBuf,
    #[command(flatten)]
    author: Author,
    /// How to print data
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let dir = std::path::absolute(&arguments.dir)
        .map_err(|error| Failure::Usage(format!("{}: {error}", arguments.dir.display())))?;
    if dir.to_str().is_none() {
        return Err(Failure::Usage(format!("{} is not UTF-8: name another directory", dir.display())));
    }
    let request = Request::new(&create_backup::ROW, &[]).body(&BackupInput { dir })?.within(TIMEOUT);
    let response = block_on(async {
        let client = Client::local(&arguments.data_dir, Retries::PATIENT)?.with_author(arguments.author.user.clone());
        Ok(client.send(&request).await?)
    })?;
    show(&response.body, arguments.output, |output| {
        let backup: Backup = read(&response.body)?;
        let linked = backup.data_files - backup.copied_files.min(backup.data_files);
        output.line(&format!("backup written to {} in {:.2} s", backup.dir, backup.seconds))?;
        output.line(&format!(
            "items     {} data files ({linked} hard links, {} copies), {} bytes; log: {} segments, {} bytes",
            backup.data_files, backup.copied_files, backup.data_bytes, backup.log_segments, backup.log_bytes
        ))?;
        output.line(if backup.definitions {
            "metadata  included"
        } else {
            "metadata  NOT included: the definitions are not in the data directory; dump their database now"
        })?;
        output.line(&format!("liststore check --dir {} verifies it", backup.dir))
    })
}
