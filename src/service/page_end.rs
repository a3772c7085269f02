//! Where pages of definitions, keys and changes end: before they exceed the bytes that a response may have.

use std::io::{self, Write};

use serde::Serialize;

/// An estimate of the JSON around a change or a page.
pub(crate) const AROUND_BYTES: usize = 512;

/// Ends a page before its entries exceed `bytes_max`, after one entry at the earliest. Returns whether entries are left
/// out.
pub(crate) fn end_early<T>(entries: &mut Vec<T>, bytes_max: usize, bytes_of: impl Fn(&T) -> usize) -> bool {
    let mut bytes = AROUND_BYTES;
    let fits = |entry: &&T| {
        // With its comma.
        bytes += 1 + bytes_of(entry);
        bytes <= bytes_max
    };
    let fitting = entries.iter().take_while(fits).count().max(1);
    let is_cut = fitting < entries.len();
    entries.truncate(fitting);
    is_cut
}

/// The length of a value as JSON.
pub(crate) fn json_bytes(value: &impl Serialize) -> usize {
    let mut counted = JsonLength(0);
    // Counting never fails. A value that JSON cannot express is refused when it is rendered.
    let _ = serde_json::to_writer(&mut counted, value);
    counted.0
}

struct JsonLength(usize);

impl Write for JsonLength {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_before_its_bound_and_has_an_entry() {
        for (bytes_max, expected) in [(0, 1), (7, 1), (8, 2), (14, 2), (15, 3), (99, 3)] {
            let mut entries = vec![3, 3, 6];
            let is_cut = end_early(&mut entries, AROUND_BYTES + bytes_max, |bytes| *bytes);
            assert_eq!((entries.len(), is_cut), (expected, expected < 3), "{bytes_max}");
        }
        assert!(!end_early(&mut Vec::<usize>::new(), 0, |bytes| *bytes));
        let value = serde_json::json!({"a": ["b\n", 1]});
        assert_eq!(json_bytes(&value), value.to_string().len());
    }
}
