//! Reads the log after a start, and finds its end.
//!
//! The log ends at the first place without a valid frame. If any later data states that the log was durable beyond that
//! place, it is damage, and is refused. Otherwise a crash left a write that was never acknowledged as durable, and it
//! is cut off.
//!
//! The data may not be on the disk. After a failed fsync, the kernel still shows the unwritten data and never writes it
//! again, and the next fsync succeeds. So a copy atomically replaces each segment with data that nothing states to be
//! durable. An interruption leaves the old segment. Writing the same bytes to the same place is not enough: ext4 writes
//! such a block, and leaves it marked as unwritten.

use std::io;
use std::path::Path;

use super::frame::{self, FrameBuffer, Kind, Record, SEGMENT_HEADER_LEN, SegmentHeader};
use super::{Position, segment_path};
use crate::disk::owner::Owner;
use crate::disk::{Disk, read_all};
use crate::error::{Damage, OpenError};
use crate::options::ListHash;

/// The result of reading, and the end of the log.
#[derive(Debug)]
pub struct LogEnd {
    at: Position,
    /// The end of the last frame that does not close a segment, or the start of the needed part.
    appended: Position,
    salt: u64,
    /// The log was durable before this place, according to its own frames.
    durable: Position,
    /// The segments with later data, oldest first, up to the end.
    tail: Vec<(u32, Vec<u8>)>,
    changes: u64,
    /// Invalid frames after the end.
    cut_frames: u64,
}

/// The known state of the log before reading it.
#[derive(Debug, Clone, Copy)]
pub struct Expected {
    /// The start of the needed part.
    pub start: Position,
    /// How far it was durable, according to other files.
    pub durable: Option<Position>,
    pub owner: Option<Owner>,
}

impl Expected {
    fn is_ours(&self, header: &SegmentHeader) -> bool {
        self.owner.is_none_or(|owner| match header.store {
            Some(store) => store == owner.id,
            None => header.number < owner.from_segment,
        })
    }
}

/// Reads all changes in order. Changes nothing.
pub fn read(
    disk: &dyn Disk,
    dir: &Path,
    segments: &[u32],
    expected: Expected,
    hash: ListHash,
    mut apply: impl FnMut(Record),
) -> Result<LogEnd, OpenError> {
    let Expected { start, .. } = expected;
    let durable = expected.durable.unwrap_or(start);
    let mut end = LogEnd {
        at: start,
        appended: start,
        salt: 0,
        durable: durable.max(start),
        tail: Vec::new(),
        changes: 0,
        cut_frames: 0,
    };
    loop {
        let path = segment_path(dir, end.at.segment);
        let damaged = |what| OpenError::from(Damage { file: path.clone(), offset: 0, what });
        if !segments.contains(&end.at.segment) {
            return Err(damaged("this segment of the log is missing"));
        }
        let mut bytes = load(disk, &path)?;
        let header = SegmentHeader::decode(&bytes).filter(|header| header.number == end.at.segment);
        let header = header.ok_or_else(|| damaged("the segment's header is damaged"))?;
        if !expected.is_ours(&header) {
            return Err(damaged("the segment belongs to another store"));
        }
        (end.salt, end.durable) = (header.salt, end.durable.max(header.durable));
        let complete = end.read_segment(&bytes, &path, hash, &mut apply)?;
        if !complete {
            end.refuse_if_damaged(disk, dir, segments, &bytes, durable)?;
        }
        bytes.truncate(end.at.offset as usize);
        end.tail.push((end.at.segment, bytes));
        end.tail.retain(|(segment, _)| *segment >= end.durable.segment);
        if !complete {
            return Ok(end);
        }
        end.at = Position::start_of(end.at.segment + 1);
    }
}

fn load(disk: &dyn Disk, path: &Path) -> Result<Vec<u8>, OpenError> {
    disk.open_read_only(path).and_then(|file| read_all(&*file)).map_err(OpenError::io("read", path))
}

/// Replaces a segment with a copy. Its name is not durable yet.
fn write_again(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_added_extension("tmp");
    let copied = disk.create(&temporary).and_then(|file| file.write_all_at(bytes, 0).map(|()| file));
    match copied {
        Ok(file) => file.sync().and_then(|()| disk.rename(&temporary, path)),
        Err(error) => {
            let _left_for_the_next_start = disk.remove(&temporary);
            if error.kind() != io::ErrorKind::StorageFull {
                return Err(error);
            }
            // Its blocks are allocated already, so writing them again is the best remaining option.
            let file = disk.open(path)?;
            file.write_all_at(bytes, 0)?;
            file.sync()
        }
    }
}

