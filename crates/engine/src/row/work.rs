//! Counters for tests: digests are the largest cost where timestamps tie, and walked items elsewhere.

use std::cell::Cell;

thread_local! {
    static DIGESTS: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
    static WALKED: Cell<u64> = const { Cell::new(0) };
}

pub fn walked() {
    WALKED.with(|walked| walked.set(walked.get() + 1));
}

/// The number of items that this thread walks during a call.
pub fn walked_by<T>(something: impl FnOnce() -> T) -> (T, u64) {
    let before = WALKED.with(Cell::get);
    let done = something();
    (done, WALKED.with(Cell::get) - before)
}

pub fn digested(bytes: usize) {
    DIGESTS.with(|counted| counted.set((counted.get().0 + 1, counted.get().1 + bytes as u64)));
}

/// The number of digests of rows' values that this thread computes during a call, and the number of their bytes.
pub fn digests_of<T>(something: impl FnOnce() -> T) -> (T, u64, u64) {
    let before = DIGESTS.with(Cell::get);
    let done = something();
    let after = DIGESTS.with(Cell::get);
    (done, after.0 - before.0, after.1 - before.1)
}
