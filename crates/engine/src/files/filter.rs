//! A compact filter for the lists of a data file: two bytes for each list that begins within a block. It saves a get
//! from reading a block of a file without its list. (The index has the whole hash of each block's first list.)

use crate::codec::u16_at;

/// The stored part of a hash. Lists are sorted and partitioned by the upper bits, which are therefore alike within a
/// block.
fn print_of(hash: u64) -> u16 {
    hash as u16
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The prints of all blocks, in order.
    prints: Vec<u16>,
    /// The start of each block's prints.
    starts: Vec<usize>,
}

impl Filter {
    /// Assigns the following lists to another block.
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

    /// Whether a list with this hash may begin in a block after the block's first list. `false` is certain.
    pub fn may_begin_in(&self, block: usize, hash: u64) -> bool {
        self.prints_of(block).contains(&print_of(hash))
    }

    /// Frees unused capacity.
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

    /// Decodes the prints of this many blocks.
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
