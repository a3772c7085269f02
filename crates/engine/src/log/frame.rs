//! The bytes of the log: segment headers and frames.
//!
//! A frame holds the changes of one group commit under one checksum, so that a group is complete or absent. Checksums
//! are seeded with the segment's salt and the frame's place. Segments are reused without being wiped, and their old
//! content is never mistaken for new frames.

use std::hash::{BuildHasher, Hasher, RandomState};

use super::Position;
use super::change::Change;
use crate::codec::{put_varint, take_bytes, take_varint, u32_at, u64_at};
use crate::list_id::ListId;
use crate::options::ListHash;
use crate::row;

use bytes::Bytes;
use liststore_contract::domain::StoreId;

pub const SEGMENT_HEADER_LEN: usize = 64;
pub const FRAME_HEADER_LEN: usize = 24;
/// Frames begin at multiples of this.
pub const ALIGNMENT: usize = 8;
/// Space at the end of a segment that is reserved for its last frame.
pub const END_LEN: usize = FRAME_HEADER_LEN + ALIGNMENT;

const SEGMENT_MAGIC: [u8; 8] = *b"LISTLOG\x01";
const KIND_CHANGES: u8 = 1;
const KIND_END: u8 = 2;
const KIND_SEAL: u8 = 3;
const CHANGE_ROW: u8 = 1;
const CHANGE_CLEAR: u8 = 2;

/// The purpose of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It holds changes.
    Changes,
    /// The segment is complete, and the log continues in the next one.
    End,
    /// It only states how far the log was durable at the time.
    Seal,
}

/// The first bytes of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    pub number: u32,
    /// Drawn again each time that a file becomes a segment.
    pub salt: u64,
    /// How far the log was durable at the beginning of the segment.
    pub durable: Position,
    /// The store that the log belongs to.
    pub store: Option<StoreId>,
}

impl SegmentHeader {
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_LEN] {
        let mut bytes = [0; SEGMENT_HEADER_LEN];
        bytes[..8].copy_from_slice(&SEGMENT_MAGIC);
        bytes[8..12].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.salt.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.durable.as_u64().to_le_bytes());
        bytes[32..48].copy_from_slice(&self.store.map_or(0, StoreId::number).to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..SEGMENT_HEADER_LEN - 4]);
        bytes[SEGMENT_HEADER_LEN - 4..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub fn decode(segment: &[u8]) -> Option<Self> {
        let bytes = segment.get(..SEGMENT_HEADER_LEN)?;
        let sound = bytes.starts_with(&SEGMENT_MAGIC)
            && u32_at(bytes, SEGMENT_HEADER_LEN - 4)? == crc32c::crc32c(&bytes[..SEGMENT_HEADER_LEN - 4]);
        let header = Self {
            number: u32_at(bytes, 8)?,
            salt: u64_at(bytes, 16)?,
            durable: Position::from_u64(u64_at(bytes, 24)?),
            store: StoreId::new(u128::from(u64_at(bytes, 40)?) << 64 | u128::from(u64_at(bytes, 32)?)),
        };
        sound.then_some(header)
    }
}

/// A number that seeds the checksums of no other segment.
pub fn new_salt() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The start of every checksum of a frame.
fn seed(salt: u64, offset: u32) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&salt.to_le_bytes()), &offset.to_le_bytes())
}

fn magic(salt: u64) -> u32 {
    // Never zero, which is the content of unused space.
    (salt >> 32) as u32 | 1
}

/// Collects the changes of one frame.
#[derive(Debug)]
pub struct FrameBuffer {
    bytes: Vec<u8>,
}

impl Default for FrameBuffer {
    fn default() -> Self {
        let mut buffer = Self { bytes: Vec::new() };
        buffer.clear();
        buffer
    }
}

impl FrameBuffer {
    /// Empties it for a new frame of changes.
    pub fn clear(&mut self) {
        self.start(KIND_CHANGES);
    }

