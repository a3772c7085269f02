//! The amount of work that a reader may do before other readers have their turn.

/// The cost of a turn. About the cost of a short get of a list in files: some 100 µs without a wait for the disk.
const TURN_COST: usize = 2_048;
/// The cost of starting to read a source, which may load a block of a file.
const OPENING_COST: usize = 32;
/// The length of a value that costs as much as an item.
const BYTES_OF_COST: usize = 32;

/// The rest of a turn.
pub struct Turn(usize);

impl Turn {
    pub fn new() -> Self {
        Self(TURN_COST)
    }

    /// Subtracts the cost of starting to read this many sources.
    pub fn opened(&mut self, sources: usize) {
        self.0 = self.0.saturating_sub(sources * OPENING_COST);
    }

    /// Subtracts the cost of one more item. Returns `false` if nothing was left, so that the turn is over.
    #[inline]
    pub fn spend(&mut self, value: &[u8]) -> bool {
        let is_left = self.0 > 0;
        self.0 = self.0.saturating_sub(1 + value.len() / BYTES_OF_COST);
        is_left
    }
}
