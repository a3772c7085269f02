//! Reads the log back after a start, and finds its end.
//!
//! The log ends at the first place that holds no sound frame. If anything after that place says
//! that the log was durable beyond it, then it is no end but damage, and is refused; else it is
//! what a crash left of a write that nobody acknowledged as durable, and is cut off.

use std::path::{Path, PathBuf};

use super::super::disk::{Disk, read_all};
use super::super::error::{Damage, OpenError};
use super::super::options::ListHash;
use super::frame::{self, FrameBuffer, Kind, Record, SEGMENT_HEADER_LEN, SegmentHeader};
use super::{Position, segment_path};

/// Where the log ends.
#[derive(Debug)]
pub struct LogEnd {
    /// The segment to begin next.
    pub next_segment: u32,
    /// Where a torn tail begins, if the log does not end cleanly.
    torn: Option<Torn>,
}

#[derive(Debug)]
struct Torn {
    at: Position,
    /// `None` if the segment was never begun.
    salt: Option<u64>,
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
        if !segments.contains(&at.segment) {
            let follows = segments.iter().any(|segment| *segment > at.segment);
            if at.segment == start.segment || follows {
                return Err(Damage { file: path, offset: 0, what: "this segment of the log is missing" }.into());
            }
            return Ok(LogEnd { next_segment: at.segment, torn: None });
        }
        let bytes = load(disk, &path)?;
        let Some(header) = header_of(&bytes, at.segment, &path)? else {
            let torn = Torn { at: Position::new(at.segment, 0), salt: None };
            return end_at(disk, dir, segments, None, torn);
        };
        match read_segment(&bytes, header.salt, &path, at, hash, &mut apply)? {
            None => at = Position::start_of(at.segment + 1),
            Some(offset) => {
                let torn = Torn { at: Position::new(at.segment, offset), salt: Some(header.salt) };
                let later = frame::durable_after(&bytes, header.salt, offset as usize + 1);
                return end_at(disk, dir, segments, later, torn);
            }
        }
    }
}

fn load(disk: &dyn Disk, path: &Path) -> Result<Vec<u8>, OpenError> {
    disk.open_read_only(path).and_then(|file| read_all(&*file)).map_err(OpenError::io("read", path))
}

/// The header of a segment; `None` if a crash came before it was begun.
fn header_of(bytes: &[u8], number: u32, path: &Path) -> Result<Option<SegmentHeader>, OpenError> {
    match (SegmentHeader::decode(bytes), bytes.get(..SEGMENT_HEADER_LEN)) {
        (Some(header), _) if header.number == number => Ok(Some(header)),
        // A file that is used again still has its old header until the new one has reached the disk.
        (Some(_), _) | (None, None) => Ok(None),
        (None, Some(header)) if header.iter().all(|byte| *byte == 0) => Ok(None),
        (None, Some(_)) => {
            Err(Damage { file: path.to_owned(), offset: 0, what: "the header of the segment is broken" }.into())
        }
    }
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

/// Decides whether what looks like the end is damage.
fn end_at(
    disk: &dyn Disk,
    dir: &Path,
    segments: &[u32],
    mut durable: Option<Position>,
    torn: Torn,
) -> Result<LogEnd, OpenError> {
    for &segment in segments.iter().filter(|segment| **segment > torn.at.segment) {
        let bytes = load(disk, &segment_path(dir, segment))?;
        if let Some(header) = SegmentHeader::decode(&bytes).filter(|header| header.number == segment) {
            let later = frame::durable_after(&bytes, header.salt, SEGMENT_HEADER_LEN);
            durable = durable.max(Some(header.durable)).max(later);
        }
    }
    if durable.is_some_and(|durable| durable > torn.at) {
        let file = segment_path(dir, torn.at.segment);
        let what = "a frame of the log is broken, and later ones say that it was whole";
        return Err(Damage { file, offset: u64::from(torn.at.offset), what }.into());
    }
    let next_segment = if torn.salt.is_some() { torn.at.segment + 1 } else { torn.at.segment };
    Ok(LogEnd { next_segment, torn: Some(torn) })
}

impl LogEnd {
    /// Where the log breaks off, if it does not end cleanly.
    pub fn torn_at(&self, dir: &Path) -> Option<(PathBuf, u32)> {
        self.torn.as_ref().map(|torn| (segment_path(dir, torn.at.segment), torn.at.offset))
    }

    /// Cuts a torn tail off, durably, so that it is never taken for anything else. `segments` are
    /// those that were read.
    pub fn repair(&self, disk: &dyn Disk, dir: &Path, segments: &[u32]) -> Result<(), OpenError> {
        // What follows is taken as said to be durable, so all that was read must be.
        for &segment in segments.iter().filter(|segment| self.torn.as_ref().is_none_or(|t| **segment <= t.at.segment)) {
            let path = segment_path(dir, segment);
            disk.open(&path).and_then(|file| file.sync()).map_err(OpenError::io("sync", &path))?;
        }
        let Some(torn) = &self.torn else { return Ok(()) };
        for &segment in segments.iter().rev().filter(|segment| **segment > torn.at.segment) {
            let path = segment_path(dir, segment);
            disk.remove(&path).map_err(OpenError::io("remove", &path))?;
        }
        disk.sync_dir(dir).map_err(OpenError::io("sync", dir))?;
        if let Some(salt) = torn.salt {
            let path = segment_path(dir, torn.at.segment);
            let mut end = FrameBuffer::of(Kind::End);
            let bytes = end.seal(salt, torn.at.offset, torn.at);
            disk.open(&path)
                .and_then(|file| {
                    file.write_all_at(bytes, u64::from(torn.at.offset))?;
                    file.sync()
                })
                .map_err(OpenError::io("write", &path))?;
        }
        Ok(())
    }
}
