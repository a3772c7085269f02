//! Which list a request is for.

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, Zipf};

/// How requests spread over the lists.
#[derive(Debug, Clone, Copy)]
pub enum Popularity {
    /// Every list is as likely as any other.
    Uniform { lists: u64 },
    /// List number k (from 0) is picked with a probability proportional to 1 / (k + 1)^exponent.
    Zipf(Zipf<f64>),
}

impl Popularity {
    /// Fails if the exponent is not a number from 0.
    pub fn new(lists: u64, exponent: Option<f64>) -> Result<Self, String> {
        match exponent {
            None => Ok(Self::Uniform { lists }),
            Some(exponent) => Zipf::new(lists as f64, exponent).map(Self::Zipf).map_err(|e| e.to_string()),
        }
    }

    pub fn pick(&self, random: &mut Xoshiro256PlusPlus) -> u64 {
        match self {
            Self::Uniform { lists } => random.random_range(0..*lists),
            // Ranks count from 1.
            Self::Zipf(zipf) => zipf.sample(random) as u64 - 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    const DRAWS: usize = 200_000;

    fn counts(popularity: Popularity, lists: u64) -> Vec<usize> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut counts = vec![0; lists as usize];
        for _ in 0..DRAWS {
            counts[popularity.pick(&mut random) as usize] += 1;
        }
        counts
    }

    #[test]
    fn zipf_gives_each_rank_its_share() {
        for exponent in [0.8, 1.0, 1.2] {
            let lists = 1_000;
            let counts = counts(Popularity::new(lists, Some(exponent)).unwrap(), lists);
            let weight = |rank: u64| (rank as f64).powf(-exponent);
            let sum: f64 = (1..=lists).map(weight).sum();
            for rank in [1, 2, 3, 10, 50] {
                let expected = DRAWS as f64 * weight(rank) / sum;
                let seen = counts[rank as usize - 1] as f64;
                // Five standard deviations of a binomial count.
                assert!((seen - expected).abs() < 5.0 * expected.sqrt(), "{exponent} {rank}: {seen} for {expected}");
            }
        }
    }

    #[test]
    fn uniform_selects_all_lists_equally() {
        let counts = counts(Popularity::new(100, None).unwrap(), 100);
        assert!(counts.iter().all(|count| (1_700..2_300).contains(count)), "{counts:?}");
    }

    #[test]
    fn the_same_seed_makes_the_same_choices() {
        for exponent in [None, Some(1.1)] {
            let popularity = Popularity::new(5_000, exponent).unwrap();
            let draw = |seed| {
                let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
                (0..100).map(|_| popularity.pick(&mut random)).collect::<Vec<_>>()
            };
            assert_eq!(draw(7), draw(7));
            assert_ne!(draw(7), draw(8));
        }
    }

    #[test]
    fn an_exponent_must_be_a_number_from_zero() {
        assert!(Popularity::new(10, Some(-1.0)).is_err());
        assert!(Popularity::new(10, Some(f64::NAN)).is_err());
    }
}
