//! Integers of JSON, eight digits at a time.

/// A double holds every integer of so many digits.
const DIGITS_MAX: usize = 15;

/// The JSON integer, if it is one of so few digits that a double holds it.
#[inline]
pub fn short_int(raw: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match raw {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > DIGITS_MAX {
        return None;
    }
    let int = match digits.split_last_chunk::<8>() {
        Some((high, low)) => 100_000_000 * few_digits(high)? + eight_digits(u64::from_le_bytes(*low))?,
        None => few_digits(digits)?,
    };
    Some(if is_negative { -int } else { int })
}

/// The number with these digits, at most seven; 0 without digits.
#[inline]
fn few_digits(digits: &[u8]) -> Option<i64> {
    const ZEROS: u64 = u64::from_le_bytes([b'0'; 8]);
    let (Some(first), Some(last)) = (digits.first_chunk(), digits.last_chunk()) else {
        let of_digit = |int: i64, digit: &u8| digit.is_ascii_digit().then(|| 10 * int + i64::from(digit - b'0'));
        return digits.iter().try_fold(0, of_digit);
    };
    // Four to seven: the words overlap. Zeros come before them.
    let missing = 8 * (8 - digits.len());
    let word = u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << (32 - missing);
    eight_digits(word << missing | (ZEROS >> (64 - missing)))
}

/// The number with eight digits, of which the lowest byte is the first. It adds up neighbouring digits, then pairs,
/// then fours.
#[inline]
fn eight_digits(word: u64) -> Option<i64> {
    const HIGH: u64 = u64::from_le_bytes([0xf0; 8]);
    const ZEROS: u64 = u64::from_le_bytes([b'0'; 8]);
    const SIXES: u64 = u64::from_le_bytes([6; 8]);
    // Only digits have a 3 there, both before and after an addition of 6.
    if word & HIGH != ZEROS || (word + SIXES) & HIGH != ZEROS {
        return None;
    }
    let digits = word - ZEROS;
    let pairs = (10 * digits + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (100 * pairs + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    let int = (10_000 * fours + (fours >> 32)) & 0xffff_ffff;
    Some(int.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_all_lengths_are_read() {
        let all = ["1234567890123456", "9999999999999999", "1000000000000000", "9081726354453627"];
        for digits in all.into_iter().flat_map(|digits| (1..=DIGITS_MAX).map(move |len| &digits[..len])) {
            for sign in ["", "-"] {
                let raw = format!("{sign}{digits}");
                assert_eq!(short_int(raw.as_bytes()), raw.parse().ok(), "{raw}");
                for place in sign.len()..raw.len() {
                    // Bytes next to digits, and others.
                    for byte in [b'/', b':', b'.', b'e', b'x', 0, 0x10, b'9' ^ 0x80, 0xff] {
                        let mut other = raw.clone().into_bytes();
                        other[place] = byte;
                        assert_eq!(short_int(&other), None, "{other:?}");
                    }
                }
            }
        }
        for none in ["", "-", "--1", "1234567890123456", "-1234567890123456", "+1"] {
            assert_eq!(short_int(none.as_bytes()), None, "{none}");
        }
    }
}
