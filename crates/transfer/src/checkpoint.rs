//! An export to a file, which another run continues after it was cut off at any moment.
//!
//! `FILE.state` comes first. It holds how many bytes of `FILE.part` count, and the position of the walk. At the end it
//! declares the part whole, then the part becomes `FILE`, and the state is removed. So `FILE` is whole wherever it is.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::state::{StateFile, with_ending};
use crate::client::Failure;

const CHANGED: &str = "the file changed since the earlier run: remove it and its .state file, and export again";

pub(super) struct Checkpoint {
    path: PathBuf,
    part: PathBuf,
    state: StateFile,
}

#[derive(Serialize, Deserialize)]
struct State<T> {
    exported: T,
    bytes: u64,
    /// None at the beginning and at the end.
    page_token: Option<String>,
    #[serde(default)]
    is_whole: bool,
}

/// The state of an export when a run begins.
pub(super) enum Begun<T> {
    /// Rows follow the bytes that the file has.
    Part { file: File, bytes: u64, exported: T, page_token: Option<String> },
    /// Nothing remains to be written.
    Whole(T),
}

impl Checkpoint {
    /// `run` names the export: no other export continues it.
    pub fn new(path: &Path, run: String) -> Self {
        let state = StateFile::new(with_ending(path, ".state"), run);
        Self { path: path.to_owned(), part: with_ending(path, ".part"), state }
    }

    /// Begins an export, or continues an earlier run.
    pub fn begin<T: Default + Serialize + DeserializeOwned>(&self) -> Result<Begun<T>, Failure> {
        let kept: Option<State<T>> = self.state.read()?;
        if let Some(State { exported, bytes, is_whole: true, .. }) = kept {
            self.name(bytes)?;
            self.state.remove()?;
            return Ok(Begun::Whole(exported));
        }
        self.refuse_existing()?;
        let State { exported, bytes, page_token, .. } = match kept {
            Some(kept) => kept,
            None => {
                let first = State { exported: T::default(), bytes: 0, page_token: None, is_whole: false };
                self.state.write(&first)?;
                first
            }
        };
        let file = self.open(bytes).map_err(|error| self.failed(&error))?;
        Ok(Begun::Part { file, bytes, exported, page_token })
    }

    /// Stores the number of valid bytes, and where the walk continues.
    pub fn hold<T: Serialize>(&self, exported: &T, bytes: u64, page_token: &str) -> Result<(), Failure> {
        self.state.write(&State { exported, bytes, page_token: Some(page_token.to_owned()), is_whole: false })
    }

    /// Gives the complete file its name and this length.
    pub fn finish<T: Serialize>(&self, exported: &T, bytes: u64) -> Result<(), Failure> {
        self.state.write(&State { exported, bytes, page_token: None, is_whole: true })?;
        self.name(bytes)?;
        self.state.remove()
    }

    /// The failure of a run that has begun. Its position stays, so that the same command continues it.
    pub fn broken_off(&self, failure: Failure) -> Failure {
        if !matches!(failure, Failure::Failed(_) | Failure::Refused(_)) {
            return failure;
        }
        let (part, state) = (self.part.display(), self.state.path().display());
        Failure::Failed(format!(
            "{failure}; run the same command again to continue, or remove {part} and {state} to start over"
        ))
    }

    fn name(&self, bytes: u64) -> Result<(), Failure> {
        let has_bytes = |path: &Path| fs::metadata(path).is_ok_and(|metadata| metadata.len() == bytes);
        if !self.part.exists() && has_bytes(&self.path) {
            return Ok(());
        }
        self.refuse_existing()?;
        if !has_bytes(&self.part) {
            return Err(self.failed(&CHANGED));
        }
        fs::rename(&self.part, &self.path).map_err(|error| self.failed(&error))
    }

    fn refuse_existing(&self) -> Result<(), Failure> {
        if !self.path.exists() {
            return Ok(());
        }
        let name = self.path.display();
        Err(Failure::failed(format!("{name} already exists: remove it, or write another file")))
    }

