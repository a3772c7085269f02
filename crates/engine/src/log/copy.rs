//! The part of the log that a backup needs: checked frame by frame, and closed as a start would close it. Reads
//! segments and makes bytes, and never changes the log.

use std::path::Path;

use liststore_contract::domain::StoreId;

use super::frame::{FrameBuffer, Kind, SEGMENT_HEADER_LEN, SegmentHeader, frame_at, new_salt};
use super::{Position, segment_path};
use crate::disk::{Disk, read_all};
use crate::error::{Damage, ReadError};

/// A piece of a segment's copy, and its place in the segment.
#[derive(Debug)]
pub struct Piece {
    pub offset: u64,
    pub bytes: Vec<u8>,
}

/// The part of a segment from `start` to `end`, which are places in the whole log: its header, and its frames. If `end`
/// lies in it, a closing frame follows.
pub fn segment(
    disk: &dyn Disk,
    dir: &Path,
    number: u32,
    start: Position,
    end: Position,
) -> Result<[Piece; 2], ReadError> {
    let path = segment_path(dir, number);
    let damage = |offset: usize, what| Damage { file: path.clone(), offset: offset as u64, what };
    let mut bytes = disk
        .open_read_only(&path)
        .and_then(|file| read_all(&*file))
        .map_err(|source| ReadError::Io { file: path.clone(), source })?;
    let header = SegmentHeader::decode(&bytes).filter(|header| header.number == number);
    let salt = header.ok_or_else(|| damage(0, "the segment's header is damaged"))?.salt;
    let from = if number == start.segment { start.offset as usize } else { SEGMENT_HEADER_LEN };
    let last = number == end.segment;
    let mut at = from;
    while !last || at < end.offset as usize {
        let frame = frame_at(&bytes, salt, at).ok_or_else(|| damage(at, "a frame of the log is damaged"))?;
        at = frame.end;
        if frame.kind == Kind::End {
            break;
        }
    }
    if last {
        if at != end.offset as usize {
            return Err(damage(at, "the log ends too early").into());
        }
        bytes.truncate(at);
        bytes.extend_from_slice(FrameBuffer::of(Kind::End).seal(salt, end.offset, end));
        at = bytes.len();
    }
    bytes.truncate(at);
    let frames = bytes.split_off(from);
    bytes.truncate(SEGMENT_HEADER_LEN);
    Ok([Piece { offset: 0, bytes }, Piece { offset: from as u64, bytes: frames }])
}

/// The empty segment after the last one. Its header states that everything before it is durable. So any damage to the
/// copy is detected, and never mistaken for a torn tail.
pub fn last_segment(number: u32, store: Option<StoreId>) -> Piece {
    let header = SegmentHeader { number, salt: new_salt(), durable: Position::start_of(number), store };
    Piece { offset: 0, bytes: header.encode().to_vec() }
}
