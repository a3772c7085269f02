//! The number of requests and items that a caller can have in a second.

use std::num::NonZeroU32;

use super::Invalid;

/// A rate per second, and a burst after a quiet time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    per_second: NonZeroU32,
    burst: NonZeroU32,
}

impl Rate {
    pub const MAX: u32 = 100_000_000;

    /// Without a burst, the burst is the number of one second.
    pub fn new(per_second: u32, burst: Option<u32>) -> Result<Self, Invalid> {
        let number = |number: u32| NonZeroU32::new(number).filter(|number| number.get() <= Self::MAX);
        let refused =
            || Invalid::argument(format!("a rate and its burst must be whole numbers from 1 to {}", Self::MAX));
        let per_second = number(per_second).ok_or_else(refused)?;
        let burst = number(burst.unwrap_or(per_second.get())).ok_or_else(refused)?;
        Ok(Self { per_second, burst })
    }

    pub fn per_second(self) -> NonZeroU32 {
        self.per_second
    }

    pub fn burst(self) -> NonZeroU32 {
        self.burst
    }
}

/// The limited quantities of a caller. A quantity without a rate has no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateLimits {
    pub requests: Option<Rate>,
    /// Items that are read and added. A list operation counts as one at least.
    pub items: Option<Rate>,
}

impl RateLimits {
    /// With others where it has none.
    pub fn or(self, others: Self) -> Self {
        Self { requests: self.requests.or(others.requests), items: self.items.or(others.items) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_defaults_to_one_second() {
        let rate = Rate::new(7, None).unwrap();
        assert_eq!((rate.per_second().get(), rate.burst().get()), (7, 7));
        assert_eq!(Rate::new(7, Some(1)).unwrap().burst().get(), 1);
        for (per_second, burst) in [(0, None), (1, Some(0)), (Rate::MAX + 1, None), (1, Some(Rate::MAX + 1))] {
            assert!(Rate::new(per_second, burst).is_err());
        }
    }
}
