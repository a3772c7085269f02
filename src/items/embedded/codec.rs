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
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        let group = u64::from(byte & 0x7f);
        if shift == 63 && group > 1 {
            return None;
        }
        number |= group << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Reads as many bytes as the varint before them says.
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

    proptest! {
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
