//! `liststore backup`: makes a running server write a backup of its data directory.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use liststore_contract::operations::create_backup;
use liststore_contract::operations::create_backup::{Backup, BackupInput};
use serde::Serialize;

use super::archive::{self, Extent};
use super::block_on;
use super::failure::Failure;
use super::output::{Format, Output, show};
use super::parse::Author;
use crate::backup::{OUTGOING, note_finished};
use crate::client::{Client, Request, Response, Retries, read};
use crate::domain::{Clock, SystemClock, Timestamp};
use crate::wire::ErrorCode;

/// A backup to another file system copies everything, so this is long, but bounded.
const TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);
/// How the names of backups in a folder begin. The time follows, so that they sort by age.
const PREFIX: &str = "liststore-";
const ARCHIVE: &str = ".tar";
const PARTIAL: &str = ".partial";
/// A name has at most this time ahead of the clock, so that the backups of one second have their own names.
const AHEAD_SECONDS_MAX: u64 = 60;

const EXAMPLES: &str = "\
Examples:
  liststore backup /var/backups/liststore/monday
  liststore check --dir /var/backups/liststore/monday
  liststore backup /var/backups/liststore --keep 7
  liststore backup --stream | ssh backup-host 'cat > monday.tar'
  liststore backup --stream /mnt/backups --keep 7

The server writes the backup: run this command on the server's machine, as the
server's user. A backup on the file system of the data directory takes little
time and space because data files are hard-linked. With --stream, the command
reads such a backup, sends it as a tar archive and removes it. `liststore
restore` brings a backup back.";

/// Back up the embedded stores of a running server
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The directory for the backup: empty or new. With --keep or --stream, the folder in which the
    /// backup gets a name with its time
    #[arg(required_unless_present = "stream")]
    dir: Option<PathBuf>,
    /// Write a tar archive, to the folder or else to standard output
    #[arg(long)]
    stream: bool,
    /// Keep this many backups in the folder, and remove older ones
    #[arg(long, value_name = "NUMBER", requires = "dir", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    /// The data directory of the running server
    #[arg(long, value_name = "DIRECTORY", env = "LISTSTORE__ITEMS__EMBEDDED__DIR", default_value = "liststore-data")]
    data_dir: PathBuf,
    #[command(flatten)]
    author: Author,
    /// How to print data
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// An archive that was written to a folder.
#[derive(Serialize)]
struct Archived {
    file: String,
    files: u64,
    bytes: u64,
    definitions: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let folder = arguments.dir.as_deref().map(absolute).transpose()?;
    match (folder, arguments.stream, arguments.keep) {
        (Some(folder), false, None) => make(arguments, folder),
        (Some(folder), false, Some(keep)) => {
            create(&folder)?;
            let made = make_in(arguments, &folder)?;
            prune(&folder, &made, keep)
        }
        (Some(folder), true, keep) => {
            create(&folder)?;
            let made = archive_in(arguments, &folder)?;
            keep.map_or(Ok(()), |keep| prune(&folder, &made, keep))
        }
        (None, ..) => to_standard_output(arguments),
    }
}

fn absolute(dir: &Path) -> Result<PathBuf, Failure> {
    let absolute = std::path::absolute(dir).map_err(|error| Failure::Usage(format!("{}: {error}", dir.display())))?;
    if absolute.to_str().is_none() {
        return Err(Failure::Usage(format!("{} is not UTF-8: name another directory", absolute.display())));
    }
    Ok(absolute)
}

fn cannot(what: &str, path: &Path) -> impl FnOnce(io::Error) -> Failure {
    let what = format!("cannot {what} {}", path.display());
    move |error| Failure::failed(format!("{what}: {error}"))
}

fn create(folder: &Path) -> Result<(), Failure> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(cannot("create", folder))
}

/// Such as `20260102T030405Z`.
pub(super) fn stamp(now: Timestamp) -> String {
    let text = now.to_string();
    let second = text.split(['.', 'Z']).next().unwrap_or_default();
    format!("{}Z", second.replace(['-', ':'], ""))
}

/// Such as `liststore-20260102T030405Z`.
fn name_of(now: Timestamp) -> String {
    format!("{PREFIX}{}", stamp(now))
}

/// Names for a backup, the best one first: the present second, or the first second after the newest backup. So backups
/// of one second have their own names, and sort by age.
fn free_names(folder: &Path) -> Result<Vec<String>, Failure> {
    let now = SystemClock.now();
    let mut found = backups_in(folder).map_err(cannot("read", folder))?;
    // A backup with a time far ahead, by a wrong clock, must not prevent others.
    found.retain(|path| !is_ahead(path));
    let newest = found.last().map(|path| plain_name(path)).unwrap_or_default();
    let is_free = |name: &String| {
        // The server and this command write to partial ones.
        let endings = ["", ARCHIVE, PARTIAL, &format!("{ARCHIVE}{PARTIAL}")];
        *name > newest && !endings.iter().any(|ending| folder.join(format!("{name}{ending}")).exists())
    };
    Ok((0..=AHEAD_SECONDS_MAX).map(|seconds| name_after(now, seconds)).filter(is_free).collect())
}

