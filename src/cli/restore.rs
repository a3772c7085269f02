//! `liststore restore`: brings a backup back into an empty data directory, after it was checked.

use std::fs::{self, DirBuilder, File};
use std::io::{self, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use clap::Args;

use super::archive::{self, Extent};
use super::backup::{backups_in, stamp};
use super::check;
use super::failure::Failure;
use super::output::{Format, FormatOption, Output, counted};
use crate::domain::{Clock, SystemClock};
use crate::items::embedded::{Disk, LockGuard, RealDisk};

/// Where a backup is until it was checked. A server refuses a directory that holds it and no store.
const STAGING: &str = "restoring";
const LOCK: &str = "LOCK";
/// The file that makes a directory a store: the last to be moved.
const STORE: &str = "STORE";
/// Whose entries a server repeats before it listens.
const REPLAY: &str = "replay.ndjson";
const LOST_AND_FOUND: &str = "lost+found";

const EXAMPLES: &str = "\
Examples:
  liststore restore /var/backups/liststore/monday --data-dir /var/lib/liststore
  liststore restore monday.tar --data-dir /var/lib/liststore
  ssh backup-host cat monday.tar | liststore restore - --data-dir data
  liststore restore /mnt/backups --data-dir data --replay trail.ndjson

Stop the server first, and move its data directory away. The command verifies
every checksum before the data directory becomes a store. After a failure, run
it again.";

/// Restore a backup into an empty data directory
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// A backup: a directory, a tar archive, or - for an archive from standard input. Of a folder of
    /// backups with a time in their names, the newest
    from: PathBuf,
    /// The data directory for the restored store: empty or new
    #[arg(long, value_name = "DIRECTORY", env = "LISTSTORE__ITEMS__EMBEDDED__DIR", default_value = "liststore-data")]
    data_dir: PathBuf,
    /// Move a present store to DIRECTORY.replaced-TIME first
    #[arg(long)]
    set_aside: bool,
    /// An audit trail of the former server, whose erasures and revocations the server repeats
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    #[command(flatten)]
    format: FormatOption,
}

fn cannot(what: &str, path: &Path) -> impl FnOnce(io::Error) -> Failure {
    let what = format!("cannot {what} {}", path.display());
    move |error| Failure::failed(format!("{what}: {error}"))
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let dir = &arguments.data_dir;
    if arguments.set_aside && dir.join(STORE).exists() {
        set_aside(dir)?;
    }
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(cannot("create", dir))?;
    let _lock = lock(dir)?;
    let staging = dir.join(STAGING);
    clear(dir, &staging)?;
    DirBuilder::new().mode(0o700).create(&staging).map_err(cannot("create", &staging))?;
    let restored = fill(arguments, &staging).and_then(|filled| {
        let parts = check::report(&staging, dir, arguments.format.output, "the backup is whole")?;
        parts.map_or(Ok(filled), |parts| {
            Err(Failure::failed(format!(
                "the backup is incomplete or damaged, see {parts} above: nothing was restored"
            )))
        })
    });
    let (Extent { files, bytes }, from) = match restored {
        Ok(filled) => filled,
        Err(failure) => {
            // The next attempt removes the remains.
            let _left = fs::remove_dir_all(&staging);
            return Err(failure);
        }
    };
    complete(dir, &staging)?;
    if arguments.format.output == Format::Table {
        let mut output = Output::open();
        let (files, dir) = (counted(files, "file"), dir.display());
        output.line(&format!("restored {files}, {bytes} bytes, of {from}: start liststore serve --data-dir {dir}"))?;
        output.flush()?;
    }
    Ok(())
}

/// Keeps servers away from a directory.
fn lock(dir: &Path) -> Result<LockGuard, Failure> {
    let lock = RealDisk.lock(&dir.join(LOCK)).map_err(cannot("lock", &dir.join(LOCK)))?;
    lock.ok_or_else(|| {
        Failure::failed(format!("{} is in use by another process: stop it, or choose another directory", dir.display()))
    })
}

