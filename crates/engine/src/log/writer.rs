//! Appends frames to the log, segment after segment. One thread owns it. Other threads read its progress in
//! [`Progress`].

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use liststore_contract::domain::StoreId;

use super::frame::{END_LEN, FRAME_HEADER_LEN, FrameBuffer, Kind, SEGMENT_HEADER_LEN, SegmentHeader, new_salt};
use super::{Position, segment_path, spare_path};
use crate::disk::{Disk, DiskFile};
use crate::error::WriteError;

/// A new segment grows by this many zeros at a time, so that most syncs need not record a new size.
const GROWTH_BYTES: u64 = 1 << 20;
/// The largest number of spare segments; more are removed. A flush frees as many as a memtable may span. Then no
/// segment must be created, which syncs would have to wait for.
pub const SPARES_MAX: usize = 4;
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The progress of the log, for threads that do not write it.
pub struct Progress {
    dir: PathBuf,
    store: Option<StoreId>,
    durable: AtomicU64,
    /// The end of the last durable frame; 0 before the first one of this process.
    appended: AtomicU64,
    unsynced: Mutex<Unsynced>,
    /// Permits one sync at a time, because a second one must not overtake the first. The value states whether one has
    /// failed. Then no later sync proves that the failed part is durable.
    syncing: Mutex<bool>,
    in_use: Mutex<InUse>,
    /// Segments for reuse, by their last number.
    spares: Mutex<Vec<u32>>,
    ahead: Mutex<Ahead>,
    /// Whether the next segment must be prepared.
    next_wanted: AtomicBool,
    /// The number of callers that want obsolete segments removed instead of reused, because of their old content.
    discards: AtomicUsize,
}

/// Segments that must stay unchanged.
struct InUse {
    /// The oldest segment in use.
    first: u32,
    /// Whether a reader needs all of them unchanged.
    pinned: bool,
}

/// The segments after the current one. Locked while a segment begins.
#[derive(Default)]
struct Ahead {
    present: u32,
    /// The following segment, if it is ready.
    prepared: Option<Segment>,
}

/// The part that a sync must cover.
#[derive(Default)]
struct Unsynced {
    files: Vec<Arc<dyn DiskFile>>,
    written: u64,
    /// The end of the last frame that does not close a segment.
    appended: u64,
}

impl Progress {
    pub fn new(dir: PathBuf, store: Option<StoreId>, first_segment: u32, durable: Position, spares: Vec<u32>) -> Self {
        Self {
            dir,
            store,
            durable: AtomicU64::new(durable.as_u64()),
            appended: AtomicU64::new(0),
            unsynced: Mutex::default(),
            syncing: Mutex::default(),
            in_use: Mutex::new(InUse { first: first_segment, pinned: false }),
            spares: Mutex::new(spares),
            ahead: Mutex::default(),
            next_wanted: AtomicBool::new(false),
            discards: AtomicUsize::new(0),
        }
    }

    /// Everything before this place survives a loss of power.
    pub fn durable(&self) -> Position {
        Position::from_u64(self.durable.load(Ordering::Acquire))
    }

    /// The end of the last appended frame that survives a loss of power, if there is one. Unlike the end of the log, it
    /// does not move without a frame. [`LogEnd::appended`](super::replay::LogEnd::appended) returns it after a restart.
    pub fn appended(&self) -> Option<Position> {
        Some(self.appended.load(Ordering::Acquire)).filter(|place| *place > 0).map(Position::from_u64)
    }

    /// The end of the written data.
    pub fn written(&self) -> Position {
        Position::from_u64(self.unsynced().written)
    }

    pub fn is_durable(&self) -> bool {
        self.unsynced().written <= self.durable.load(Ordering::Acquire)
    }

