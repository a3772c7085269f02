//! How much a reader may do before others have their turns.

/// What a turn may cost. About as much as a short get of a list in files, some 100 µs if no disk is waited
/// for.
const TURN_COST: usize = 2_048;
/// What it costs to begin to read from a source, which may take a block of a file.
const OPENING_COST: usize = 32;
/// Bytes of a value that cost as much as an item does.
const BYTES_OF_COST: usize = 32;

/// What is left of a turn.
pub struct Turn(usize);

impl Turn {
    pub fn new() -> Self {
        Self(TURN_COST)
    }

    /// Takes off it what it costs to begin to read from so many sources.
    pub fn opened(&mut self, sources: usize) {
        self.0 = self.0.saturating_sub(sources * OPENING_COST);
    }

    /// Takes the cost of one more item off it. `false` if nothing was left: then the turn is over.
    pub fn goes_on(&mut self, value: &[u8]) -> bool {
        let goes_on = self.0 > 0;
        self.0 = self.0.saturating_sub(1 + value.len() / BYTES_OF_COST);
        goes_on
    }
}
