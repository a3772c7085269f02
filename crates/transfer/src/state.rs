//! The state of an interrupted run: a small file, replaced completely after each part.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::client::Failure;

/// The file, and the description of the run: another run must not continue from it.
pub(super) struct StateFile {
    path: PathBuf,
    run: String,
}

#[derive(Serialize, Deserialize)]
struct Kept<T> {
    run: String,
    state: T,
}

impl StateFile {
    pub fn new(path: PathBuf, run: String) -> Self {
        Self { path, run }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The state of an earlier run, if there is one.
    pub fn read<T: DeserializeOwned>(&self) -> Result<Option<T>, Failure> {
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed("read", &error)),
        };
        let kept: Kept<T> = serde_json::from_slice(&text).map_err(|error| self.failed("read", &error))?;
        if kept.run != self.run {
            let (path, of) = (self.path.display(), kept.run);
            return Err(Failure::failed(format!(
                "{path} belongs to another run ({of}): finish that run, or remove the file"
            )));
        }
        Ok(Some(kept.state))
    }

    pub fn write<T: Serialize>(&self, state: &T) -> Result<(), Failure> {
        let next = with_ending(&self.path, ".new");
        let text =
            serde_json::to_vec(&Kept { run: self.run.clone(), state }).map_err(|error| self.failed("write", &error))?;
        let mut file = fs::File::create(&next).map_err(|error| self.failed("write", &error))?;
        let written = file.write_all(&text).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&next, &self.path));
        written.map_err(|error| self.failed("write", &error))
    }

    /// The run is through.
    pub fn remove(&self) -> Result<(), Failure> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(self.failed("remove", &error)),
            _ => Ok(()),
        }
    }

    fn failed(&self, what: &str, error: &dyn std::fmt::Display) -> Failure {
        Failure::failed(format!("cannot {what} {}: {error}", self.path.display()))
    }
}

/// A path with a longer name.
pub(super) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}