    fn unsynced(&self) -> MutexGuard<'_, Unsynced> {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spares(&self) -> MutexGuard<'_, Vec<u32>> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_use(&self) -> MutexGuard<'_, InUse> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ahead(&self) -> MutexGuard<'_, Ahead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_next_wanted(&self) -> bool {
        self.next_wanted.load(Ordering::Acquire)
    }

    /// Prepares the next segment, so that the log's thread need not wait for its syncs.
    pub fn prepare(&self, disk: &dyn Disk, segment_bytes: u64) -> Result<(), WriteError> {
        let mut ahead = self.ahead();
        // The log's thread may have taken the next segment in between.
        if self.is_next_wanted() && ahead.prepared.is_none() {
            ahead.prepared = Some(begin_segment(disk, self, ahead.present + 1, segment_bytes, 0)?);
        }
        self.next_wanted.store(false, Ordering::Release);
        Ok(())
    }

    fn wrote(&self, file: &Arc<dyn DiskFile>, end: Position) {
        let mut unsynced = self.unsynced();
        unsynced.written = end.as_u64();
        if !unsynced.files.iter().any(|known| Arc::ptr_eq(known, file)) {
            unsynced.files.push(file.clone());
        }
    }

    /// Makes all written data durable. After an error the log must no longer be used.
    pub fn sync(&self) -> io::Result<()> {
        let mut has_failed = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        if *has_failed {
            return Err(io::Error::other("an earlier fsync failed"));
        }
        let Unsynced { files, written, appended } = {
            let mut unsynced = self.unsynced();
            let Unsynced { written, appended, .. } = *unsynced;
            std::mem::replace(&mut *unsynced, Unsynced { written, appended, ..Unsynced::default() })
        };
        *has_failed = true;
        for file in files {
            file.sync()?;
        }
        *has_failed = false;
        self.durable.fetch_max(written, Ordering::AcqRel);
        self.appended.fetch_max(appended, Ordering::AcqRel);
        Ok(())
    }

    /// Retains all segments until [`Self::unpin`]. For one reader at a time: returns whether this call succeeded.
    pub fn pin(&self) -> bool {
        !std::mem::replace(&mut self.in_use().pinned, true)
    }

    /// Ends the pin. The caller must then free the obsolete segments.
    pub fn unpin(&self) {
        self.in_use().pinned = false;
    }

    /// Removes the spare segments, and from now on each obsolete one, until each caller has called
    /// [`Self::keep_some_to_be_used_again`].
    pub fn keep_none_to_be_used_again(&self, disk: &dyn Disk) {
        self.discards.fetch_add(1, Ordering::AcqRel);
        for spare in self.spares().drain(..) {
            let _left_for_the_next_start = disk.remove(&spare_path(&self.dir, spare));
        }
    }

    /// Ends [`Self::keep_none_to_be_used_again`].
    pub fn keep_some_to_be_used_again(&self) {
        self.discards.fetch_sub(1, Ordering::AcqRel);
    }

    fn discards(&self) -> bool {
        self.discards.load(Ordering::Acquire) > 0
    }

    /// The oldest segment in use.
    pub fn first_in_use(&self) -> u32 {
        self.in_use().first
    }

    pub fn is_pinned(&self) -> bool {
        self.in_use().pinned
    }

    /// Frees the segments before `end`, whose changes are all in data files. If they are pinned, a later call does it.
    /// The next start repeats failed removals.
    pub fn recycle_before(&self, disk: &dyn Disk, end: u32) {
        let mut in_use = self.in_use();
        if in_use.pinned {
            return;
        }
        let first = in_use.first;
        in_use.first = first.max(end);
        for segment in first..end {
            let mut spares = self.spares();
            let path = segment_path(&self.dir, segment);
            if spares.len() >= SPARES_MAX || self.discards() {
                let _left_for_the_next_start = disk.remove(&path);
            } else if disk.rename(&path, &spare_path(&self.dir, segment)).is_ok() {
                spares.push(segment);
            }
        }
    }
}

