//! How far the log is known to be durable, told in a file of its own: so that a log that was cut is not
//! taken for one that ends there.
//!
//! It is written after an fsync of the log has succeeded, now and then, without an fsync of its own: the
//! kernel keeps it when the process is killed, and an older one is as true as a newer. When the store is
//! closed it is synced. Without it, or if it is broken, nothing is lost: then the log speaks for itself.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use liststore_contract::domain::StoreId;

use super::Position;
use crate::disk::{Disk, DiskFile, read_all};

pub const NAME: &str = "DURABLE";
/// How often it is written, at most.
const EVERY: Duration = Duration::from_millis(50);

/// What the file says, if it can be trusted. Another store's cannot.
pub fn load(disk: &dyn Disk, dir: &Path, store: Option<StoreId>) -> Option<Position> {
    let bytes = disk.open_read_only(&dir.join(NAME)).and_then(|file| read_all(&*file)).ok()?;
    let mut words = str::from_utf8(&bytes).ok()?.split_ascii_whitespace().skip(1);
    let position = Position::new(words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (encode(position, store).as_bytes() == bytes).then_some(position)
}

/// Always of the same length: it is written over itself.
fn encode(Position { segment, offset }: Position, store: Option<StoreId>) -> String {
    let line = format!("durable {segment:010} {offset:010}");
    let checksum =
        crc32c::crc32c_append(crc32c::crc32c(&store.map_or(0, StoreId::number).to_le_bytes()), line.as_bytes());
    format!("{line} {checksum:08x}\n")
}

pub struct Known {
    /// `None` where it could not be made, on a full disk: the log does without.
    file: Option<Arc<dyn DiskFile>>,
    store: Option<StoreId>,
    due_at: Mutex<Option<Instant>>,
}

impl Known {
    /// Begins to tell of a store's log. What the file said until now stays until there is more to say.
    pub fn open(disk: &dyn Disk, dir: &Path, store: Option<StoreId>) -> Self {
        let path = dir.join(NAME);
        let file = disk.open(&path).or_else(|_| disk.create(&path));
        Self { file: file.ok(), store, due_at: Mutex::default() }
    }

    /// Tells that the log is durable up to here, if it is time to.
    pub fn tell(&self, now: Instant, durable: Position) {
        let mut due_at = self.due_at.lock().unwrap_or_else(PoisonError::into_inner);
        if due_at.is_none_or(|due_at| due_at <= now) {
            *due_at = Some(now + EVERY);
            self.write(durable);
        }
    }

    /// The same in the end, durably.
    pub fn tell_last(&self, durable: Position) {
        self.write(durable);
        let _the_log_does_without = self.file.as_ref().map(|file| file.sync());
    }

    fn write(&self, durable: Position) {
        let text = encode(durable, self.store);
        let _the_log_does_without = self.file.as_ref().map(|file| file.write_all_at(text.as_bytes(), 0));
    }
}
