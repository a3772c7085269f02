//! Which lists are in a data file, in short: two bytes for each list that begins within a block. A get
//! of a list that is not in a file must not read a block of it to find that out. (The first list of each
//! block is known by its whole hash, from the index.)

use crate::codec::u16_at;

/// The part of a hash that is kept. Lists are sorted and partitioned by the upper bits, which are
/// therefore alike within a block.
fn print_of(hash: u64) -> u16 {
    hash as u16
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of all blocks, in order.
    prints: Vec<u16>,
    /// For each block, where its prints begin.
    starts: Vec<usize>,
}

impl Filter {
    /// The lists that come next begin in another block.
    pub fn begin_block(&mut self) {
        self.starts.push(self.prints.len());
    }

    pub fn push(&mut self, hash: u64) {
        self.prints.push(print_of(hash));
    }

    fn prints_of(&self, block: usize) -> &[u16] {
        let end = self.starts.get(block + 1).copied().unwrap_or(self.prints.len());
        self.starts.get(block).and_then(|start| self.prints.get(*start..end)).unwrap_or_default()
    }

    /// Whether a list of this hash may begin in a block behind the block's first list. `false` is certain.
    pub fn may_begin_in(&self, block: usize, hash: u64) -> bool {
        self.prints_of(block).contains(&print_of(hash))
    }

    /// Gives back the memory that it had ready for more.
    pub fn shrink(&mut self) {
        self.prints.shrink_to_fit();
        self.starts.shrink_to_fit();
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        (size_of_val(&*self.prints) + size_of_val(&*self.starts)) as u64
    }

    pub fn encode(&self, bytes: &mut Vec<u8>) {
        for block in 0..self.starts.len() {
            let prints = self.prints_of(block);
            // A block ends at 4 KiB or with one row, and a list takes more than a byte of it.
            let count = u16::try_from(prints.len()).unwrap_or(u16::MAX);
            for number in std::iter::once(&count).chain(prints) {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
    }

    /// Reads back the prints of so many blocks.
    pub fn decode(bytes: &[u8], blocks: usize) -> Option<Self> {
        let prints = (bytes.len() / 2).checked_sub(blocks)?;
        let mut filter = Self { prints: Vec::with_capacity(prints), starts: Vec::with_capacity(blocks) };
        let mut at = 0;
        let mut next = || {
            at += 2;
            u16_at(bytes, at - 2)
        };
        for _ in 0..blocks {
            filter.begin_block();
            for _ in 0..next()? {
                filter.prints.push(next()?);
            }
        }
        (at == bytes.len()).then_some(filter)
    }
}
