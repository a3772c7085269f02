//! The operations of requests, and their proportions.

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Get,
    Add,
    Remove,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Get, Self::Add, Self::Remove];

    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Add => "add",
            Self::Remove => "remove",
        }
    }

    /// Its place in [`Self::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

/// The time between the items of one add: enough for stores with a resolution of microseconds.
pub const ADDED_SPACING_NANOS: u64 = 1_000;

/// A request of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadRequest {
    /// The newest items.
    Get { list: u64 },
    /// New items: item `i` is older than the newest by `i` × [`ADDED_SPACING_NANOS`], and has the
    /// added value of `number + i`.
    Add { list: u64, newest_nanos: u64, number: u64 },
    /// The value of item `index` of the data set.
    Remove { list: u64, index: u64 },
}

/// Weights of the kinds, for closed-loop runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mix {
    weights: [f64; 3],
}

impl Mix {
    /// The weights of get, add and remove. None if they do not sum up to more than 0.
    pub fn new(weights: [f64; 3]) -> Option<Self> {
        let sum: f64 = weights.iter().sum();
        (sum > 0.0 && sum.is_finite()).then(|| Self { weights: weights.map(|weight| weight / sum) })
    }

    pub fn share(&self, kind: Kind) -> f64 {
        self.weights[kind.index()]
    }

    pub fn pick(&self, random: &mut Xoshiro256PlusPlus) -> Kind {
        let mut left: f64 = random.random();
        let mut last = Kind::Get;
        for kind in Kind::ALL.into_iter().filter(|kind| self.share(*kind) > 0.0) {
            left -= self.share(kind);
            last = kind;
            if left < 0.0 {
                break;
            }
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn operations_occur_in_their_proportions() {
        let mix = Mix::new([6.0, 3.0, 1.0]).unwrap();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        let mut counts = [0_u32; 3];
        for _ in 0..100_000 {
            counts[mix.pick(&mut random).index()] += 1;
        }
        for (count, share) in counts.into_iter().zip([60_000, 30_000, 10_000]) {
            assert!(count.abs_diff(share) < 800, "{counts:?}");
        }
        let only_adds = Mix::new([0.0, 2.0, 0.0]).unwrap();
        assert!((0..1_000).all(|_| only_adds.pick(&mut random) == Kind::Add));
        assert_eq!(Mix::new([0.0; 3]), None);
    }
}
