//! Stops the reading thread without the loss of a row that it has read.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// The reader ends when it next needs bytes. By then, all rows of the bytes before are in the buffer.
#[derive(Debug, Default)]
pub struct Stop {
    is_set: AtomicBool,
    is_reading: AtomicBool,
}

impl Stop {
    pub fn set(&self) {
        self.is_set.store(true, Ordering::SeqCst);
    }

    pub fn is_set(&self) -> bool {
        self.is_set.load(Ordering::SeqCst)
    }

    /// Whether the reader waits for its source. It may do so without end.
    pub fn is_reading(&self) -> bool {
        self.is_reading.load(Ordering::SeqCst)
    }

    /// Opens or reads a source, unless the reader must end.
    pub fn unless_set<T>(&self, read: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.is_reading.store(true, Ordering::SeqCst);
        let outcome = if self.is_set() { Err(io::Error::other("the import was interrupted")) } else { read() };
        self.is_reading.store(false, Ordering::SeqCst);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_read_once_it_is_set() {
        let stop = Stop::default();
        let read = stop.unless_set(|| {
            assert!(stop.is_reading());
            stop.set();
            Ok(7)
        });
        assert_eq!((read.unwrap(), stop.is_reading()), (7, false), "bytes that were read are not lost");
        let again = stop.unless_set(|| Ok(7));
        assert!(again.is_err(), "{again:?}");
    }
}
