//! `liststore restore`: brings a backup back into an empty data directory, after it was checked.

use std::fs::{self, DirBuilder, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use clap::Args;
use liststore_contract::operations::list_audit::Audited;

use super::archive::{self, Extent};
use super::backup::{backups_in, is_ahead, stamp};
use super::check;
use super::failure::Failure;
use super::output::{Format, FormatOption, Output, counted};
use crate::app::restored::{self, Restored};
use crate::domain::{Clock, SystemClock, Timestamp};
use crate::items::embedded::{Disk, LockGuard, RealDisk};

/// Where a backup is until it was checked. A server refuses a directory that holds it and no store.
const STAGING: &str = "restoring";
const LOCK: &str = "LOCK";
/// The file that makes a directory a store: the last to be moved.
const STORE: &str = "STORE";
/// Whose entries a server repeats before it listens.
const REPLAY: &str = "replay.ndjson";
const LOST_AND_FOUND: &str = "lost+found";
/// What follows the name of a data directory in the name of its former store.
const REPLACED: &str = ".replaced-";

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
    /// A backup: a directory, a tar archive, or - for an archive from standard input. If it is a
    /// folder of backups with times in their names, the newest is used
    from: PathBuf,
    /// The data directory for the restored store: empty or new
    #[arg(long, value_name = "DIRECTORY", env = "LISTSTORE__ITEMS__EMBEDDED__DIR", default_value = "liststore-data")]
    data_dir: PathBuf,
    /// Move an existing store to DIRECTORY.replaced-TIME first
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
    arguments.replay.as_deref().map_or(Ok(()), check_trail)?;
    // An existing store stays in its place if there is nothing to restore.
    let from = if arguments.from.as_os_str() == "-" { None } else { Some(choose(&arguments.from, dir)?) };
    if arguments.set_aside && dir.join(STORE).exists() {
        set_aside(dir)?;
    }
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(cannot("create", dir))?;
    let _lock = lock(dir)?;
    let staging = dir.join(STAGING);
    clear(dir, &staging)?;
    DirBuilder::new().mode(0o700).create(&staging).map_err(cannot("create", &staging))?;
    let restored = fill(arguments, from.as_deref(), &staging).and_then(|filled| {
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
    leave_note(&staging, &from)?;
    complete(dir, &staging)?;
    if arguments.format.output == Format::Table {
        let mut output = Output::open();
        let (files, dir) = (counted(files, "file"), dir.display());
        output.line(&format!("restored {files}, {bytes} bytes, of {from}: start liststore serve --data-dir {dir}"))?;
        output.flush()?;
    }
    Ok(())
}

/// Checks that a server can repeat an audit trail. An empty one comes from a command that failed.
fn check_trail(path: &Path) -> Result<(), Failure> {
    let refused = |what: String| {
        let (path, command) = (path.display(), "liststore audit -o ndjson");
        let remedy = format!("--replay takes the audit trail that {command} prints; leave it out to repeat nothing");
        Failure::failed(format!("{path}{what}: {remedy}"))
    };
    let mut entries = 0;
    for (number, line) in (1..).zip(BufReader::new(File::open(path).map_err(cannot("read", path))?).lines()) {
        let line = line.map_err(|error| refused(format!(", line {number}: {error}")))?;
        serde_json::from_str::<Audited>(&line).map_err(|error| refused(format!(", line {number}: {error}")))?;
        entries += 1;
    }
    if entries == 0 { Err(refused(" has no entries".to_owned())) } else { Ok(()) }
}

/// Keeps servers away from a directory.
fn lock(dir: &Path) -> Result<LockGuard, Failure> {
    let lock = RealDisk.lock(&dir.join(LOCK)).map_err(cannot("lock", &dir.join(LOCK)))?;
    lock.ok_or_else(|| {
        Failure::failed(format!("{} is in use by another process: stop it, or choose another directory", dir.display()))
    })
}

/// Gives the current store another name, unless a server uses it.
fn set_aside(dir: &Path) -> Result<(), Failure> {
    let _lock = lock(dir)?;
    let aside = free_aside(dir, SystemClock.now());
    fs::rename(dir, &aside).map_err(cannot("set aside", dir))?;
    eprintln!("the former store is in {}", aside.display());
    Ok(())
}

/// A free name for a former store: with a number, if another one of this second has its name.
fn free_aside(dir: &Path, now: Timestamp) -> PathBuf {
    let named = |number: u32| {
        // Without a slash at the end.
        let mut name = dir.components().as_path().as_os_str().to_owned();
        name.push(format!("{REPLACED}{}", stamp(now)));
        if number > 1 {
            name.push(format!("-{number}"));
        }
        PathBuf::from(name)
    };
    let mut number = 1;
    while named(number).exists() {
        number += 1;
    }
    named(number)
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
fn fill(arguments: &Arguments, from: Option<&Path>, staging: &Path) -> Result<(Extent, String), Failure> {
    let filled = if let Some(from) = from {
        let named = |problem: String| Failure::failed(format!("{}: {problem}", from.display()));
        let extent = if from.is_dir() {
            archive::copy_dir(from, staging).map_err(named)?
        } else {
            let file = File::open(from).map_err(cannot("open", from))?;
            archive::read(BufReader::with_capacity(1 << 20, file), staging).map_err(named)?
        };
        (extent, from.display().to_string())
    } else {
        (archive::read(io::stdin().lock(), staging).map_err(Failure::failed)?, "standard input".to_owned())
    };
    if let Some(trail) = &arguments.replay {
        fs::copy(trail, staging.join(REPLAY)).map_err(cannot("copy", trail))?;
    }
    Ok(filled)
}

/// The backup of a path, which looks like one and is not in the data directory.
fn choose(from: &Path, data_dir: &Path) -> Result<PathBuf, Failure> {
    let is_folder = from.is_dir() && !from.join(STORE).exists();
    let chosen = if is_folder { newest(from, data_dir)? } else { from.to_owned() };
    let is_within = |data_dir: PathBuf| fs::canonicalize(&chosen).is_ok_and(|chosen| chosen.starts_with(data_dir));
    if fs::canonicalize(data_dir).is_ok_and(is_within) {
        let text = format!("{} is in the data directory: copy it to another place first", chosen.display());
        return Err(Failure::failed(text));
    }
    let kind = fs::metadata(&chosen).map_err(cannot("open", &chosen))?;
    let is_backup = if kind.is_dir() {
        chosen.join(STORE).exists()
    } else {
        // A pipe cannot be read twice.
        !kind.is_file() || archive::begins(File::open(&chosen).map_err(cannot("open", &chosen))?)
    };
    if is_backup { Ok(chosen) } else { Err(Failure::failed(format!("{} is no backup", chosen.display()))) }
}

/// The newest backup of a folder.
fn newest(from: &Path, data_dir: &Path) -> Result<PathBuf, Failure> {
    let mut found = backups_in(from).map_err(cannot("read", from))?;
    if let Some(ahead) = found.last().filter(|newest| is_ahead(newest)) {
        return Err(Failure::failed(format!(
            "{} has a time ahead of the clock, so the newest backup is in doubt: name the backup to restore",
            ahead.display()
        )));
    }
    if found.is_empty() {
        found = named_backups(from, data_dir).map_err(cannot("read", from))?;
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

/// The backups of a folder whose names people chose: directories with a store, and archives. The data directory and
/// its former stores are none.
fn named_backups(folder: &Path, data_dir: &Path) -> io::Result<Vec<PathBuf>> {
    let data_dir = fs::canonicalize(data_dir).ok();
    let is_live = |path: &Path| data_dir.is_some() && fs::canonicalize(path).ok() == data_dir;
    let is_former = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().contains(REPLACED));
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_archive = || path.is_file() && path.extension().is_some_and(|extension| extension == "tar");
        if (path.join(STORE).exists() || is_archive()) && !is_live(&path) && !is_former(&path) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Leaves a note of the restore, which the first server writes to its audit trail.
fn leave_note(staging: &Path, from: &str) -> Result<(), Failure> {
    let path = staging.join(restored::NAME);
    let note = Restored { at: SystemClock.now().to_string(), from: from.to_owned() };
    let text = serde_json::to_string(&note).map_err(|error| Failure::failed(error.to_string()))?;
    let written = fs::write(&path, text).and_then(|()| File::open(&path)?.sync_all());
    written.map_err(cannot("write", &path))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn former_stores_of_one_second_have_different_names() {
        let place = tempfile::tempdir().unwrap();
        let now = Timestamp::from_nanos(1_767_323_045_000_000_000).unwrap();
        for name in ["data.replaced-20260102T030405Z", "data.replaced-20260102T030405Z-2"] {
            let aside = free_aside(&place.path().join("data/"), now);
            assert_eq!(aside, place.path().join(name));
            fs::create_dir(aside).unwrap();
        }
    }
}