fn name_after(now: Timestamp, seconds: u64) -> String {
    let nanos = u128::from(now.as_nanos()) + u128::from(seconds) * 1_000_000_000;
    name_of(Timestamp::saturating_from_nanos(nanos))
}

/// The name of a backup, without the ending of an archive.
fn plain_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(ARCHIVE).unwrap_or(&name).to_owned()
}

/// Whether the time in the name of a backup is from a wrong clock: this one, or that of the backup.
pub(super) fn is_ahead(path: &Path) -> bool {
    plain_name(path) > name_after(SystemClock.now(), AHEAD_SECONDS_MAX)
}

fn no_free_name(folder: &Path) -> Failure {
    Failure::failed(format!("{} has backups for every second of the next minute: try again later", folder.display()))
}

/// The backups of a folder, from the oldest. Other files are none of ours.
pub(super) fn backups_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let is_backup = |name: &str| {
        let time = name.strip_prefix(PREFIX).map(|name| name.strip_suffix(ARCHIVE).unwrap_or(name));
        time.is_some_and(|time| {
            time.len() == 16
                && time.bytes().enumerate().all(|(place, byte)| match place {
                    8 => byte == b'T',
                    15 => byte == b'Z',
                    _ => byte.is_ascii_digit(),
                })
        })
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(is_backup) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Removes all but the newest backups, of which one was just made. Those with a time far ahead neither count nor go.
fn prune(folder: &Path, made: &Path, keep: u32) -> Result<(), Failure> {
    let mut found = backups_in(folder).map_err(cannot("read", folder))?;
    found.retain(|path| path != made && !is_ahead(path));
    let surplus = (found.len() + 1).saturating_sub(keep as usize);
    for path in &found[..surplus] {
        let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        removed.map_err(cannot("remove", path))?;
    }
    Ok(())
}

/// Has the server make a backup.
fn ask(arguments: &Arguments, dir: PathBuf) -> Result<Response, Failure> {
    let request = Request::new(&create_backup::ROW, &[]).body(&BackupInput { dir })?.within(TIMEOUT);
    block_on(async {
        let client = Client::local(&arguments.data_dir, Retries::PATIENT)?.with_author(arguments.author.user.clone());
        Ok(client.send(&request).await?)
    })
}

/// Makes a backup in a folder, under the first name that no other backup takes. Returns its path.
fn make_in(arguments: &Arguments, folder: &Path) -> Result<PathBuf, Failure> {
    for name in free_names(folder)? {
        let path = folder.join(name);
        match ask(arguments, path.clone()) {
            // Another command has taken the name in between.
            Err(Failure::Refused(problem)) if problem.details.code == ErrorCode::BackupDirNotEmpty.name() => {}
            answer => {
                print_backup(arguments, &answer?)?;
                return Ok(path);
            }
        }
    }
    Err(no_free_name(folder))
}

fn make(arguments: &Arguments, dir: PathBuf) -> Result<(), Failure> {
    print_backup(arguments, &ask(arguments, dir)?)
}

/// Prints the server's answer about a backup.
fn print_backup(arguments: &Arguments, response: &Response) -> Result<(), Failure> {
    show(&response.body, arguments.output, |output| {
        let backup: Backup = read(&response.body)?;
        let linked = backup.data_files - backup.copied_files.min(backup.data_files);
        output.line(&format!("backup written to {} in {:.2} s", backup.dir, backup.seconds))?;
        output.line(&format!(
            "items     {} data files ({linked} hard links, {} copies), {} bytes; log: {} segments, {} bytes",
            backup.data_files, backup.copied_files, backup.data_bytes, backup.log_segments, backup.log_bytes
        ))?;
        output.line(definitions(backup.definitions))?;
        output.line(&format!("liststore check --dir {} verifies it", backup.dir))
    })
}

fn definitions(included: bool) -> &'static str {
    if included {
        "metadata  included"
    } else {
        "metadata  NOT included: the definitions are not in the data directory; dump their database now"
    }
}

