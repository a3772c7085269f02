//! Where a server listens for local administration: a Unix socket in its data directory.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// The socket's name in the data directory.
pub const NAME: &str = "admin.sock";
/// A longer path has no room in an address (unix(7)).
const PATH_BYTES_MAX: usize = 107;

/// How to bind or reach the socket of a data directory: by its path or, if that is too long, through the opened
/// directory, while this value exists.
#[derive(Debug)]
pub struct Address {
    pub path: PathBuf,
    _dir: Option<File>,
}

impl Address {
    pub fn of(data_dir: &Path) -> io::Result<Self> {
        let path = data_dir.join(NAME);
        if path.as_os_str().len() <= PATH_BYTES_MAX {
            return Ok(Self { path, _dir: None });
        }
        let dir = File::open(data_dir)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(NAME);
        Ok(Self { path, _dir: Some(dir) })
    }
}
