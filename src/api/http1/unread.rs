//! Counts the kernel's memory for answers that clients do not read.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The total of all connections.
#[derive(Debug, Default)]
pub(crate) struct Unread(AtomicUsize);

/// The part of one connection, until drop.
pub(super) struct Lying<'u> {
    unread: &'u Unread,
    bytes: usize,
}

impl Unread {
    pub fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts the kernel's memory of a connection that waits until its client reads.
    pub(super) fn count(&self, bytes: usize) -> Lying<'_> {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        Lying { unread: self, bytes }
    }
}

impl Drop for Lying<'_> {
    fn drop(&mut self) {
        self.unread.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