/// Creates the partial file of an archive, under the first name that no other backup takes.
fn new_archive(folder: &Path) -> Result<(PathBuf, PathBuf, File), Failure> {
    for name in free_names(folder)? {
        let path = folder.join(format!("{name}{ARCHIVE}"));
        let partial = folder.join(format!("{name}{ARCHIVE}{PARTIAL}"));
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial) {
            Ok(file) => return Ok((path, partial, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(cannot("create", &partial)(error)),
        }
    }
    Err(no_free_name(folder))
}

/// Writes an archive into a folder, under its name once it is complete. Returns its path.
fn archive_in(arguments: &Arguments, folder: &Path) -> Result<PathBuf, Failure> {
    let (path, partial, file) = new_archive(folder)?;
    let written = send(arguments, &file).and_then(|written| {
        let durable = file.sync_all().and_then(|()| fs::rename(&partial, &path));
        durable.and_then(|()| File::open(folder)?.sync_all()).map_err(cannot("complete", &path))?;
        Ok(written)
    });
    let (extent, has_definitions) = match written {
        Ok(written) => written,
        Err(failure) => {
            // Its remains have a name that no command takes for a backup.
            let _left = fs::remove_file(&partial);
            return Err(failure);
        }
    };
    noted(arguments)?;
    let Extent { files, bytes } = extent;
    let mut output = Output::open();
    if arguments.output == Format::Table {
        output.line(&format!("backup written to {}: {files} files, {bytes} bytes", path.display()))?;
        output.line(definitions(has_definitions))?;
    } else {
        let file = path.display().to_string();
        output.json(&Archived { file, files, bytes, definitions: has_definitions })?;
    }
    output.flush()?;
    Ok(path)
}

fn to_standard_output(arguments: &Arguments) -> Result<(), Failure> {
    let output = io::stdout().lock();
    if output.is_terminal() {
        return Err(Failure::Usage("standard output is a terminal: send the archive to a file or a pipe".to_owned()));
    }
    let (Extent { files, bytes }, has_definitions) = send(arguments, output)?;
    noted(arguments)?;
    eprintln!("{files} files, {bytes} bytes\n{}", definitions(has_definitions));
    Ok(())
}

/// Has the server make a backup next to its data files, sends it as an archive, and removes it. Returns whether it has
/// the definitions.
fn send(arguments: &Arguments, to: impl Write) -> Result<(Extent, bool), Failure> {
    let outgoing = absolute(&arguments.data_dir)?.join(OUTGOING);
    create(&outgoing)?;
    // Of two commands, the later one would remove the backup that the earlier one is reading.
    let lock = File::open(&outgoing).map_err(cannot("open", &outgoing))?;
    if lock.try_lock().is_err() {
        return Err(Failure::failed("another backup with --stream is in progress: wait until it finishes"));
    }
    // A command that was killed has left its own.
    for left in fs::read_dir(&outgoing).map_err(cannot("read", &outgoing))? {
        let left = left.map_err(cannot("read", &outgoing))?.path();
        fs::remove_dir_all(&left).map_err(cannot("remove", &left))?;
    }
    let dir = outgoing.join(name_of(SystemClock.now()));
    let backup: Backup = read(&ask(arguments, dir.clone())?.body)?;
    let mut to = BufWriter::with_capacity(1 << 20, to);
    // A reader that leaves early has no backup: this is a failure, unlike with other output.
    let sent = archive::write(&dir, &mut to).and_then(|extent| to.flush().map(|()| extent));
    let removed = fs::remove_dir_all(&dir);
    let extent = sent.map_err(|error| Failure::failed(format!("cannot write the archive: {error}")))?;
    removed.map_err(cannot("remove", &dir))?;
    Ok((extent, backup.definitions))
}

/// Notes that a backup has left, for the server's metric.
fn noted(arguments: &Arguments) -> Result<(), Failure> {
    note_finished(&arguments.data_dir, SystemClock.now()).map_err(cannot("note the backup in", &arguments.data_dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_backups_sort_by_time_and_no_other_file_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let name = |seconds: u64| name_of(Timestamp::from_nanos(seconds * 1_000_000_000 + 5).unwrap());
        assert_eq!(name(1_767_323_045), "liststore-20260102T030405Z");
        let path = |name: String| folder.path().join(name);
        for seconds in [1_767_323_045, 1_767_323_046] {
            fs::create_dir(path(name(seconds))).unwrap();
            fs::write(path(format!("{}.tar", name(seconds + 10))), "").unwrap();
        }
        let others = ["liststore-20260102T030405Z.tar.partial", "liststore-monday", "notes", "liststore-.tar"];
        others.iter().for_each(|other| fs::write(path((*other).to_owned()), "").unwrap());
        let made = path(format!("{}.tar", name(1_767_323_056)));
        prune(folder.path(), &made, 2).unwrap();
        let left = backups_in(folder.path()).unwrap();
        assert_eq!(left, [path(format!("{}.tar", name(1_767_323_055))), path(format!("{}.tar", name(1_767_323_056)))]);
        assert!(others.iter().all(|other| path((*other).to_owned()).exists()));
        prune(folder.path(), &made, 2).unwrap();
        assert_eq!(backups_in(folder.path()).unwrap(), left);
        // A wrong clock has made another one.
        let ahead = path("liststore-29991231T000000Z".to_owned());
        fs::create_dir(&ahead).unwrap();
        prune(folder.path(), &made, 1).unwrap();
        assert_eq!(backups_in(folder.path()).unwrap(), [made, ahead]);
    }

    #[test]
    fn a_name_is_taken_while_the_server_writes_its_backup() {
        let folder = tempfile::tempdir().unwrap();
        let now = SystemClock.now();
        assert!(!free_names(folder.path()).unwrap().is_empty());
        for seconds in 0..=10 * AHEAD_SECONDS_MAX {
            fs::create_dir(folder.path().join(format!("{}.partial", name_after(now, seconds)))).unwrap();
        }
        assert_eq!(free_names(folder.path()).unwrap(), [] as [String; 0]);
    }
}
