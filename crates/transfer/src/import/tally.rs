//! The state that the reading thread and the sender share: the counts, the bad rows, and the end of reading.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use csv::ByteRecord;

use super::bad_rows::BadRows;
use super::row::RawRow;
use super::stop::Stop;
use crate::client::Failure;
use crate::wire::Added;

/// The warning about timestamps without a time zone.
pub const NO_ZONE: &str = "some timestamps have no time zone and were read as UTC: name their zone with --timezone";

/// What became of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowCounts {
    pub rows: u64,
    /// Stored items, except items that are known to have been there.
    pub added: u64,
    /// Items that were in their list before. Only compared items count.
    pub already_there: u64,
    /// Stored items that were compared with their list.
    pub compared: u64,
    pub already_expired: u64,
    pub bad: u64,
}

pub struct Tally {
    pub stop: Stop,
    bytes: AtomicU64,
    rows: AtomicU64,
    /// Including items that were there before.
    stored: AtomicU64,
    already_there: AtomicU64,
    compared: AtomicU64,
    already_expired: AtomicU64,
    /// Rows whose timestamps are likely of another unit.
    doubtful: AtomicU64,
    bad: AtomicU64,
    keeps_bad_rows: bool,
    bad_rows: Mutex<Option<BadRows>>,
    /// The first warning about timestamps in another unit: the reader's, or otherwise the server's.
    unit_warning: OnceLock<String>,
    /// Whether a timestamp had no time zone.
    is_utc_assumed: AtomicBool,
    /// At most one of each file.
    warnings: Mutex<Vec<String>>,
}

impl Tally {
    pub fn new(bad_rows: Option<BadRows>) -> Self {
        Self {
            stop: Stop::default(),
            bytes: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            stored: AtomicU64::new(0),
            already_there: AtomicU64::new(0),
            compared: AtomicU64::new(0),
            already_expired: AtomicU64::new(0),
            doubtful: AtomicU64::new(0),
            bad: AtomicU64::new(0),
            keeps_bad_rows: bad_rows.is_some(),
            bad_rows: Mutex::new(bad_rows),
            unit_warning: OnceLock::new(),
            is_utc_assumed: AtomicBool::new(false),
            warnings: Mutex::new(Vec::new()),
        }
    }

    /// Whether bad rows are written to a file, so that rows must be retained until they are added.
    pub fn keeps_bad_rows(&self) -> bool {
        self.keeps_bad_rows
    }

    pub fn count_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn count_row(&self) {
        self.rows.fetch_add(1, Ordering::Relaxed);
    }

    pub fn count_doubtful(&self) {
        self.doubtful.fetch_add(1, Ordering::Relaxed);
    }

    /// Fails if all rows are bad, or if most of the sent rows have expired or probably have another unit, because then
    /// the file is probably a wrong one. The last two can be accepted.
    pub fn check(&self, accepts_expired: bool) -> Result<(), Failure> {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (rows, bad) = (count(&self.rows), count(&self.bad));
        if rows > 0 && bad == rows {
            return Err(Failure::failed(format!("all {rows} rows are bad: the file of bad rows has the reasons")));
        }
        if accepts_expired {
            return Ok(());
        }
        let (stored, expired, doubtful) = (count(&self.stored), count(&self.already_expired), count(&self.doubtful));
        let sent = stored + expired;
        let accept = "pass --yes to accept this";
        if doubtful.saturating_mul(2) > sent {
            return Err(Failure::failed(format!(
                "{doubtful} of {sent} timestamps are likely of another unit: pass --timestamp-unit, or {accept}"
            )));
        }
        if expired.saturating_mul(2) > sent {
            return Err(Failure::failed(format!(
                "{expired} of {sent} items have already expired by the TTL of the feature, and were not stored: {accept}"
            )));
        }
        Ok(())
    }

    /// Counts an add. `already_there` is the number of its items that were in their list before, if it is known.
    pub fn count_added(&self, added: Added, already_there: Option<u64>) {
        self.stored.fetch_add(added.added, Ordering::Relaxed);
        if let Some(already_there) = already_there {
            self.compared.fetch_add(added.added, Ordering::Relaxed);
            self.already_there.fetch_add(already_there.min(added.added), Ordering::Relaxed);
        }
        self.already_expired.fetch_add(added.already_expired, Ordering::Relaxed);
        if let Some(warning) = added.warnings.into_iter().next() {
            self.warn_of_unit(|| format!("{warning}, or pass --timestamp-unit"));
        }
    }

    /// Bytes read of the files, compressed as they are.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub fn counts(&self) -> RowCounts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let already_there = count(&self.already_there);
        RowCounts {
            rows: count(&self.rows),
            added: count(&self.stored).saturating_sub(already_there),
            already_there,
            compared: count(&self.compared),
            already_expired: count(&self.already_expired),
            bad: count(&self.bad),
        }
    }

    pub fn warn(&self, warning: String) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(warning);
    }

    pub fn warn_of_unit(&self, warning: impl FnOnce() -> String) {
        self.unit_warning.get_or_init(warning);
    }

    pub fn warn_of_zone(&self) {
        self.is_utc_assumed.store(true, Ordering::Relaxed);
    }

    pub fn warnings(&self) -> Vec<String> {
        let warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        let of_zone = self.is_utc_assumed.load(Ordering::Relaxed).then(|| NO_ZONE.to_owned());
        self.unit_warning.get().cloned().into_iter().chain(of_zone).chain(warnings.iter().cloned()).collect()
    }

    fn bad_rows(&self) -> MutexGuard<'_, Option<BadRows>> {
        // A thread that panicked while it held the lock was in the middle of a line at worst.
        self.bad_rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says which columns a file has; see [`BadRows::header`].
    pub fn header(&self, columns: &ByteRecord, source: &str) -> Result<(), String> {
        self.bad_rows().as_mut().map_or(Ok(()), |bad_rows| bad_rows.header(columns, source))
    }

    /// Writes a bad row down, or fails with it if bad rows are not to be passed over.
    pub fn reject(&self, source: &str, line: u64, reason: &str, raw: Option<&RawRow>) -> Result<(), Failure> {
        self.bad.fetch_add(1, Ordering::Relaxed);
        match (self.bad_rows().as_mut(), raw) {
            (Some(bad_rows), Some(raw)) => bad_rows.write(source, line, reason, raw),
            _ => Err(Failure::failed(format!(
                "{source}, line {line}: {reason} (pass --bad-rows FILE to continue after bad rows)"
            ))),
        }
    }

    /// Brings the bad rows to their file.
    pub fn finish(&self) -> Result<(), Failure> {
        self.bad_rows().as_mut().map_or(Ok(()), BadRows::finish)
    }
}
