//! The socket in the data directory that local administration goes over.
//!
//! Anyone who can use the data directory can use the socket, and no other caller: no relay, proxy or browser page
//! leads here. Its mode is 0600 from its first moment on. It replaces a socket that another process left. This is safe
//! only for the holder of the directory's lock, which the caller ensures.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use liststore_client::local::Address;
pub use liststore_client::local::NAME;
use rustix::fs::{Mode, fchmod};
use tokio::net::UnixSocket;

const BACKLOG: u32 = 16;

/// A socket that listens, and is removed in the end.
#[derive(Debug)]
pub struct AdminSocket {
    path: PathBuf,
}

impl AdminSocket {
    /// Listens in a data directory whose lock is held. Must be called within a runtime.
    pub fn listen(data_dir: &Path) -> io::Result<(Self, UnixListener)> {
        let path = data_dir.join(NAME);
        match fs::symlink_metadata(&path) {
            Ok(found) if found.file_type().is_socket() => fs::remove_file(&path)?,
            Ok(_) => {
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file exists there that is not a socket"));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let socket = UnixSocket::new_stream()?;
        // A socket's file gets the mode that the socket has when it is bound.
        fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        let address = Address::of(data_dir)?;
        socket.bind(&address.path)?;
        let listener = socket.listen(BACKLOG)?.into_std()?;
        Ok((Self { path }, listener))
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the local administration socket");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn listen(dir: &Path) -> io::Result<(AdminSocket, UnixListener)> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async { AdminSocket::listen(dir) })
    }

    #[test]
    fn the_socket_belongs_to_its_owner_and_is_removed_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let (socket, _listener) = listen(dir.path()).unwrap();
        let mode = fs::metadata(dir.path().join(NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        UnixStream::connect(dir.path().join(NAME)).unwrap();
        drop(socket);
        assert!(!dir.path().join(NAME).exists());
    }

    #[test]
    fn a_stale_socket_is_replaced_and_other_files_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let (left, listener) = listen(dir.path()).unwrap();
        std::mem::forget(left);
        drop(listener);
        let (socket, _listener) = listen(dir.path()).unwrap();
        UnixStream::connect(dir.path().join(NAME)).unwrap();
        drop(socket);
        fs::write(dir.path().join(NAME), "mine").unwrap();
        assert_eq!(listen(dir.path()).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(dir.path().join(NAME)).unwrap(), b"mine");
    }

    #[test]
    fn a_long_path_works() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("x".repeat(100)).join("y".repeat(100));
        fs::create_dir_all(&deep).unwrap();
        let (_socket, _listener) = listen(&deep).unwrap();
        assert!(deep.join(NAME).exists());
        UnixStream::connect(&Address::of(&deep).unwrap().path).unwrap();
    }
}