impl LogEnd {
    pub fn position(&self) -> Position {
        self.at
    }

    /// The end of the appended frames. It does not move when the log continues in another segment without a frame, as
    /// in a backup.
    pub fn appended(&self) -> Position {
        self.appended
    }

    /// The number of the next segment.
    pub fn next_segment(&self) -> u32 {
        self.at.segment + 1
    }

    /// Reads a segment to the last valid frame. Returns whether the log ends there.
    fn read_segment(
        &mut self,
        bytes: &[u8],
        path: &Path,
        hash: ListHash,
        apply: &mut impl FnMut(Record),
    ) -> Result<bool, OpenError> {
        let damaged = |at: u32, what| Damage { file: path.to_owned(), offset: u64::from(at), what };
        while let Some(frame) = frame::frame_at(bytes, self.salt, self.at.offset as usize) {
            if frame.kind == Kind::Changes {
                for record in frame::records(frame.body, hash) {
                    apply(record.ok_or_else(|| damaged(self.at.offset, "a frame has no changes"))?);
                    self.changes += 1;
                }
            }
            self.durable = self.durable.max(frame.durable);
            self.at.offset =
                u32::try_from(frame.end).map_err(|_| damaged(self.at.offset, "the segment is too long"))?;
            if frame.kind == Kind::End {
                return Ok(true);
            }
            self.appended = self.at;
        }
        Ok(false)
    }

    /// Decides whether an apparent end is damage, by the data of other files, of the rest of its segment, and of later
    /// segments.
    fn refuse_if_damaged(
        &mut self,
        disk: &dyn Disk,
        dir: &Path,
        segments: &[u32],
        last: &[u8],
        known: Position,
    ) -> Result<(), OpenError> {
        let mut claims: Vec<_> = frame::durable_after(last, self.salt, self.at.offset as usize).collect();
        for &segment in segments.iter().filter(|segment| **segment > self.at.segment) {
            let bytes = load(disk, &segment_path(dir, segment))?;
            if let Some(header) = SegmentHeader::decode(&bytes).filter(|header| header.number == segment) {
                claims.extend(frame::durable_after(&bytes, header.salt, SEGMENT_HEADER_LEN));
                self.durable = self.durable.max(header.durable);
            }
        }
        self.cut_frames = claims.len() as u64;
        self.durable = self.durable.max(claims.into_iter().max().unwrap_or(known));
        if self.durable > self.at {
            let file = segment_path(dir, self.at.segment);
            let what = if known > self.at {
                "the log ends here, but more of it was written"
            } else {
                "a frame of the log is damaged, although later frames show that it was complete"
            };
            return Err(Damage { file, offset: u64::from(self.at.offset), what }.into());
        }
        Ok(())
    }

    /// Makes the read data durable, and cuts off later data in other segments. `segments` are the read ones.
    pub fn settle(&self, disk: &dyn Disk, dir: &Path, segments: &[u32]) -> Result<(), OpenError> {
        let mut written = 0;
        for (segment, bytes) in &self.tail {
            let is_durable = *segment == self.durable.segment && bytes.len() <= self.durable.offset as usize;
            if !is_durable {
                let path = segment_path(dir, *segment);
                write_again(disk, &path, bytes).map_err(OpenError::io("write again", &path))?;
                written += bytes.len();
            }
        }
        let later = || segments.iter().rev().filter(|segment| **segment > self.at.segment);
        for &segment in later() {
            let path = segment_path(dir, segment);
            disk.remove(&path).map_err(OpenError::io("remove", &path))?;
        }
        disk.sync_dir(dir).map_err(OpenError::io("sync", dir))?;
        let cut_segments = later().count();
        // A new log, and an orderly closed one, contain nothing to report.
        if self.changes > 0 || self.cut_frames > 0 || cut_segments > 0 {
            tracing::info!(
                changes = self.changes,
                end = %self.at,
                durable = %self.durable,
                written_again_bytes = written,
                cut_frames = self.cut_frames,
                cut_segments,
                "log replayed"
            );
        }
        Ok(())
    }

    /// Closes the last segment at the end of the log, durably, so that later reads ignore the remains of a crash. The
    /// next segment must exist.
    pub fn close(&self, disk: &dyn Disk, dir: &Path) -> Result<(), OpenError> {
        let path = segment_path(dir, self.at.segment);
        let mut end = FrameBuffer::of(Kind::End);
        let bytes = end.seal(self.salt, self.at.offset, self.at);
        let closed = disk.open(&path).and_then(|file| {
            file.write_all_at(bytes, u64::from(self.at.offset))?;
            file.sync()
        });
        closed.map_err(OpenError::io("write", &path))
    }
}
