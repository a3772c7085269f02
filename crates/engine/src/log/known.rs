//! The known durable position of the log, in a separate file, so that a truncated log is not mistaken for one that ends
//! there.
//!
//! It is written after a successful fsync of the log, at intervals, without an fsync of the file. The kernel retains it
//! when the process is killed, and an older position is as true as a newer one. Closing the store syncs it. If it is
//! missing or broken, nothing is lost, and the log alone decides.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use liststore_contract::domain::StoreId;

use super::Position;
use crate::disk::{Disk, DiskFile, read_all};

pub const NAME: &str = "DURABLE";
/// The shortest interval between writes.
const EVERY: Duration = Duration::from_millis(50);

/// The position in the file, if it is valid and from the same store.
pub fn load(disk: &dyn Disk, dir: &Path, store: Option<StoreId>) -> Option<Position> {
    let bytes = disk.open_read_only(&dir.join(NAME)).and_then(|file| read_all(&*file)).ok()?;
    let mut words = str::from_utf8(&bytes).ok()?.split_ascii_whitespace().skip(1);
    let position = Position::new(words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (encode(position, store).as_bytes() == bytes).then_some(position)
}

/// Always of the same length, because it is overwritten in place.
fn encode(Position { segment, offset }: Position, store: Option<StoreId>) -> String {
    let line = format!("durable {segment:010} {offset:010}");
    let checksum =
        crc32c::crc32c_append(crc32c::crc32c(&store.map_or(0, StoreId::number).to_le_bytes()), line.as_bytes());
    format!("{line} {checksum:08x}\n")
}

pub struct Known {
    /// `None` if it could not be created on a full disk. The log works without it.
    file: Option<Arc<dyn DiskFile>>,
    store: Option<StoreId>,
    due_at: Mutex<Option<Instant>>,
}

impl Known {
    /// Opens the file of a store's log. Its content stays until the first write.
    pub fn open(disk: &dyn Disk, dir: &Path, store: Option<StoreId>) -> Self {
        let path = dir.join(NAME);
        let file = disk.open(&path).or_else(|_| disk.create(&path));
        Self { file: file.ok(), store, due_at: Mutex::default() }
    }

    /// Writes that the log is durable up to this position, if a write is due.
    pub fn write_if_due(&self, now: Instant, durable: Position) {
        let mut due_at = self.due_at.lock().unwrap_or_else(PoisonError::into_inner);
        if due_at.is_none_or(|due_at| due_at <= now) {
            *due_at = Some(now + EVERY);
            self.write(durable);
        }
    }

    /// Writes the last position, durably.
    pub fn write_last(&self, durable: Position) {
        self.write(durable);
        let _the_log_does_without = self.file.as_ref().map(|file| file.sync());
    }

    fn write(&self, durable: Position) {
        let text = encode(durable, self.store);
        let _the_log_does_without = self.file.as_ref().map(|file| file.write_all_at(text.as_bytes(), 0));
    }
}
