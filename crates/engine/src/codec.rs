//! Variable-length integers: little-endian base 128, the low group first (as in Protocol Buffers),
//! and zigzag for signed differences.

/// Appends an integer in 1 to 10 bytes.
pub fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Reads an integer at `*at` and moves past it. `None` if it is cut off or too long.
#[inline]
pub fn take_varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let first = *bytes.get(*at)?;
    if first < 0x80 {
        *at += 1;
        return Some(first.into());
    }
    if let Some(&second) = bytes.get(*at + 1)
        && second < 0x80
    {
        *at += 2;
        return Some(u64::from(first & 0x7f) | u64::from(second) << 7);
    }
    match u64_at(bytes, *at) {
        Some(word) => take_long(bytes, at, word),
        None => take_last(bytes, at),
    }
}

/// Reads an integer of two bytes or more from the following eight bytes, which are read at once.
#[inline]
fn take_long(bytes: &[u8], at: &mut usize, word: u64) -> Option<u64> {
    const ENDS: u64 = 0x8080_8080_8080_8080;
    let ends = !word & ENDS;
    if ends == 0 {
        return take_longest(bytes, at, joined(word));
    }
    // All bits up to the first byte whose highest bit is not set.
    let bits = ends.trailing_zeros() + 1;
    *at += bits as usize / 8;
    Some(joined(word & (u64::MAX >> (u64::BITS - bits))))
}

/// Joins the groups of seven bits of eight bytes: by two, by four, and all.
#[inline]
fn joined(word: u64) -> u64 {
    let word = word & 0x7f7f_7f7f_7f7f_7f7f;
    let word = (word & 0x007f_007f_007f_007f) | ((word & 0x7f00_7f00_7f00_7f00) >> 1);
    let word = (word & 0x0000_3fff_0000_3fff) | ((word & 0x3fff_0000_3fff_0000) >> 2);
    (word & 0x0fff_ffff) | ((word & 0x0fff_ffff_0000_0000) >> 4)
}

/// An integer of nine or ten bytes, with the value of the first eight.
#[cold]
fn take_longest(bytes: &[u8], at: &mut usize, low: u64) -> Option<u64> {
    let ninth = *bytes.get(*at + 8)?;
    let number = low | u64::from(ninth & 0x7f) << 56;
    if ninth < 0x80 {
        *at += 9;
        return Some(number);
    }
    let tenth = *bytes.get(*at + 9)?;
    *at += 10;
    (tenth <= 1).then_some(number | u64::from(tenth) << 63)
}

/// An integer with fewer than eight bytes after it.
#[cold]
fn take_last(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Reads the number of bytes that the preceding varint states.
pub fn take_bytes<'a>(bytes: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let len = usize::try_from(take_varint(bytes, at)?).ok()?;
    let taken = bytes.get(*at..at.checked_add(len)?)?;
    *at += len;
    Some(taken)
}

/// Maps small differences of either sign to small integers.
pub fn zigzag(difference: i64) -> u64 {
    ((difference << 1) ^ (difference >> 63)).cast_unsigned()
}

pub fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -((number & 1).cast_signed())
}

/// A little-endian integer at a fixed place.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn overlong_and_cut_integers_are_refused() {
        assert_eq!(take_varint(&[0x80; 11], &mut 0), None);
        assert_eq!(take_varint(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], &mut 0), None);
        assert_eq!(take_varint(&[0x80], &mut 0), None);
        assert_eq!(take_bytes(&[5, 1, 2], &mut 0), None);
        assert_eq!(take_bytes(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], &mut 0), None);
    }

    /// Reads group by group.
    fn take_slowly(bytes: &[u8]) -> Option<(u64, usize)> {
        let mut number = 0_u128;
        for (place, byte) in bytes.iter().take(10).enumerate() {
            number |= u128::from(byte & 0x7f) << (7 * place);
            if *byte < 0x80 {
                return Some((u64::try_from(number).ok()?, place + 1));
            }
        }
        None
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_as_if_group_by_group(
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0x80..=0xff_u8, 0..2_u8], 0..14),
        ) {
            let mut at = 0;
            let read = take_varint(&bytes, &mut at).map(|number| (number, at));
            prop_assert_eq!(read, take_slowly(&bytes));
        }

        #[test]
        fn integers_round_trip(number: u64, difference: i64) {
            let mut out = vec![7];
            put_varint(&mut out, number);
            let mut at = 1;
            prop_assert_eq!(take_varint(&out, &mut at), Some(number));
            prop_assert_eq!(at, out.len());
            prop_assert_eq!(unzigzag(zigzag(difference)), difference);
        }
    }
}
