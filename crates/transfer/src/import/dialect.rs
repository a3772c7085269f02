//! How the CSV files of other programs are written.

use clap::ValueEnum;

/// How a CSV file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CsvDialect {
    /// The byte between cells.
    pub delimiter: u8,
    pub escape: Option<CsvEscape>,
}

impl Default for CsvDialect {
    fn default() -> Self {
        Self { delimiter: b',', escape: None }
    }
}

/// How quotes within quotes are written, other than by doubling them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CsvEscape {
    /// \" is a quote and \\ a backslash, as Spark, Hive and MySQL write them
    Backslash,
}
