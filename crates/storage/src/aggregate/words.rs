//! Short bytes, a word at a time: most names and values are short, and a call to compare them would cost more.

/// The most bytes that are two words.
const BYTES_MAX: usize = 16;

/// Bytes as two words; none if they are too many. Of equally many bytes, the words are equal if and only if the bytes
/// are.
#[inline]
pub fn words(bytes: &[u8]) -> Option<[u64; 2]> {
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        // The words overlap if there are less than 16.
        return (bytes.len() <= BYTES_MAX).then(|| [u64::from_le_bytes(*first), u64::from_le_bytes(*last)]);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return Some([u32::from_le_bytes(*first).into(), u32::from_le_bytes(*last).into()]);
    }
    Some(match bytes {
        [first, .., last] => [u64::from(*first), u64::from(bytes[bytes.len() / 2]) << 8 | u64::from(*last)],
        [only] => [u64::from(*only), 0],
        [] => [0, 0],
    })
}

/// Bytes that are compared with many others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needle<B> {
    bytes: B,
    words: Option<[u64; 2]>,
}

impl<B: AsRef<[u8]>> Needle<B> {
    #[inline]
    pub fn new(bytes: B) -> Self {
        let words = words(bytes.as_ref());
        Self { bytes, words }
    }

    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// These bytes as [`words`].
    #[inline]
    pub fn words(&self) -> Option<[u64; 2]> {
        self.words
    }

    /// Whether these are the same bytes.
    #[inline]
    pub fn is(&self, other: &[u8]) -> bool {
        other.len() == self.bytes().len()
            && match self.words {
                Some(known) => words(other) == Some(known),
                None => other == self.bytes(),
            }
    }
}

/// The next eight bytes, if there are so many. The first byte is the lowest.
#[inline]
pub fn next_word(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|chunk| u64::from_le_bytes(*chunk))
}

/// A word of eight times this byte.
pub const fn repeated(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// Has the highest bit of each zero byte of a word set, and none below the first zero byte. Above it, others may be
/// set.
#[inline]
pub fn zeros(word: u64) -> u64 {
    word.wrapping_sub(repeated(1)) & !word & repeated(0x80)
}

/// The place of the first byte that [`zeros`] has marked.
#[inline]
pub fn first_marked(marks: u64) -> Option<usize> {
    (marks != 0).then(|| marks.trailing_zeros() as usize / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_the_same_exactly_if_all_of_them_are() {
        for len in 0..36 {
            let bytes: Vec<_> = (0..len).map(|n| n * 7 + 1).collect();
            let needle = Needle::new(&bytes);
            assert!(needle.is(&bytes.clone()), "{len}");
            assert_eq!(words(&bytes).is_some(), bytes.len() <= BYTES_MAX, "{len}");
            for changed in 0..bytes.len() {
                let mut other = bytes.clone();
                other[changed] ^= 0x80;
                assert!(!needle.is(&other), "{len} {changed}");
            }
            assert!(!needle.is(&[&bytes[..], &[0]].concat()), "{len}");
        }
    }

    #[test]
    fn the_first_zero_byte_is_found() {
        assert_eq!(first_marked(zeros(repeated(7))), None);
        for place in 0..8 {
            for others in [1, 0x7f, 0x80, 0xff] {
                let mut bytes = [others; 8];
                bytes[place] = 0;
                assert_eq!(first_marked(zeros(u64::from_le_bytes(bytes))), Some(place), "{bytes:?}");
            }
        }
    }
}
