//! The numbers of data files, and their file names.

use std::path::{Path, PathBuf};

/// The number of a data file, unique in its directory.
pub type FileId = u64;

pub fn file_path(dir: &Path, id: FileId) -> PathBuf {
    dir.join(file_name(id))
}

pub fn file_name(id: FileId) -> String {
    format!("{id:010}.items")
}

pub fn id_of(name: &str) -> Option<FileId> {
    let digits = name.strip_suffix(".items")?;
    (digits.len() >= 10 && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
}