    fn start(&mut self, kind: u8) {
        // It must not retain the memory of one very large add permanently.
        if self.bytes.capacity() > 4 << 20 {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
        self.bytes.resize(FRAME_HEADER_LEN, 0);
        self.bytes.push(kind);
    }

    /// A frame without changes.
    pub fn of(kind: Kind) -> Self {
        let mut buffer = Self { bytes: Vec::new() };
        buffer.start(match kind {
            Kind::Changes => KIND_CHANGES,
            Kind::End => KIND_END,
            Kind::Seal => KIND_SEAL,
        });
        buffer
    }

    pub fn push(&mut self, list: &ListId, change: &Change) {
        match change {
            Change::Row(row) => self.push_row(list, row),
            Change::Clear => self.push_kind(list, CHANGE_CLEAR),
            Change::Replace(row) => {
                self.push_kind(list, CHANGE_CLEAR);
                self.push_row(list, row);
            }
        }
    }

    fn push_kind(&mut self, list: &ListId, kind: u8) {
        put_varint(&mut self.bytes, list.bytes().len() as u64);
        self.bytes.extend_from_slice(list.bytes());
        self.bytes.push(kind);
    }

    fn push_row(&mut self, list: &ListId, row: &[u8]) {
        self.push_kind(list, CHANGE_ROW);
        put_varint(&mut self.bytes, row.len() as u64);
        self.bytes.extend_from_slice(row);
    }

    /// Bytes of the frame in the log.
    pub fn len(&self) -> usize {
        self.bytes.len().next_multiple_of(ALIGNMENT)
    }

    /// The bytes of the frame for a place in a segment.
    pub fn seal(&mut self, salt: u64, offset: u32, durable: Position) -> &[u8] {
        let body_len = self.bytes.len() - FRAME_HEADER_LEN;
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
        let seed = seed(salt, offset);
        let body_checksum = crc32c::crc32c_append(seed, &self.bytes[FRAME_HEADER_LEN..]);
        self.bytes[..4].copy_from_slice(&magic(salt).to_le_bytes());
        self.bytes[4..8].copy_from_slice(&(body_len as u32).to_le_bytes());
        self.bytes[8..16].copy_from_slice(&durable.as_u64().to_le_bytes());
        self.bytes[16..20].copy_from_slice(&body_checksum.to_le_bytes());
        let header_checksum = crc32c::crc32c_append(seed, &self.bytes[..20]);
        self.bytes[20..24].copy_from_slice(&header_checksum.to_le_bytes());
        &self.bytes
    }
}

/// The header of a frame, if a valid one is at this place.
fn header_at(segment: &[u8], salt: u64, offset: usize) -> Option<(usize, Position, u32)> {
    let header = segment.get(offset..)?.get(..FRAME_HEADER_LEN)?;
    if u32_at(header, 0)? != magic(salt) {
        return None;
    }
    let place = u32::try_from(offset).ok()?;
    if u32_at(header, 20)? != crc32c::crc32c_append(seed(salt, place), &header[..20]) {
        return None;
    }
    Some((u32_at(header, 4)? as usize, Position::from_u64(u64_at(header, 8)?), u32_at(header, 16)?))
}

/// A decoded frame.
#[derive(Debug)]
pub struct Frame<'a> {
    pub kind: Kind,
    /// How far the log was durable at the time of writing.
    pub durable: Position,
    pub body: &'a [u8],
    /// The beginning of the next frame.
    pub end: usize,
}

/// The frame at a place of a segment; `None` if there is no valid one.
pub fn frame_at(segment: &[u8], salt: u64, offset: usize) -> Option<Frame<'_>> {
    let (body_len, durable, body_checksum) = header_at(segment, salt, offset)?;
    let start = offset + FRAME_HEADER_LEN;
    let end = start.checked_add(body_len)?.checked_next_multiple_of(ALIGNMENT)?;
    let padded = segment.get(start..end)?;
    if crc32c::crc32c_append(seed(salt, u32::try_from(offset).ok()?), padded) != body_checksum {
        return None;
    }
    let (kind, body) = padded.get(..body_len)?.split_first()?;
    let kind = match *kind {
        KIND_CHANGES => Kind::Changes,
        KIND_END => Kind::End,
        KIND_SEAL => Kind::Seal,
        _ => return None,
    };
    Some(Frame { kind, durable, body, end })
}

/// The durable position in each frame header at or after a place.
pub fn durable_after(segment: &[u8], salt: u64, offset: usize) -> impl Iterator<Item = Position> {
    let places = (offset.next_multiple_of(ALIGNMENT)..segment.len()).step_by(ALIGNMENT);
    places.filter_map(move |place| header_at(segment, salt, place)).map(|(_, durable, _)| durable)
}

/// A decoded change, with the oldest timestamp of its row.
pub struct Record {
    pub list: ListId,
    pub change: Change,
    pub oldest: u64,
}

/// Decodes the changes of a frame. `None` for a malformed change with a valid checksum.
pub fn records(body: &[u8], hash: ListHash) -> impl Iterator<Item = Option<Record>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        (at < body.len()).then(|| {
            let record = record(body, &mut at, hash);
            if record.is_none() {
                at = body.len();
            }
            record
        })
    })
}

