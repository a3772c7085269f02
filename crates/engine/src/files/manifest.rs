//! The manifest: the data files and their runs, and the place from which the log is needed. It is a small text,
//! replaced atomically. A file that it does not name is no part of the store.

use std::fmt::Write as _;
use std::path::Path;

use liststore_contract::domain::{StoreId, ValueDigest};

use super::PARTITIONS;
use crate::disk::file_id::FileId;
use crate::disk::owner::Owner;
use crate::disk::{Disk, read_all, replace};
use crate::error::{Damage, OpenError, WriteError};
use crate::log::Position;

pub const NAME: &str = "MANIFEST";
const FIRST_LINE: &str = "liststore items manifest";

/// A data file as the manifest names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedFile {
    pub id: FileId,
    pub bytes: u64,
    pub continues: bool,
    pub hides: u64,
}

/// The bytes of a list, and the timestamp and digest of one of its items: a [`Trim`](super::run::Trim).
pub type NamedTrim = (Vec<u8>, Option<(u64, ValueDigest)>);

/// A [`Run`](super::run::Run) as the manifest names it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedRun {
    pub files: Vec<NamedFile>,
    pub trim: Option<NamedTrim>,
    pub inputs_left: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    pub owner: Option<Owner>,
    /// Files contain all changes before this place.
    pub log_start: Position,
    pub next_file: FileId,
    /// Items that expired before this time may have been dropped. Nanoseconds since the Unix epoch.
    pub time: Option<u64>,
    /// The date until which bytes of removed items must be erased. Nanoseconds since the Unix epoch.
    pub erase_by: Option<u64>,
    /// By partition, newest first.
    pub runs: Vec<Vec<NamedRun>>,
}

impl Manifest {
    pub fn new() -> Self {
        let (log_start, runs) = (Position::start_of(1), vec![Vec::new(); PARTITIONS]);
        Self { owner: None, log_start, next_file: 1, time: None, erase_by: None, runs }
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
        if let Some(time) = self.time {
            let _infallible = writeln!(text, "time {time}");
        }
        if let Some(by) = self.erase_by {
            let _infallible = writeln!(text, "erase-by {by}");
        }
        for (partition, run) in self.runs.iter().enumerate().flat_map(|(i, runs)| runs.iter().map(move |run| (i, run)))
        {
            let _infallible = writeln!(text, "run {partition} {}", run.inputs_left);
            if let Some((list, item)) = &run.trim {
                let item = item
                    .map_or(String::new(), |(timestamp, digest)| format!(" {timestamp} {}", hex(digest.as_bytes())));
                let _infallible = writeln!(text, "trim {partition} {}{item}", hex(list));
            }
            for NamedFile { id, bytes, continues, hides } in &run.files {
                let _infallible = writeln!(text, "file {partition} {id} {bytes} {} {hides}", u8::from(*continues));
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
            manifest.take_line(words.next()?, &mut words)?;
        }
        Some(manifest)
    }

    fn take_line<'a>(&mut self, kind: &str, words: &mut impl Iterator<Item = &'a str>) -> Option<()> {
        let mut number = || words.next()?.parse::<u64>().ok();
        match kind {
            "log" => {
                let (segment, offset) = (u32::try_from(number()?).ok()?, u32::try_from(number()?).ok()?);
                self.log_start = Position::new(segment, offset);
            }
            "next-file" => self.next_file = number()?,
            "time" => self.time = Some(number()?),
            "erase-by" => self.erase_by = Some(number()?),
            "store" => {
                let id = StoreId::parse(words.next()?)?;
                let mut number = || words.next()?.parse::<u64>().ok();
                self.owner = Some(Owner { id, from_segment: u32::try_from(number()?).ok()?, from_file: number()? });
            }
            "run" => {
                let partition = usize::try_from(number()?).ok()?;
                let inputs_left = usize::try_from(number()?).ok()?;
                self.runs.get_mut(partition)?.push(NamedRun { inputs_left, ..NamedRun::default() });
            }
            "trim" => {
                let run = self.runs.get_mut(usize::try_from(number()?).ok()?)?.last_mut()?;
                let list = unhex(words.next()?)?;
                let item = match (words.next(), words.next()) {
                    (Some(timestamp), Some(digest)) => {
                        let digest = unhex(digest)?.try_into().ok()?;
                        Some((timestamp.parse().ok()?, ValueDigest::from_bytes(digest)))
                    }
                    _ => None,
                };
                run.trim = Some((list, item));
            }
            "file" => {
                let runs = self.runs.get_mut(usize::try_from(number()?).ok()?)?;
                let (id, bytes, continues, hides) = (number()?, number()?, number()? != 0, number()?);
                runs.last_mut()?.files.push(NamedFile { id, bytes, continues, hides });
            }
            _ => return None,
        }
        Some(())
    }

    /// All files, each with its partition.
    pub fn files(&self) -> impl Iterator<Item = (usize, &NamedFile)> {
        let runs =
            self.runs.iter().enumerate().flat_map(|(partition, runs)| runs.iter().map(move |run| (partition, run)));
        runs.flat_map(|(partition, run)| run.files.iter().map(move |file| (partition, file)))
    }

    /// The store that the items belong to.
    pub fn store_id(&self) -> Option<StoreId> {
        self.owner.map(|owner| owner.id)
    }

    /// Replaces the previous manifest durably.
    pub fn store(&self, disk: &dyn Disk, dir: &Path) -> Result<(), WriteError> {
        replace(disk, dir, NAME, self.encode().as_bytes())
    }

    pub fn load(disk: &dyn Disk, dir: &Path) -> Result<Self, OpenError> {
        let path = dir.join(NAME);
        let bytes =
            disk.open_read_only(&path).and_then(|file| read_all(&*file)).map_err(OpenError::io("read", &path))?;
        let manifest = str::from_utf8(&bytes).ok().and_then(Self::decode);
        let damage = Damage { file: path, offset: 0, what: "checksum mismatch of the manifest" };
        manifest.ok_or_else(|| damage.into())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_reads_back_and_any_other_is_refused() {
        let mut manifest = Manifest::new();
        manifest.log_start = Position::new(7, 4096);
        manifest.next_file = 12;
        manifest.time = Some(1_700_000_000_000_000_000);
        manifest.erase_by = Some(7);
        manifest.owner = Some(Owner { id: StoreId::new(77).unwrap(), from_segment: 3, from_file: 9 });
        let file = |id, bytes, continues| NamedFile { id, bytes, continues, hides: 7 };
        let trim = (b"user#seen|\0u".to_vec(), Some((12, ValueDigest::of(b"value"))));
        let runs = [
            NamedRun { files: vec![file(11, 500, false)], inputs_left: 2, ..NamedRun::default() },
            NamedRun { files: vec![file(2, 9_000_000, false), file(3, 4, true)], trim: Some(trim), inputs_left: 0 },
            NamedRun { files: vec![file(5, 6, false)], trim: Some((vec![0, 255], None)), inputs_left: 0 },
        ];
        manifest.runs[3] = runs.to_vec();
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
