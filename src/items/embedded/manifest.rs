//! The manifest: which data files there are, and from where on the log is needed. A small text,
//! replaced in one step; what it does not name is not part of the store.

use std::fmt::Write as _;
use std::path::Path;

use super::disk::{Disk, read_all, replace};
use super::error::{Damage, OpenError, WriteError};
use super::file::{FileId, PARTITIONS};
use super::log::Position;
use crate::domain::StoreId;

pub const NAME: &str = "MANIFEST";
const FIRST_LINE: &str = "liststore items manifest 1";

/// A data file as the manifest names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedFile {
    pub id: FileId,
    pub bytes: u64,
}

/// Which store the items belong to. Log segments and data files say so too, but for those that are
/// older than the store: it was taken in later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    pub id: StoreId,
    /// The first segment and the first data file that must say so.
    pub from_segment: u32,
    pub from_file: FileId,
}

impl Owner {
    /// The short form of it that a data file has room for. Zero stands for none.
    pub fn tag(&self) -> u32 {
        crc32c::crc32c(&self.id.number().to_le_bytes()).max(1)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    pub owner: Option<Owner>,
    /// All changes before this place are in files.
    pub log_start: Position,
    pub next_file: FileId,
    /// By partition, newest first.
    pub files: Vec<Vec<NamedFile>>,
}

impl Manifest {
    pub fn new() -> Self {
        Self { owner: None, log_start: Position::start_of(1), next_file: 1, files: vec![Vec::new(); PARTITIONS] }
    }

    fn encode(&self) -> String {
        let mut text = format!(
            "{FIRST_LINE}\nlog {} {}\nnext-file {}\n",
            self.log_start.segment, self.log_start.offset, self.next_file
        );
        if let Some(Owner { id, from_segment, from_file }) = self.owner {
            // Writing to a string cannot fail.
            let _infallible = writeln!(text, "store {id} {from_segment} {from_file}");
        }
        for (partition, files) in self.files.iter().enumerate() {
            for NamedFile { id, bytes } in files {
                let _infallible = writeln!(text, "file {partition} {id} {bytes}");
            }
        }
        let checksum = crc32c::crc32c(text.as_bytes());
        let _infallible = writeln!(text, "checksum {checksum:08x}");
        text
    }

    fn decode(text: &str) -> Option<Self> {
        let lines_end = text.strip_suffix('\n')?.rfind('\n')? + 1;
        let (lines, last) = text.split_at(lines_end);
        if last != format!("checksum {:08x}\n", crc32c::crc32c(lines.as_bytes())) {
            return None;
        }
        let mut lines = lines.lines();
        if lines.next()? != FIRST_LINE {
            return None;
        }
        let mut manifest = Self::new();
        for line in lines {
            let mut words = line.split(' ');
            let kind = words.next()?;
            let store = if kind == "store" { Some(StoreId::parse(words.next()?)?) } else { None };
            let mut numbers = words.map(|word| word.parse::<u64>().ok());
            let mut number = || numbers.next()?;
            match kind {
                "log" => {
                    let (segment, offset) = (u32::try_from(number()?).ok()?, u32::try_from(number()?).ok()?);
                    manifest.log_start = Position::new(segment, offset);
                }
                "next-file" => manifest.next_file = number()?,
                "store" => {
                    let (from_segment, from_file) = (u32::try_from(number()?).ok()?, number()?);
                    manifest.owner = Some(Owner { id: store?, from_segment, from_file });
                }
                "file" => {
                    let files = manifest.files.get_mut(usize::try_from(number()?).ok()?)?;
                    files.push(NamedFile { id: number()?, bytes: number()? });
                }
                _ => return None,
            }
        }
        Some(manifest)
    }

    /// Which store the items belong to.
    pub fn store_id(&self) -> Option<StoreId> {
        self.owner.map(|owner| owner.id)
    }

    /// Writes it durably in the place of the one before.
    pub fn store(&self, disk: &dyn Disk, dir: &Path) -> Result<(), WriteError> {
        replace(disk, dir, NAME, self.encode().as_bytes())
    }

    pub fn load(disk: &dyn Disk, dir: &Path) -> Result<Self, OpenError> {
        let path = dir.join(NAME);
        let bytes =
            disk.open_read_only(&path).and_then(|file| read_all(&*file)).map_err(OpenError::io("read", &path))?;
        let manifest = str::from_utf8(&bytes).ok().and_then(Self::decode);
        let damage = Damage { file: path, offset: 0, what: "the checksum of the manifest does not hold" };
        manifest.ok_or_else(|| damage.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_reads_back_and_any_other_is_refused() {
        let mut manifest = Manifest::new();
        manifest.log_start = Position::new(7, 4096);
        manifest.next_file = 12;
        manifest.owner = Some(Owner { id: StoreId::new(77).unwrap(), from_segment: 3, from_file: 9 });
        manifest.files[3] = vec![NamedFile { id: 11, bytes: 500 }, NamedFile { id: 2, bytes: 9_000_000 }];
        let text = manifest.encode();
        assert_eq!(Manifest::decode(&text), Some(manifest));
        for i in 0..text.len() {
            assert_eq!(Manifest::decode(&text[..i]), None, "cut at {i}");
            for bit in 0..7 {
                let mut bytes = text.clone().into_bytes();
                bytes[i] ^= 1 << bit;
                assert_eq!(str::from_utf8(&bytes).ok().and_then(Manifest::decode), None, "byte {i}, bit {bit}");
            }
        }
    }
}
