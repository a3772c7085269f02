//! Arithmetic that an aggregate can be trusted with: sums of integers are exact, sums of doubles compensated, and no
//! intermediate result overflows.

use std::cmp::Ordering;

use super::digits::short_int;

/// A power of two.
const fn power(exponent: i64) -> f64 {
    f64::from_bits(((1_023 + exponent) as u64) << 52)
}

/// Doubles from here on are summed in a smaller scale: so many others, and a sum of 2^100 of these, are finite.
const LARGE: f64 = power(900);
const LARGE_DOWN: f64 = power(-200);
const LARGE_UP: f64 = power(200);
/// The scales in which deviations are squared, and the double from which on the next one is needed: squares could
/// overflow in a larger scale, and be 0 in a smaller one.
const SCALES: [(f64, f64); 3] = [(power(600), power(-150)), (1.0, power(500)), (power(-600), f64::INFINITY)];
/// From one scale to the next.
const SCALE_DOWN: f64 = power(-600);

/// A number that an item has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    Int(i64),
    /// Finite.
    Double(f64),
}

impl Number {
    /// Reads a JSON value; none if it is of another type.
    #[inline]
    pub fn of_json(raw: &[u8]) -> Option<Self> {
        short_int(raw).map(Self::Int).or_else(|| Self::of_long_json(raw))
    }

    fn of_long_json(raw: &[u8]) -> Option<Self> {
        if !matches!(raw.first(), Some(b'-' | b'0'..=b'9')) {
            return None;
        }
        let text = std::str::from_utf8(raw).ok()?;
        if let Ok(int) = text.parse::<i64>() {
            // The canonical form has the shortest digits of a double, padded with zeros. This is the double's integer.
            return Some(Self::Int(int as f64 as i64));
        }
        text.parse().ok().filter(|double: &f64| double.is_finite()).map(Self::Double)
    }

    pub fn as_f64(self) -> f64 {
        match self {
            Self::Int(int) => int as f64,
            Self::Double(double) => double,
        }
    }

    /// The order of numbers. An integer that is compared with a double is a JSON number, and a double holds it.
    pub fn order(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Int(one), Self::Int(other)) => one.cmp(&other),
            _ => self.as_f64().total_cmp(&other.as_f64()),
        }
    }
}

/// A sum of doubles by Neumaier's method (Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen,
/// 1974).
#[derive(Debug, Clone, Copy, Default)]
struct Compensated {
    sum: f64,
    rest: f64,
}

impl Compensated {
    fn add(&mut self, double: f64) {
        let sum = self.sum + double;
        self.rest += if self.sum.abs() >= double.abs() { (self.sum - sum) + double } else { (double - sum) + self.sum };
        self.sum = sum;
    }

    fn add_all(&mut self, other: Self) {
        self.add(other.sum);
        self.add(other.rest);
    }

    fn is_zero(self) -> bool {
        self.sum == 0.0 && self.rest == 0.0
    }

    fn value(self) -> f64 {
        self.sum + self.rest
    }
}

/// The sum of some numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Total {
    /// Exact.
    Int(i128),
    /// Infinite where it is beyond the range of doubles.
    Double(f64),
}

/// Adds numbers up, in any order.
#[derive(Debug, Clone, Default)]
pub struct Sum {
    count: u64,
    ints: i128,
    has_doubles: bool,
    doubles: Compensated,
    /// Of doubles from [`LARGE`] on, times [`LARGE_DOWN`].
    large: Compensated,
}

impl Sum {
    #[inline]
    pub fn add(&mut self, number: Number) {
        self.count += 1;
        match number {
            Number::Int(int) => self.ints += i128::from(int),
            Number::Double(double) => self.add_double(double),
        }
    }

