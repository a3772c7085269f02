//! Backups as tar archives: written in one stream, and read into a directory with every entry checked.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

/// The file that makes a directory a store. It comes last, so that a cut archive is never taken for a whole one.
const LAST: &str = "STORE";

/// The number and the bytes of files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Extent {
    pub files: u64,
    pub bytes: u64,
}

/// All files below a directory, by their paths in it.
fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut found, mut waiting) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(below) = waiting.pop() {
        for entry in fs::read_dir(dir.join(&below))? {
            let entry = entry?;
            let path = below.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                waiting.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    let is_last = |path: &PathBuf| path.as_os_str() == LAST;
    let (last, mut found): (Vec<_>, Vec<_>) = found.into_iter().partition(is_last);
    found.extend(last);
    Ok(found)
}

/// Writes a backup as a tar archive.
pub(super) fn write(dir: &Path, to: impl Write) -> io::Result<Extent> {
    let mut builder = tar::Builder::new(to);
    builder.sparse(false);
    let mut extent = Extent::default();
    for path in files(dir)? {
        builder.append_path_with_name(dir.join(&path), &path)?;
        extent.files += 1;
        extent.bytes += fs::metadata(dir.join(&path))?.len();
    }
    builder.into_inner()?.flush()?;
    Ok(extent)
}

/// Whether a file begins like an archive.
pub(super) fn begins(from: impl Read) -> bool {
    tar::Archive::new(from).entries().is_ok_and(|mut entries| entries.next().is_some_and(|entry| entry.is_ok()))
}

/// Reads an archive into an empty directory. Files get the mode 0600.
pub(super) fn read(from: impl Read, to: &Path) -> Result<Extent, String> {
    let unreadable = |error: io::Error| format!("cannot read the archive: {error}");
    let (mut extent, mut is_whole) = (Extent::default(), false);
    for entry in tar::Archive::new(from).entries().map_err(unreadable)? {
        let mut entry = entry.map_err(unreadable)?;
        let path = entry.path().map_err(unreadable)?.into_owned();
        let kind = entry.header().entry_type();
        if kind.is_dir() {
            continue;
        }
        // Parts that are not plain names could lead out of the directory.
        let parts: Vec<_> = path.components().filter(|part| *part != Component::CurDir).collect();
        if !kind.is_file() || parts.is_empty() || parts.iter().any(|part| !matches!(part, Component::Normal(_))) {
            return Err(format!("not a backup of liststore: it has the entry {}", path.display()));
        }
        let path: PathBuf = parts.iter().collect();
        let size = entry.size();
        let copied = copy(&mut entry, &to.join(&path)).map_err(|error| format!("{}: {error}", path.display()))?;
        if copied != size {
            return Err(format!("the archive ends within {}", path.display()));
        }
        extent.files += 1;
        extent.bytes += copied;
        is_whole |= path.as_os_str() == LAST;
    }
    is_whole
        .then_some(extent)
        .ok_or_else(|| "the archive is cut, or no backup of liststore: STORE is missing".to_owned())
}

/// Copies a backup that is a directory into an empty one.
pub(super) fn copy_dir(from: &Path, to: &Path) -> Result<Extent, String> {
    let mut extent = Extent::default();
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: io::Error| format!("cannot copy {path}: {error}")
    };
    for path in files(from).map_err(failed(from))? {
        let mut source = File::open(from.join(&path)).map_err(failed(&from.join(&path)))?;
        extent.bytes += copy(&mut source, &to.join(&path)).map_err(failed(&path))?;
        extent.files += 1;
    }
    Ok(extent)
}

/// Writes a new file, durably, and the directories that lead to it.
fn copy(from: &mut impl Read, to: &Path) -> io::Result<u64> {
    if let Some(parent) = to.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    let copied = io::copy(from, &mut file)?;
    file.sync_all()?;
    Ok(copied)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backup() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("items")).unwrap();
        for (path, content) in [("STORE", "store"), ("items/a", "first"), ("items/b", ""), ("metadata.redb", "m")] {
            fs::write(dir.path().join(path), content).unwrap();
        }
        dir
    }

    #[test]
    fn a_backup_survives_an_archive() {
        let (from, to) = (backup(), tempfile::tempdir().unwrap());
        let mut archive = Vec::new();
        let written = write(from.path(), &mut archive).unwrap();
        assert_eq!(written, Extent { files: 4, bytes: 11 });
        assert_eq!(read(&archive[..], to.path()).unwrap(), written);
        assert_eq!(files(to.path()).unwrap(), files(from.path()).unwrap());
        assert_eq!(fs::read(to.path().join("items/a")).unwrap(), b"first");
    }

    #[test]
    fn a_truncated_archive_is_refused() {
        let from = backup();
        let mut archive = Vec::new();
        write(from.path(), &mut archive).unwrap();
        // The content of the last file, and before.
        let end = archive.windows(5).rposition(|part| part == b"store").unwrap() + 5;
        for len in (0..end).step_by(97).chain([end - 1]) {
            let to = tempfile::tempdir().unwrap();
            assert!(read(&archive[..len], to.path()).is_err(), "{len} of {end} bytes");
        }
    }

    #[test]
    fn an_archive_entry_outside_the_directory_is_refused() {
        for (name, kind) in [
            ("../STORE", tar::EntryType::Regular),
            ("/STORE", tar::EntryType::Regular),
            ("STORE", tar::EntryType::Symlink),
            ("STORE", tar::EntryType::Link),
        ] {
            let mut header = tar::Header::new_old();
            let bytes = &mut header.as_old_mut().name;
            bytes[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(kind);
            header.set_size(0);
            header.set_mode(0o600);
            header.set_cksum();
            let mut archive = tar::Builder::new(Vec::new());
            archive.append(&header, io::empty()).unwrap();
            let archive = archive.into_inner().unwrap();
            let to = tempfile::tempdir().unwrap();
            assert!(read(&archive[..], to.path()).is_err(), "{name} {kind:?}");
            assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0);
        }
    }
}
