//! JSON numbers as the exact decimals that they are, so that `1`, `1.0` and `10e-1` are one number, and two
//! integers beyond the 53 bits of a double are two.

use std::cmp::Ordering;

/// `0.digits × 10^exponent`, without zeros at either end of the digits: one form for each number. Zero has no
/// digits, no sign and the exponent 0.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Decimal {
    negative: bool,
    digits: Box<str>,
    exponent: i64,
}

/// Integers with at most this many digits are written without an exponent.
const PLAIN_DIGITS_MAX: usize = 20;

impl Decimal {
    /// Reads a JSON number (RFC 8259, section 6). `None` for any other text, and for an exponent of more than 18
    /// digits.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, scale) = match rest.split_once(['e', 'E']) {
            Some((mantissa, scale)) => (mantissa, exponent(scale)?),
            None => (rest, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').map_or((mantissa, None), |(w, f)| (w, Some(f)));
        let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let leading_zero = whole.len() > 1 && whole.starts_with('0');
        if !is_digits(whole) || leading_zero || !fraction.is_none_or(is_digits) {
            return None;
        }
        let digits = [whole, fraction.unwrap_or_default()].concat();
        let significant = digits.trim_start_matches('0');
        let zeros = digits.len() - significant.len();
        let significant = significant.trim_end_matches('0');
        if significant.is_empty() {
            return Some(Self { negative: false, digits: Box::default(), exponent: 0 });
        }
        let place = i64::try_from(whole.len()).ok()? - i64::try_from(zeros).ok()?;
        Some(Self { negative, digits: significant.into(), exponent: scale.checked_add(place)? })
    }

    /// Appends the one JSON text that all spellings of this number share.
    pub fn write(&self, to: &mut String) {
        if self.digits.is_empty() {
            to.push('0');
            return;
        }
        if self.negative {
            to.push('-');
        }
        to.push_str(&self.digits);
        match usize::try_from(self.exponent) {
            Ok(places) if (self.digits.len()..=PLAIN_DIGITS_MAX).contains(&places) => {
                to.extend(std::iter::repeat_n('0', places - self.digits.len()));
            }
            // The number of digits of a text fits an i64, and the exponent has at most 18.
            _ => to.push_str(&format!("e{}", self.exponent - self.digits.len() as i64)),
        }
    }

    fn magnitude(&self) -> (bool, i64, &str) {
        (!self.digits.is_empty(), self.exponent, &self.digits)
    }
}

fn exponent(text: &str) -> Option<i64> {
    const DIGITS_MAX: usize = 18;
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_whole = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if !is_whole || digits.trim_start_matches('0').len() > DIGITS_MAX {
        return None;
    }
    let value: i64 = digits.parse().ok()?;
    Some(if text.starts_with('-') { -value } else { value })
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => self.magnitude().cmp(&other.magnitude()),
            (true, true) => other.magnitude().cmp(&self.magnitude()),
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn canonical(text: &str) -> Option<String> {
        let mut canonical = String::new();
        Decimal::parse(text)?.write(&mut canonical);
        Some(canonical)
    }

    #[test]
    fn spellings_of_one_number_are_equal() {
        for (one, spellings) in [
            ("0", vec!["0", "-0", "0.0", "0e7", "-0.000E-3"]),
            ("1", vec!["1", "1.0", "10e-1", "0.1e1", "0.001E+3", "1e0"]),
            ("-15e-1", vec!["-1.5", "-15e-1", "-0.0150e2"]),
            ("100", vec!["100", "1e2", "100.00"]),
            ("18446744073709551617", vec!["18446744073709551617", "18446744073709551617.0"]),
            ("1e400", vec!["1e400", "10e399", "0.1E401"]),
            ("12e-5", vec!["0.00012", "12e-5"]),
        ] {
            for spelling in spellings {
                assert_eq!(canonical(spelling).as_deref(), Some(one), "{spelling}");
            }
        }
    }

    #[test]
    fn anything_but_a_json_number_is_none() {
        for bad in ["", "-", "+1", "01", "1.", ".5", "1e", "1e+", "1e1.5", "0x1", "NaN", "1_0", "1e1234567890123456789"]
        {
            assert_eq!(canonical(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn integers_are_compared_and_written_as_integers(a: i64, b: i64) {
            let [x, y] = [a, b].map(|n| Decimal::parse(&n.to_string()).unwrap());
            prop_assert_eq!(x.cmp(&y), a.cmp(&b));
            prop_assert_eq!(canonical(&a.to_string()), Some(a.to_string()));
        }

        #[test]
        fn fractions_are_compared_exactly(a in -1e6..1e6_f64, b in -1e-6..1e6_f64) {
            let [x, y] = [a, b].map(|n| Decimal::parse(&n.to_string()).unwrap());
            prop_assert_eq!(x.cmp(&y), a.total_cmp(&b));
        }

        #[test]
        fn the_text_reads_back(text in r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?") {
            let read = Decimal::parse(&text).unwrap();
            let written = canonical(&text).unwrap();
            prop_assert_eq!(Decimal::parse(&written), Some(read));
            prop_assert!(serde_json::from_str::<&serde_json::value::RawValue>(&written).is_ok());
            let near = |text: &str| text.parse::<f64>().unwrap();
            prop_assert_eq!(near(&written), near(&text));
        }
    }
}