    /// Not inlined: otherwise the compiler multiplies before it checks that the number is a double. The bits of an
    /// integer are a subnormal double, and a product with one costs more than a hundred cycles.
    #[inline(never)]
    fn add_double(&mut self, double: f64) {
        self.has_doubles = true;
        if double.abs() < LARGE {
            self.doubles.add(double);
        } else {
            self.large.add(double * LARGE_DOWN);
        }
    }

    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.ints += other.ints;
        self.has_doubles |= other.has_doubles;
        self.doubles.add_all(other.doubles);
        self.large.add_all(other.large);
    }

    /// The sum in a scale in which it is finite, and the factor of that scale.
    fn scaled(&self) -> (f64, f64) {
        let high = self.ints as f64;
        let ints = Compensated { sum: high, rest: (self.ints - high as i128) as f64 };
        if self.large.is_zero() {
            let mut all = self.doubles;
            all.add_all(ints);
            return (all.value(), 1.0);
        }
        let mut all = self.large;
        for part in [self.doubles.sum, self.doubles.rest, ints.sum, ints.rest] {
            all.add(part * LARGE_DOWN);
        }
        (all.value(), LARGE_UP)
    }

    pub fn total(&self) -> Total {
        if !self.has_doubles {
            return Total::Int(self.ints);
        }
        let (sum, scale) = self.scaled();
        Total::Double(sum * scale)
    }

    /// None of no numbers.
    pub fn mean(&self) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        if self.has_doubles {
            let (sum, scale) = self.scaled();
            return Some(sum / self.count as f64 * scale);
        }
        Some(quotient(self.ints, self.count))
    }
}

/// The double that is nearest to a quotient.
fn quotient(dividend: i128, divisor: u64) -> f64 {
    if dividend == 0 {
        return 0.0;
    }
    // With the highest bit set, the whole part has at least 64 bits. A double has 53, so the lowest bit can stand for
    // all that follow, and only the conversion rounds.
    let magnitude = dividend.unsigned_abs();
    let shift = magnitude.leading_zeros();
    let (dividend_up, divisor) = (magnitude << shift, u128::from(divisor));
    let whole = (dividend_up / divisor) | u128::from(!dividend_up.is_multiple_of(divisor));
    let rounded = whole as f64 * power(-i64::from(shift));
    if dividend < 0 { -rounded } else { rounded }
}

/// How far numbers lie apart: their standard deviation, by Welford's method, and merged by that of Chan, Golub and
/// LeVeque (Updating Formulae and a Pairwise Algorithm for Computing Sample Variances, 1979).
#[derive(Debug, Clone)]
pub struct Spread {
    count: u64,
    /// The first number. All are taken relative to it, so that large integers keep their last digits.
    pivot: Option<Number>,
    mean: f64,
    squares: f64,
    /// The place of the scale that numbers are multiplied with.
    scale: usize,
}

impl Default for Spread {
    fn default() -> Self {
        Self { count: 0, pivot: None, mean: 0.0, squares: 0.0, scale: 0 }
    }
}

impl Spread {
    pub fn add(&mut self, number: Number) {
        while number.as_f64().abs() >= SCALES[self.scale].1 {
            self.scale_down();
        }
        let pivot = *self.pivot.get_or_insert(number);
        self.count += 1;
        let deviation = between(pivot, number, SCALES[self.scale].0);
        let before = deviation - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (deviation - self.mean);
    }

    fn scale_down(&mut self) {
        self.mean *= SCALE_DOWN;
        self.squares = self.squares * SCALE_DOWN * SCALE_DOWN;
        self.scale += 1;
    }

    pub fn merge(&mut self, other: &Self) {
        let Some(others) = other.pivot else { return };
        let Some(pivot) = self.pivot else {
            *self = other.clone();
            return;
        };
        let mut other = other.clone();
        while self.scale < other.scale {
            self.scale_down();
        }
        while other.scale < self.scale {
            other.scale_down();
        }
        let (own, added) = (self.count as f64, other.count as f64);
        let apart = other.mean + between(pivot, others, SCALES[self.scale].0) - self.mean;
        self.count += other.count;
        self.mean += apart * (added / (own + added));
        self.squares += other.squares + apart * apart * (own * added / (own + added));
    }

    /// Of all of them, not of a sample of more. None of no numbers.
    pub fn deviation(&self) -> Option<f64> {
        self.pivot?;
        Some((self.squares / self.count as f64).max(0.0).sqrt() / SCALES[self.scale].0)
    }
}

