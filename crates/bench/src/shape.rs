//! The requested form of a data set.

use std::time::Duration;

use super::data::DataSet;

const LISTS_DEFAULT: u64 = 10_000;
const LENGTH_DEFAULT: u64 = 200;
const VALUE_BYTES_DEFAULT: usize = 12;
const SPACING_DEFAULT: Duration = Duration::from_secs(60);

/// The requested form of the data set.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub lists: Option<u64>,
    pub length: Option<u64>,
    pub value_bytes: Option<usize>,
    pub spacing: Option<Duration>,
}

impl Shape {
    /// A new data set, whose newest items are of the present.
    pub fn data_set(&self, now_nanos: u64) -> Result<DataSet, String> {
        let length = self.length.unwrap_or(LENGTH_DEFAULT);
        let spacing = self.spacing.unwrap_or(SPACING_DEFAULT);
        let spacing_nanos = u64::try_from(spacing.as_nanos()).unwrap_or(u64::MAX);
        let oldest_nanos = length.checked_mul(spacing_nanos).and_then(|span| now_nanos.checked_sub(span));
        let oldest_nanos =
            oldest_nanos.ok_or_else(|| format!("{length} items spaced {spacing:?} apart would begin before 1970"))?;
        Ok(DataSet {
            lists: self.lists.unwrap_or(LISTS_DEFAULT),
            length,
            value_bytes: self.value_bytes.unwrap_or(VALUE_BYTES_DEFAULT),
            oldest_nanos,
            spacing_nanos,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_set_cannot_begin_before_1970() {
        let shape = Shape {
            lists: None,
            length: Some(10_000_000),
            value_bytes: None,
            spacing: Some(Duration::from_secs(3_600)),
        };
        assert!(shape.data_set(1_800_000_000_000_000_000).unwrap_err().contains("1970"));
    }
}