/// Gives the present store another name, unless a server uses it.
fn set_aside(dir: &Path) -> Result<(), Failure> {
    let _lock = lock(dir)?;
    let mut aside = dir.as_os_str().to_owned();
    aside.push(format!(".replaced-{}", stamp(SystemClock.now())));
    fs::rename(dir, &aside).map_err(cannot("set aside", dir))?;
    eprintln!("the former store is in {}", Path::new(&aside).display());
    Ok(())
}

/// Removes the remains of an interrupted restore. Refuses a directory with anything else in it.
fn clear(dir: &Path, staging: &Path) -> Result<(), Failure> {
    let is_interrupted = staging.exists() && !dir.join(STORE).exists();
    for entry in fs::read_dir(dir).map_err(cannot("read", dir))? {
        let path = entry.map_err(cannot("read", dir))?.path();
        let name = path.file_name().unwrap_or_default();
        if name == LOCK || name == LOST_AND_FOUND {
            continue;
        }
        if !is_interrupted {
            let text = format!("{} is not empty: move it away, or choose another directory", dir.display());
            return Err(Failure::failed(text));
        }
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(cannot("remove", &path))?;
    }
    Ok(())
}

/// Copies the backup, and the trail to replay. Returns the extent and the name of the backup.
fn fill(arguments: &Arguments, staging: &Path) -> Result<(Extent, String), Failure> {
    let from = &arguments.from;
    let filled = if from.as_os_str() == "-" {
        (archive::read(io::stdin().lock(), staging).map_err(Failure::failed)?, "standard input".to_owned())
    } else {
        let chosen = choose(from)?;
        let named = |problem: String| Failure::failed(format!("{}: {problem}", chosen.display()));
        let extent = if chosen.is_dir() {
            archive::copy_dir(&chosen, staging).map_err(named)?
        } else {
            let file = File::open(&chosen).map_err(cannot("open", &chosen))?;
            archive::read(BufReader::with_capacity(1 << 20, file), staging).map_err(named)?
        };
        (extent, chosen.display().to_string())
    };
    if let Some(trail) = &arguments.replay {
        fs::copy(trail, staging.join(REPLAY)).map_err(cannot("copy", trail))?;
    }
    Ok(filled)
}

/// The backup of a path.
fn choose(from: &Path) -> Result<PathBuf, Failure> {
    if !from.is_dir() || from.join(STORE).exists() {
        return Ok(from.to_owned());
    }
    let mut found = backups_in(from).map_err(cannot("read", from))?;
    if found.is_empty() {
        found = named_backups(from).map_err(cannot("read", from))?;
        if found.len() > 1 {
            let names: Vec<_> = found.iter().map(|path| path.display().to_string()).collect();
            return Err(Failure::failed(format!(
                "{} has several backups without a time in their names: name one of {}",
                from.display(),
                names.join(", ")
            )));
        }
    }
    found.pop().ok_or_else(|| Failure::failed(format!("{} is no backup, and has none", from.display())))
}

/// The backups of a folder whose names people chose: directories with a store, and archives.
fn named_backups(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_archive = || path.is_file() && path.extension().is_some_and(|extension| extension == "tar");
        if path.join(STORE).exists() || is_archive() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Moves the restored files to their places, the one that makes them a store last.
fn complete(dir: &Path, staging: &Path) -> Result<(), Failure> {
    let entries = fs::read_dir(staging).map_err(cannot("read", staging))?;
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.map_err(cannot("read", staging))?.file_name());
    }
    names.sort_by_key(|name| name == STORE);
    let synced = |dir: &Path| File::open(dir).and_then(|dir| dir.sync_all());
    for name in &names {
        if name == STORE {
            synced(dir).map_err(cannot("sync", dir))?;
        }
        fs::rename(staging.join(name), dir.join(name)).map_err(cannot("move", &staging.join(name)))?;
    }
    fs::remove_dir(staging).map_err(cannot("remove", staging))?;
    synced(dir).map_err(cannot("sync", dir))
}