struct Segment {
    number: u32,
    salt: u64,
    file: Arc<dyn DiskFile>,
    /// The place of the next frame.
    offset: u64,
    /// The length of the file.
    allocated: u64,
    /// The largest length of the file.
    limit: u64,
}

impl Segment {
    /// Makes sure that the file has space up to `end`, without changing existing data.
    fn reserve(&mut self, end: u64) -> io::Result<()> {
        if end <= self.allocated {
            return Ok(());
        }
        let target = end.max((self.allocated + GROWTH_BYTES).min(self.limit));
        let mut at = self.allocated;
        while at < target {
            let len = usize::try_from(target - at).unwrap_or(usize::MAX).min(ZEROS.len());
            self.file.write_all_at(&ZEROS[..len], at)?;
            at += len as u64;
        }
        self.allocated = target;
        Ok(())
    }

    fn has_room_for(&self, frame_len: u64) -> bool {
        self.offset + frame_len + END_LEN as u64 <= self.limit
    }

    fn position(&self) -> Position {
        Position::new(self.number, self.offset as u32)
    }
}

pub struct LogWriter {
    disk: Arc<dyn Disk>,
    segment_bytes: u64,
    progress: Arc<Progress>,
    current: Segment,
    /// The last segment whose successor was requested.
    asked_in: u32,
}

impl LogWriter {
    /// Begins a segment, durably.
    pub fn begin(
        disk: Arc<dyn Disk>,
        segment: u32,
        segment_bytes: u64,
        progress: Arc<Progress>,
    ) -> Result<Self, WriteError> {
        let current = begin_segment(&*disk, &progress, segment, segment_bytes, 0)?;
        progress.wrote(&current.file, current.position());
        progress.ahead().present = segment;
        Ok(Self { disk, segment_bytes, progress, current, asked_in: 0 })
    }

    /// The place of the next frame.
    pub fn position(&self) -> Position {
        self.current.position()
    }

    /// Appends a frame, which then survives a crash of the process. It is not durable yet.
    pub fn append(&mut self, frame: &mut FrameBuffer) -> Result<(), WriteError> {
        let len = frame.len() as u64;
        if !self.current.has_room_for(len) {
            self.roll(len)?;
        }
        self.write(frame)
    }

    /// Whether a small frame fits into the current segment.
    pub fn has_room_for_seal(&self) -> bool {
        self.current.has_room_for(END_LEN as u64)
    }

    /// Requests the next segment once half of the current one is used, so that there is time to prepare it. Returns
    /// whether this call requested it.
    pub fn request_next_segment(&mut self) -> bool {
        let Segment { number, offset, limit, .. } = self.current;
        let asks = self.asked_in != number && offset > limit / 2;
        if asks {
            self.asked_in = number;
            self.progress.next_wanted.store(true, Ordering::Release);
        }
        asks
    }

    fn write(&mut self, frame: &mut FrameBuffer) -> Result<(), WriteError> {
        self.put(frame)?;
        self.progress.wrote(&self.current.file, self.position());
        self.progress.unsynced().appended = self.position().as_u64();
        Ok(())
    }

    /// Writes a frame without publishing the progress of the log.
    fn put(&mut self, frame: &mut FrameBuffer) -> Result<(), WriteError> {
        let segment = &mut self.current;
        let end = segment.offset + frame.len() as u64;
        segment.reserve(end).map_err(WriteError::NotWritten)?;
        let bytes = frame.seal(segment.salt, segment.offset as u32, self.progress.durable());
        if let Err(error) = segment.file.write_all_at(bytes, segment.offset) {
            return Err(if is_void(&*segment.file, bytes, segment.offset) {
                WriteError::NotWritten(error)
            } else {
                WriteError::Unknown(error)
            });
        }
        segment.offset = end;
        Ok(())
    }

    /// Continues in the next segment, although this one has space.
    pub fn begin_next(&mut self) -> Result<(), WriteError> {
        self.roll(END_LEN as u64)
    }

