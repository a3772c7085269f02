//! The memory of an aggregation, counted where it grows and not for each item.

/// The memory that is taken, about, and its bound. Both in bytes.
#[derive(Debug)]
pub struct Memory {
    taken: usize,
    max: usize,
}

impl Memory {
    pub fn new(max: usize) -> Self {
        Self { taken: 0, max }
    }

    /// Notes that a part of it has grown.
    pub fn grow(&mut self, before: usize, after: usize) {
        self.taken += after.saturating_sub(before);
    }

    /// Notes the growth of a vector, which had this capacity before.
    #[inline]
    pub fn grow_vec<T>(&mut self, before: usize, vec: &Vec<T>) {
        if vec.capacity() != before {
            self.grow(before * size_of::<T>(), vec.capacity() * size_of::<T>());
        }
    }

    /// The free bytes.
    pub fn left(&self) -> usize {
        self.max.saturating_sub(self.taken)
    }

    #[inline]
    pub fn is_exceeded(&self) -> bool {
        self.taken > self.max
    }
}
