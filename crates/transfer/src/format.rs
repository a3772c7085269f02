//! The formats that items are written in.

use std::path::Path;

use clap::ValueEnum;

use crate::import::FileFormat;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    Csv,
    Ndjson,
    Parquet,
}

impl From<FileFormat> for ExportFormat {
    fn from(format: FileFormat) -> Self {
        match format {
            FileFormat::Csv => Self::Csv,
            FileFormat::Ndjson => Self::Ndjson,
        }
    }
}

impl ExportFormat {
    /// The format by a file's name.
    pub fn by_name(path: &Path) -> Option<Self> {
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("parquet")) {
            return Some(Self::Parquet);
        }
        FileFormat::by_name(path).map(Self::from)
    }
}
