//! How many buckets are read at once: as many as are likely to fill the request, judged by the buckets that were read.

use super::several::SEVERAL_MAX;

/// Rows of each of several buckets that are read in any case: few.
const ROWS_MIN: usize = 8;

/// The buckets and rows that a read has found.
#[derive(Debug, Default)]
pub struct Pace {
    buckets: usize,
    rows: usize,
}

impl Pace {
    /// How many buckets to read next, if so many rows are missing. The first is read alone: most pages end in it.
    pub fn buckets(&self, missing: usize) -> usize {
        if self.buckets == 0 {
            return 1;
        }
        missing.div_ceil((self.rows / self.buckets).max(1)).clamp(1, SEVERAL_MAX)
    }

    /// How many rows to read of each of so many buckets. At most as many rows as are missing are read in vain, and a
    /// few rows of each bucket.
    pub fn rows_of_each(missing: usize, buckets: usize) -> usize {
        (2 * missing).div_ceil(buckets.max(1)).max(ROWS_MIN)
    }

    pub fn read(&mut self, buckets: usize) {
        self.buckets += buckets;
    }

    pub fn passed(&mut self, rows: usize) {
        self.rows += rows;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_with_fewer_rows_are_read_in_larger_numbers() {
        for (rows, missing, expected) in [(0, 51, 16), (1, 50, 16), (10, 41, 5), (40, 11, 1), (1_000, 1, 1)] {
            let mut pace = Pace::default();
            assert_eq!(pace.buckets(missing), 1);
            pace.read(1);
            pace.passed(rows);
            assert_eq!(pace.buckets(missing), expected, "{rows} {missing}");
        }
        assert_eq!(Pace::rows_of_each(50, 16), 8);
        assert_eq!(Pace::rows_of_each(1_000, 16), 125);
    }
}
