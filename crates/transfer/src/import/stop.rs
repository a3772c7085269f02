//! Stops the reading thread without the loss of a row that it has read.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// How long a wait for bytes takes until it looks whether it must end.
const CHECK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The reader ends when it next needs bytes. By then, all rows of the bytes before are in the buffer.
#[derive(Debug, Default)]
pub struct Stop {
    is_set: AtomicBool,
    is_opening: AtomicBool,
}

impl Stop {
    pub fn set(&self) {
        self.is_set.store(true, Ordering::SeqCst);
    }

    pub fn is_set(&self) -> bool {
        self.is_set.load(Ordering::SeqCst)
    }

    /// Whether the reader opens a source. A named pipe without a writer opens never, and no bytes of it are read yet.
    pub fn is_opening(&self) -> bool {
        self.is_opening.load(Ordering::SeqCst)
    }

    /// Opens a source, unless the reader must end.
    pub fn open<T>(&self, open: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.is_opening.store(true, Ordering::SeqCst);
        let opened = self.go_on().and_then(|()| open());
        self.is_opening.store(false, Ordering::SeqCst);
        opened
    }

    /// Waits until a source has bytes or ends. Fails if the reader must end first: no bytes are taken then.
    pub fn await_bytes(&self, source: impl AsFd) -> io::Result<()> {
        loop {
            self.go_on()?;
            match poll(&mut [PollFd::new(&source, PollFlags::IN)], Some(&CHECK_INTERVAL)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn go_on(&self) -> io::Result<()> {
        if self.is_set() { Err(io::Error::other("the import was interrupted")) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write, pipe};
    use std::sync::{Arc, mpsc};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn bytes_stay_in_a_pipe_once_it_is_set() {
        let (stop, (mut reader, mut writer)) = (Stop::default(), pipe().unwrap());
        writer.write_all(b"a").unwrap();
        stop.await_bytes(&reader).unwrap();
        reader.read_exact(&mut [0]).unwrap();
        let (stop, waiting) = (Arc::new(stop), reader.try_clone().unwrap());
        let (ended, outcome) = mpsc::sync_channel(1);
        thread::spawn({
            let stop = Arc::clone(&stop);
            move || ended.send(stop.await_bytes(&waiting).is_err())
        });
        stop.set();
        assert_eq!(outcome.recv_timeout(Duration::from_secs(60)), Ok(true), "a wait for bytes ends");
        writer.write_all(b"b").unwrap();
        assert!(stop.await_bytes(&reader).is_err());
        assert!(stop.open(|| Ok(7)).is_err());
        assert_eq!(rustix::io::ioctl_fionread(&reader).unwrap(), 1);
    }

    #[test]
    fn the_end_of_a_source_needs_no_wait() {
        let (stop, (reader, writer)) = (Stop::default(), pipe().unwrap());
        assert!(stop.open(|| Ok(stop.is_opening())).unwrap());
        assert!(!stop.is_opening());
        drop(writer);
        stop.await_bytes(&reader).unwrap();
    }
}
