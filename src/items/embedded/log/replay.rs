//! Reads the log back after a start, and finds its end.
//!
//! The log ends at the first place that holds no sound frame. If anything after that place says
//! that the log was durable beyond it, then it is no end but damage, and is refused; else it is
//! what a crash left of a write that nobody acknowledged as durable, and is cut off.

use std::path::Path;

use super::super::disk::{Disk, read_all};
use super::super::error::{Damage, OpenError};
use super::super::options::ListHash;
use super::frame::{self, FrameBuffer, Kind, Record, SEGMENT_HEADER_LEN, SegmentHeader};
use super::{Position, segment_path};

/// Where the log ends.
#[derive(Debug)]
pub struct LogEnd {
    at: Position,
    salt: u64,
}

/// Reads all changes from `start` on, in order. Changes nothing.
pub fn read(
    disk: &dyn Disk,
    dir: &Path,
    segments: &[u32],
    start: Position,
    hash: ListHash,
    mut apply: impl FnMut(Record),
) -> Result<LogEnd, OpenError> {
    let mut at = start;
    loop {
        let path = segment_path(dir, at.segment);
        let damaged = |what| OpenError::from(Damage { file: path.clone(), offset: 0, what });
        if !segments.contains(&at.segment) {
            return Err(damaged("this segment of the log is missing"));
        }
        let bytes = load(disk, &path)?;
        let salt = SegmentHeader::decode(&bytes)
            .filter(|header| header.number == at.segment)
            .ok_or_else(|| damaged("the header of the segment is broken"))?
            .salt;
        match read_segment(&bytes, salt, &path, at, hash, &mut apply)? {
            None => at = Position::start_of(at.segment + 1),
            Some(offset) => {
                let end = LogEnd { at: Position::new(at.segment, offset), salt };
                let durable = frame::durable_after(&bytes, salt, offset as usize + 1);
                end.refuse_if_damaged(disk, dir, segments, durable)?;
                return Ok(end);
            }
        }
    }
}

fn load(disk: &dyn Disk, path: &Path) -> Result<Vec<u8>, OpenError> {
    disk.open_read_only(path).and_then(|file| read_all(&*file)).map_err(OpenError::io("read", path))
}

/// Reads a segment to its end; tells where it breaks off if it does not reach it.
fn read_segment(
    bytes: &[u8],
    salt: u64,
    path: &Path,
    start: Position,
    hash: ListHash,
    apply: &mut impl FnMut(Record),
) -> Result<Option<u32>, OpenError> {
    let mut offset = start.offset;
    while let Some(frame) = frame::frame_at(bytes, salt, offset as usize) {
        if frame.kind == Kind::Changes {
            for record in frame::records(frame.body, hash) {
                apply(record.ok_or_else(|| Damage {
                    file: path.to_owned(),
                    offset: u64::from(offset),
                    what: "a frame holds no changes",
                })?);
            }
        }
        if frame.kind == Kind::End {
            return Ok(None);
        }
        offset = u32::try_from(frame.end).map_err(|_| Damage {
            file: path.to_owned(),
            offset: u64::from(offset),
            what: "the segment is too long",
        })?;
    }
    Ok(Some(offset))
}

impl LogEnd {
    pub fn position(&self) -> Position {
        self.at
    }

    /// The segment to begin next.
    pub fn next_segment(&self) -> u32 {
        self.at.segment + 1
    }

    /// Decides whether what looks like the end is damage, with what the rest of its segment says.
    fn refuse_if_damaged(
        &self,
        disk: &dyn Disk,
        dir: &Path,
        segments: &[u32],
        mut durable: Option<Position>,
    ) -> Result<(), OpenError> {
        for &segment in segments.iter().filter(|segment| **segment > self.at.segment) {
            let bytes = load(disk, &segment_path(dir, segment))?;
            if let Some(header) = SegmentHeader::decode(&bytes).filter(|header| header.number == segment) {
                let later = frame::durable_after(&bytes, header.salt, SEGMENT_HEADER_LEN);
                durable = durable.max(Some(header.durable)).max(later);
            }
        }
        if durable.is_some_and(|durable| durable > self.at) {
            let file = segment_path(dir, self.at.segment);
            let what = "a frame of the log is broken, and later ones say that it was whole";
            return Err(Damage { file, offset: u64::from(self.at.offset), what }.into());
        }
        Ok(())
    }

    /// Cuts off what follows the end, as far as it lies in other segments. `segments` are those that
    /// were read.
    pub fn cut(&self, disk: &dyn Disk, dir: &Path, segments: &[u32]) -> Result<(), OpenError> {
        // What comes next says that all this is durable.
        for &segment in segments.iter().filter(|segment| **segment <= self.at.segment) {
            let path = segment_path(dir, segment);
            disk.open(&path).and_then(|file| file.sync()).map_err(OpenError::io("sync", &path))?;
        }
        for &segment in segments.iter().rev().filter(|segment| **segment > self.at.segment) {
            let path = segment_path(dir, segment);
            disk.remove(&path).map_err(OpenError::io("remove", &path))?;
        }
        disk.sync_dir(dir).map_err(OpenError::io("sync", dir))
    }

    /// Closes the last segment where the log ends, durably: what a crash left behind there is never
    /// looked at again. The next segment must have been begun.
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
