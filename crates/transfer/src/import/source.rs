//! The source files of rows: their names and formats.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::coding::FileCoding;
use crate::client::Failure;

/// Names that are compared with a missing file's name.
const NAMES_MAX: usize = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FileFormat {
    Csv,
    Ndjson,
}

#[derive(Debug, Clone)]
pub struct Source {
    /// As the command line names it.
    pub name: String,
    pub format: FileFormat,
    /// None for standard input.
    pub path: Option<PathBuf>,
}

/// Names all files and checks that they exist, before anything is sent.
pub fn name_all(files: &[PathBuf], format: Option<FileFormat>) -> Result<Vec<Source>, Failure> {
    let is_stdin = |path: &PathBuf| path.as_os_str() == "-";
    if files.iter().filter(|path| is_stdin(path)).count() > 1 {
        return Err(Failure::Usage("standard input (-) can be read only once".into()));
    }
    let source = |path: &PathBuf| {
        let stdin = is_stdin(path);
        let name = if stdin { "standard input".to_owned() } else { path.display().to_string() };
        if !stdin {
            let metadata = fs::metadata(path).map_err(|e| Failure::failed(format!("{name}: {e}{}", near(path))))?;
            if metadata.is_dir() {
                return Err(Failure::failed(format!("{name} is a directory: name its files, such as {name}/*.csv")));
            }
        }
        let by_name = || if stdin { None } else { FileFormat::by_name(path) };
        let format = format.or_else(by_name).ok_or_else(|| {
            let is_parquet = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("parquet"));
            if is_parquet {
                return Failure::Usage(format!("{name}: only CSV and NDJSON can be imported: convert the file"));
            }
            Failure::Usage(format!(
                "{name}: cannot derive the format from the file's name: pass --format csv or --format ndjson"
            ))
        })?;
        Ok(Source { name, format, path: (!stdin).then(|| path.clone()) })
    };
    files.iter().map(source).collect()
}

/// A question after a file with a similar name in the same directory, if there is one.
fn near(path: &Path) -> String {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Some(wanted) = path.file_name().map(|name| name.to_string_lossy().into_owned()) else { return String::new() };
    let names = fs::read_dir(parent).into_iter().flatten().flatten();
    // A directory may have millions of files.
    let names = names.take(NAMES_MAX).map(|entry| entry.file_name().to_string_lossy().into_owned());
    let nearest = names.min_by_key(|name| strsim::osa_distance(name, &wanted));
    let nearest = nearest.filter(|name| strsim::osa_distance(name, &wanted) <= (wanted.len() / 3).max(2));
    nearest.map(|name| format!(": did you mean {}?", path.with_file_name(name).display())).unwrap_or_default()
}

impl FileFormat {
    /// The format by a file's name.
    pub fn by_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        match FileCoding::split(&name).1.rsplit_once('.')?.1 {
            "csv" => Some(Self::Csv),
            "ndjson" | "jsonl" => Some(Self::Ndjson),
            _ => None,
        }
    }
}

/// Whether rows of a source come little by little, as from a pipe.
pub fn is_live(sources: &[Source]) -> bool {
    let is_file = |source: &Source| match &source.path {
        Some(path) => fs::metadata(path).is_ok_and(|metadata| metadata.is_file()),
        None => {
            let stdin = std::io::stdin().as_fd().try_clone_to_owned();
            stdin.and_then(|stdin| fs::File::from(stdin).metadata()).is_ok_and(|metadata| metadata.is_file())
        }
    };
    !sources.iter().all(is_file)
}

/// The total bytes of all files, as compressed; none if one of them is unknown.
pub fn total_bytes(sources: &[Source]) -> Option<u64> {
    let bytes = |source: &Source| {
        let metadata = fs::metadata(source.path.as_ref()?).ok()?;
        metadata.is_file().then_some(metadata.len())
    };
    sources.iter().map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_select_the_format() {
        for (name, format) in [
            ("a.csv", Some(FileFormat::Csv)),
            ("dir.x/A.CSV.GZ", Some(FileFormat::Csv)),
            ("a.ndjson.gz", Some(FileFormat::Ndjson)),
            ("a.jsonl.zst", Some(FileFormat::Ndjson)),
            ("a.jsonl", Some(FileFormat::Ndjson)),
            ("a.json", None),
            ("csv", None),
            ("a.gz", None),
        ] {
            assert_eq!(FileFormat::by_name(Path::new(name)), format, "{name}");
        }
    }
}