    /// Closes the segment and continues in the next one, which is durable by then. So if a segment is closed and the
    /// next one is missing, it was lost.
    fn roll(&mut self, frame_len: u64) -> Result<(), WriteError> {
        let progress = self.progress.clone();
        let mut ahead = progress.ahead();
        let number = self.current.number + 1;
        // A prepared segment may be a reused one, which is then replaced.
        let prepared = ahead.prepared.take().filter(|next| next.has_room_for(frame_len) && !progress.discards());
        let next = match prepared {
            Some(next) => next,
            None => begin_segment(&*self.disk, &progress, number, self.segment_bytes, frame_len)?,
        };
        if let Err(error) = self.put(&mut FrameBuffer::of(Kind::End)) {
            // The log still ends here, and the next segment is correct.
            ahead.prepared = Some(next);
            return Err(error);
        }
        ahead.present = number;
        self.progress.next_wanted.store(false, Ordering::Release);
        let ended = std::mem::replace(&mut self.current, next);
        // The position after a closing frame is never published alone, so that a reader of a published position finds
        // the next segment.
        progress.wrote(&ended.file, self.position());
        Ok(())
    }
}

/// Whether a failed frame is certainly invalid, although parts of it may have been written.
fn is_void(file: &dyn DiskFile, frame: &[u8], offset: u64) -> bool {
    // Without its header the frame is invalid. With missing parts its checksum is invalid.
    let mut found = vec![0; frame.len()];
    file.write_all_at(&[0; FRAME_HEADER_LEN], offset).is_ok()
        || file.read_exact_at(&mut found, offset).is_ok_and(|()| found != frame)
}

/// Makes a durable segment from a spare file or a new one, with space for a frame.
fn begin_segment(
    disk: &dyn Disk,
    progress: &Progress,
    number: u32,
    segment_bytes: u64,
    frame_len: u64,
) -> Result<Segment, WriteError> {
    let offset = SEGMENT_HEADER_LEN as u64;
    let limit = segment_bytes.max(offset + frame_len + END_LEN as u64);
    let salt = new_salt();
    let header = SegmentHeader { number, salt, durable: progress.durable(), store: progress.store };
    let path = segment_path(&progress.dir, number);
    let spare = if progress.discards() { None } else { progress.spares().pop() };
    let begun = match spare.map(|spare| spare_path(&progress.dir, spare)) {
        Some(spare) => open_spare(disk, &spare, &path, &header),
        None => create(disk, &path, &header),
    };
    let (file, allocated) = begun.map_err(WriteError::NotWritten)?;
    let mut segment = Segment { number, salt, file, offset, allocated, limit };
    if let Err(error) = segment.reserve(offset + frame_len) {
        let _an_unused_segment_is_harmless = disk.remove(&path);
        return Err(WriteError::NotWritten(error));
    }
    segment.file.sync().and_then(|()| disk.sync_dir(&progress.dir)).map_err(WriteError::Unknown)?;
    Ok(segment)
}

fn create(disk: &dyn Disk, path: &Path, header: &SegmentHeader) -> io::Result<(Arc<dyn DiskFile>, u64)> {
    let file = disk.create(path)?;
    if let Err(error) = file.write_all_at(&header.encode(), 0) {
        let _an_unused_segment_is_harmless = disk.remove(path);
        return Err(error);
    }
    Ok((file, SEGMENT_HEADER_LEN as u64))
}

fn open_spare(
    disk: &dyn Disk,
    spare: &Path,
    path: &Path,
    header: &SegmentHeader,
) -> io::Result<(Arc<dyn DiskFile>, u64)> {
    let file = disk.open(spare)?;
    let allocated = file.size()?.max(SEGMENT_HEADER_LEN as u64);
    file.write_all_at(&header.encode(), 0)?;
    disk.rename(spare, path)?;
    Ok((file, allocated))
}