    /// Opens the part and truncates it to this length. The lock ends with the process, however that ends.
    fn open(&self, bytes: u64) -> io::Result<File> {
        let mut file = match OpenOptions::new().write(true).create(bytes == 0).truncate(false).open(&self.part) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && bytes > 0 => {
                return Err(io::Error::other(CHANGED));
            }
            opened => opened?,
        };
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(io::Error::other("another run is writing it"));
        }
        if file.metadata()?.len() < bytes {
            return Err(io::Error::other(CHANGED));
        }
        file.set_len(bytes)?;
        file.seek(SeekFrom::End(0))?;
        Ok(file)
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> Failure {
        Failure::failed(format!("cannot write {}: {error}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn part(begun: Begun<u64>) -> (File, u64, u64, Option<String>) {
        match begun {
            Begun::Part { file, bytes, exported, page_token } => (file, bytes, exported, page_token),
            Begun::Whole(_) => panic!("it is whole"),
        }
    }

    /// Each step leaves the files that a run leaves when it is killed at that moment.
    #[test]
    fn a_run_can_continue_from_every_moment() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let (part_path, state) = (dir.path().join("a.part"), dir.path().join("a.state"));
        let again = || Checkpoint::new(&path, "run".into());
        // Before the part exists, and when it holds bytes that no state counts.
        drop(part(again().begin().unwrap()));
        fs::remove_file(&part_path).unwrap();
        let (mut file, bytes, exported, token) = part(again().begin().unwrap());
        assert_eq!((bytes, exported, token), (0, 0, None));
        file.write_all(b"row\nro").unwrap();
        drop(file);
        let (mut file, ..) = part(again().begin().unwrap());
        assert_eq!(fs::read(&part_path).unwrap(), b"");
        // After a part, and in the middle of the next one.
        file.write_all(b"row 1\n").unwrap();
        again().hold(&1_u64, 6, "token").unwrap();
        file.write_all(b"row 2").unwrap();
        assert!(again().begin::<u64>().is_err_and(|e| e.to_string().contains("another run is writing it")));
        drop(file);
        let (mut file, bytes, exported, token) = part(again().begin().unwrap());
        assert_eq!((bytes, exported, token.as_deref()), (6, 1, Some("token")));
        file.write_all(b"row 2\n").unwrap();
        drop(file);
        assert!(!path.exists());
        // Between the state that declares it whole, its name, and the removal of the state.
        let whole = State { exported: 2_u64, bytes: 12, page_token: None, is_whole: true };
        for _ in 0..2 {
            again().state.write(&whole).unwrap();
            assert!(matches!(again().begin::<u64>().unwrap(), Begun::Whole(2)));
            assert_eq!(fs::read(&path).unwrap(), b"row 1\nrow 2\n");
            assert!(!part_path.exists() && !state.exists());
        }
        assert!(again().begin::<u64>().is_err_and(|e| e.to_string().contains("already exists")));
    }

    #[test]
    fn files_of_other_programs_are_neither_used_nor_lost() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let checkpoint = Checkpoint::new(&path, "run".into());
        let refused = |expected: &str| {
            let refused = checkpoint.begin::<u64>().err().unwrap().to_string();
            assert!(refused.contains(expected), "{refused}");
        };
        checkpoint.hold(&1_u64, 6, "token").unwrap();
        refused("changed since the earlier run");
        fs::write(dir.path().join("a.part"), b"row").unwrap();
        refused("changed since the earlier run");
        fs::write(&path, b"theirs").unwrap();
        refused("already exists");
        assert!(checkpoint.finish(&1_u64, 3).is_err());
        refused("already exists");
        assert_eq!(fs::read(&path).unwrap(), b"theirs");
        let other = Checkpoint::new(&path, "other".into());
        assert!(other.begin::<u64>().is_err_and(|e| e.to_string().contains("another run (run)")));
    }
}
