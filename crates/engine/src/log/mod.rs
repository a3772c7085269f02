//! The log: every change, in order, on disk before it is acknowledged.
//!
//! It is a sequence of segments. These files are written from front to back, and reused once data files contain all
//! their changes. `frame` has the format, `writer` appends, and `replay` reads it after a start. `known` stores its
//! durable position separately, and `copy` copies it for a backup.

pub mod change;
pub mod copy;
pub mod frame;
pub mod known;
pub mod queue;
pub mod replay;
pub mod writer;

use std::fmt;
use std::path::{Path, PathBuf};

/// A place in the log, in the order of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub segment: u32,
    /// Bytes from the start of the segment.
    pub offset: u32,
}

impl Position {
    pub fn new(segment: u32, offset: u32) -> Self {
        Self { segment, offset }
    }

    pub fn start_of(segment: u32) -> Self {
        Self { segment, offset: frame::SEGMENT_HEADER_LEN as u32 }
    }

    /// As one number, in the same order.
    pub fn as_u64(self) -> u64 {
        u64::from(self.segment) << 32 | u64::from(self.offset)
    }

    pub fn from_u64(number: u64) -> Self {
        Self { segment: (number >> 32) as u32, offset: number as u32 }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.segment, self.offset)
    }
}

pub(super) fn segment_path(dir: &Path, segment: u32) -> PathBuf {
    dir.join(format!("{segment:010}.log"))
}

/// The segment of a file name.
pub(super) fn segment_of(name: &str) -> Option<u32> {
    numbered(name, ".log")
}

/// A segment that waits for reuse, under its last number.
pub(super) fn spare_path(dir: &Path, segment: u32) -> PathBuf {
    dir.join(format!("{segment:010}.spare"))
}

pub(super) fn spare_of(name: &str) -> Option<u32> {
    numbered(name, ".spare")
}

fn numbered(name: &str, extension: &str) -> Option<u32> {
    let digits = name.strip_suffix(extension)?;
    (digits.len() == 10 && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
}