fn record(body: &[u8], at: &mut usize, hash: ListHash) -> Option<Record> {
    let list = ListId::from_bytes(take_bytes(body, at)?, hash);
    let kind = *body.get(*at)?;
    *at += 1;
    match kind {
        CHANGE_CLEAR => Some(Record { list, change: Change::Clear, oldest: 0 }),
        CHANGE_ROW => {
            let len = usize::try_from(take_varint(body, at)?).ok()?;
            let row = Bytes::copy_from_slice(body.get(*at..at.checked_add(len)?)?);
            *at += len;
            let inspected = row::inspect(&row).ok().filter(|inspected| inspected.count > 0)?;
            Some(Record { list, change: Change::Row(row), oldest: inspected.oldest })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::RowBuilder;

    const SALT: u64 = 0x0123_4567_89ab_cdef;
    const HASH: ListHash = ListHash::Of(|bytes| bytes.len() as u64);

    fn row(times: &[u64]) -> Bytes {
        let mut builder = RowBuilder::default();
        times.iter().for_each(|time| builder.push(*time, time + 9, false, b"value"));
        builder.finish()
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Every later version reads the data of earlier ones.
    #[test]
    fn the_format_never_changes() {
        let durable = Position::new(1, 4_096);
        let header = SegmentHeader { number: 7, salt: SALT, durable, store: None };
        let expected = "4c4953544c4f47010700000000000000efcdab89674523010010000001000000\
                        00000000000000000000000000000000000000000000000000000000e67184e7";
        assert_eq!(hex(&header.encode()), expected);
        assert_eq!(SegmentHeader::decode(&header.encode()), Some(header));
        let header = SegmentHeader { store: StoreId::new(0x0123 << 64 | 0x4567), ..header };
        assert_eq!(hex(&header.encode()[32..48]), "67450000000000002301000000000000");
        assert_eq!(SegmentHeader::decode(&header.encode()), Some(header));
        let mut frame = FrameBuffer::default();
        frame.push(&ListId::from_bytes(b"k\0u-1", HASH), &Change::Clear);
        let expected = "67452301080000000010000001000000b54b1a8b30894dd501056b00752d3102";
        assert_eq!(hex(frame.seal(SALT, 64, durable)), expected);
    }

    #[test]
    fn a_frame_holds_all_changes_of_its_group_in_order() {
        let [a, b] = [b"a\0first".as_slice(), b"b\0second"].map(|bytes| ListId::from_bytes(bytes, HASH));
        let mut frame = FrameBuffer::default();
        frame.push(&a, &Change::Row(row(&[30, 20])));
        frame.push(&b, &Change::Clear);
        frame.push(&a, &Change::Replace(row(&[10])));
        let lists = [a.clone(), b, a.clone(), a];
        let changes = [Change::Row(row(&[30, 20])), Change::Clear, Change::Clear, Change::Row(row(&[10]))];
        let mut segment = vec![0; 64];
        segment.extend_from_slice(frame.seal(SALT, 64, Position::new(0, 64)));
        let found = frame_at(&segment, SALT, 64).unwrap();
        assert_eq!((found.kind, found.end), (Kind::Changes, segment.len()));
        let records: Vec<_> = records(found.body, HASH).map(|record| record.unwrap()).collect();
        assert_eq!(records.iter().map(|record| &record.list).collect::<Vec<_>>(), lists.iter().collect::<Vec<_>>());
        assert_eq!(records.iter().map(|record| record.oldest).collect::<Vec<_>>(), [20, 0, 0, 10]);
        for (record, change) in records.iter().zip(&changes) {
            match (&record.change, change) {
                (Change::Row(read), Change::Row(written)) => assert_eq!(read, written),
                (Change::Clear, Change::Clear) => {}
                (read, written) => panic!("{written:?} was read as {read:?}"),
            }
        }
    }

    /// Segments are reused without being wiped.
    #[test]
    fn a_frame_of_another_segment_or_position_is_refused() {
        let mut frame = FrameBuffer::of(Kind::Seal);
        let bytes = frame.seal(SALT, 64, Position::new(0, 64)).to_vec();
        let at = |place: usize| [vec![0; place], bytes.clone()].concat();
        assert!(frame_at(&at(64), SALT, 64).is_some());
        assert!(frame_at(&at(72), SALT, 72).is_none());
        // One with the same beginning, and one without.
        for other in [SALT ^ 1, SALT ^ (1 << 40)] {
            assert!(frame_at(&at(64), other, 64).is_none());
            assert_eq!(durable_after(&at(64), other, 0).next(), None);
        }
        assert_ne!(new_salt(), new_salt());
        assert_ne!(frame.seal(0, 64, Position::new(0, 64))[..4], [0; 4], "unused space looks like no frame");
    }
}
