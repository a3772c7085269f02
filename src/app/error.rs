//! Reasons why the server did not start. Each is one line that states the remedy.

use crate::api::TlsError;
use crate::data_dir::DataDirError;
use crate::left_out::LeftOut;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot listen on {address}: {source}; choose another address with http.listen")]
    Bind { address: String, source: std::io::Error },
    #[error(
        "cannot start {needed} threads, only {started}: {source} ({limits}); raise the limit, or lower http.workers and \
         items.actors"
    )]
    Threads { needed: usize, started: usize, limits: String, source: std::io::Error },
    #[error("cannot use access.bootstrap_key_file {}: {reason}", path.display())]
    BootstrapKey { path: std::path::PathBuf, reason: String },
    #[error("interrupted by a signal: run it again to continue")]
    MigrationStopped,
    #[error("cannot listen for signals: {0}")]
    Signals(std::io::Error),
    #[error("cannot listen on {address}: {source}; choose another address with admin.listen")]
    BindAdmin { address: String, source: std::io::Error },
    #[error("cannot listen on the socket {}: {source}", path.display())]
    AdminSocket { path: std::path::PathBuf, source: std::io::Error },
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(
        "refusing to listen on {address}, which is not on loopback, while anyone has full access: first create an API \
         key on a server at 127.0.0.1 (`liststore key create admin --role admin`), or set access.mode = \"required\"; \
         --insecure overrides this"
    )]
    Exposed { address: String },
    #[error("cannot open the data directory: {0}")]
    DataDir(#[from] DataDirError),
    #[error("cannot open the item store: {0}")]
    Items(String),
    #[error("cannot open the metadata store: {0}")]
    Metadata(String),
    #[error(transparent)]
    LeftOut(#[from] LeftOut),
    #[error("{0}")]
    Disagree(String),
    #[error("cannot replay {}{}: {reason}; correct the file, or move it away to start without it", path.display(), line_of(*line))]
    Replay { path: std::path::PathBuf, line: usize, reason: String },
    #[error("cannot register metrics: {0}")]
    Metrics(prometheus::Error),
}

/// The line of a file, if the error concerns one line.
fn line_of(line: usize) -> String {
    if line == 0 { String::new() } else { format!(", line {line}") }
}