/// The difference of two numbers, in a scale.
fn between(from: Number, to: Number, scale: f64) -> f64 {
    match (from, to) {
        (Number::Int(from), Number::Int(to)) => (i128::from(to) - i128::from(from)) as f64 * scale,
        _ => to.as_f64() * scale - from.as_f64() * scale,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(numbers: &[Number]) -> Sum {
        let mut sum = Sum::default();
        numbers.iter().for_each(|number| sum.add(*number));
        sum
    }

    fn doubles(doubles: &[f64]) -> Vec<Number> {
        doubles.iter().map(|double| Number::Double(*double)).collect()
    }

    fn spread(numbers: &[Number]) -> Spread {
        let mut spread = Spread::default();
        numbers.iter().for_each(|number| spread.add(*number));
        spread
    }

    fn is_close(one: f64, other: f64) -> bool {
        one == other || (one - other).abs() <= 1e-12 * one.abs().max(other.abs())
    }

    #[test]
    fn the_powers_of_two_match() {
        assert_eq!([power(0), power(1), power(-1)], [1.0, 2.0, 0.5]);
        assert_eq!([power(200), power(-600)], [2_f64.powi(200), 2_f64.powi(-600)]);
        const { assert!(LARGE_DOWN * LARGE_UP == 1.0) };
    }

    #[test]
    fn json_numbers_without_a_fraction_are_integers() {
        for (raw, number) in [
            ("0", Some(Number::Int(0))),
            ("-7", Some(Number::Int(-7))),
            ("999999999999999", Some(Number::Int(999_999_999_999_999))),
            ("-1000000000000000", Some(Number::Int(-1_000_000_000_000_000))),
            ("-", None),
            ("1e5", Some(Number::Double(1e5))),
            ("-9007199254740992", Some(Number::Int(-9_007_199_254_740_992))),
            ("1152921504606847000", Some(Number::Int(1 << 60))),
            ("-1152921504606846700", Some(Number::Int(256 - (1 << 60)))),
            ("9223372036854775000", Some(Number::Int(i64::MAX - 1_023))),
            ("9223372036854775808", Some(Number::Double(9_223_372_036_854_775_808.0))),
            ("0.002", Some(Number::Double(0.002))),
            ("1e+30", Some(Number::Double(1e30))),
            ("\"1\"", None),
            ("null", None),
            ("true", None),
            ("[1]", None),
            ("", None),
        ] {
            assert_eq!(Number::of_json(raw.as_bytes()), number, "{raw}");
        }
    }

    #[test]
    fn sums_of_integers_are_exact() {
        let ints = |ints: &[i64]| ints.iter().map(|int| Number::Int(*int)).collect::<Vec<_>>();
        assert_eq!(sum(&[]).total(), Total::Int(0));
        let extremes = ints(&[i64::MAX, i64::MAX, i64::MIN, i64::MIN, 3]);
        assert_eq!(sum(&extremes).total(), Total::Int(1));
        assert_eq!(sum(&extremes[..2]).total(), Total::Int(2 * i128::from(i64::MAX)));
        assert_eq!(sum(&extremes).mean(), Some(0.2));
        assert_eq!(sum(&ints(&[i64::MAX, i64::MAX])).mean(), Some(i64::MAX as f64));
        assert_eq!(sum(&[]).mean(), None);
    }

    /// The digits of a quotient, more than decide about rounding. Reading them rounds once.
    fn by_digits(dividend: i128, divisor: u64) -> f64 {
        let divisor = u128::from(divisor);
        let (mut text, mut rest) =
            (format!("{}.", dividend.unsigned_abs() / divisor), dividend.unsigned_abs() % divisor);
        for _ in 0..80 {
            rest *= 10;
            text.push(char::from(b'0' + u8::try_from(rest / divisor).unwrap()));
            rest %= divisor;
        }
        text.push(if rest > 0 { '1' } else { '0' });
        let read: f64 = text.parse().unwrap();
        if dividend < 0 { -read } else { read }
    }

    #[test]
    fn means_of_integers_are_rounded_once() {
        let ints = |ints: &[i64]| sum(&ints.iter().map(|int| Number::Int(*int)).collect::<Vec<_>>());
        // Halfway between two doubles, and next to it on both sides.
        let (whole, next) = ((1_i64 << 53) as f64, ((1_i64 << 53) + 2) as f64);
        assert_eq!(ints(&[1 << 53, (1 << 53) + 2]).mean(), Some(whole));
        assert_eq!(ints(&[1 << 53, (1 << 53) + 2, (1 << 53) + 2]).mean(), Some(next));
        assert_eq!(ints(&[(1 << 53) + 1, (1 << 53) + 1, (1 << 53) + 2]).mean(), Some(next));
        assert_eq!(ints(&[(1 << 53) + 1, (1 << 53) + 1, 1 << 53]).mean(), Some(whole));
        assert_eq!(ints(&[-1, -1, 0]).mean(), Some(-2.0 / 3.0));
        // Numbers of all lengths, in the order of a linear congruential generator (Knuth's MMIX).
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state ^ state >> 32
        };
        for _ in 0..20_000 {
            let dividend = i128::from(next().cast_signed() >> (next() % 64)) * i128::from(1 + next() % 100_000);
            let divisor = 1 + (next() >> (next() % 64)).min(u64::MAX - 1);
            assert_eq!(quotient(dividend, divisor), by_digits(dividend, divisor), "{dividend} / {divisor}");
        }
    }

    #[test]
    fn the_order_of_doubles_does_not_matter() {
        let forwards = doubles(&[1e100, 1.0, -1e100, 1e-3, 1e308, 5.5, -1e308, 2_f64.powi(60)]);
        let backwards: Vec<_> = forwards.iter().rev().copied().collect();
        let expected = 2_f64.powi(60) + 6.501;
        for numbers in [&forwards, &backwards] {
            assert_eq!(sum(numbers).total(), Total::Double(expected));
        }
        let tenths = vec![Number::Double(0.1); 10];
        assert_eq!(sum(&tenths).total(), Total::Double(1.0));
    }

    #[test]
    fn intermediate_sums_do_not_overflow_and_final_ones_are_infinite() {
        let total = |numbers: &[f64]| sum(&doubles(numbers)).total();
        assert_eq!(total(&[1e308, 1e308, -1e308]), Total::Double(1e308));
        assert_eq!(total(&[-1e308, -1e308]), Total::Double(f64::NEG_INFINITY));
        assert_eq!(sum(&doubles(&[1e308, 1e308])).mean(), Some(1e308));
        assert_eq!(sum(&doubles(&[f64::MAX; 3])).mean(), Some(f64::MAX));
    }

    #[test]
    fn integers_and_doubles_have_one_sum() {
        let mixed = [Number::Int(1 << 53), Number::Double(0.5), Number::Int(1), Number::Double(-0.5)];
        assert_eq!(sum(&mixed).total(), Total::Double(9_007_199_254_740_992.0 + 1.0));
        let mut halves = sum(&mixed[..2]);
        halves.merge(&sum(&mixed[2..]));
        assert_eq!(halves.total(), sum(&mixed).total());
    }

    #[test]
    fn deviations_are_stable() {
        let ints: Vec<_> = [4, 7, 13, 16].map(|small| Number::Int(i64::MAX - small)).to_vec();
        assert!(is_close(spread(&ints).deviation().unwrap(), 22.5_f64.sqrt()));
        let shifted = doubles(&[1e9 + 4.0, 1e9 + 7.0, 1e9 + 13.0, 1e9 + 16.0]);
        assert!(is_close(spread(&shifted).deviation().unwrap(), 22.5_f64.sqrt()));
        assert_eq!(spread(&doubles(&[1e308, -1e308])).deviation(), Some(1e308));
        assert_eq!(spread(&doubles(&[f64::MAX, -f64::MAX])).deviation(), Some(f64::MAX));
        assert!(is_close(spread(&doubles(&[1e-200, 3e-200])).deviation().unwrap(), 1e-200));
        assert!(is_close(spread(&doubles(&[1e-160, 2e-160])).deviation().unwrap(), 5e-161));
        assert_eq!(spread(&doubles(&[5e-324, 15e-324])).deviation(), Some(5e-324));
        assert_eq!(spread(&doubles(&[7.0])).deviation(), Some(0.0));
        assert_eq!(spread(&[]).deviation(), None);
    }

    #[test]
    fn deviations_of_parts_are_merged() {
        for numbers in [&[1e-200, 1.0, 2.5, -3.0, 1e200, 1e200, 7.0, 1e199][..], &[1e-200, 0.0, -2e-190, 1e-100, 3.0]] {
            let numbers = doubles(numbers);
            for at in 0..=numbers.len() {
                let mut parts = spread(&numbers[..at]);
                parts.merge(&spread(&numbers[at..]));
                assert!(is_close(parts.deviation().unwrap(), spread(&numbers).deviation().unwrap()), "{at}");
            }
        }
    }
}
