//! How often each value of a source comes, in each group.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use super::memory::Memory;
use super::values::fold;

/// Hashes pairs of small numbers. Writers choose which pairs exist, so that each tally mixes them with other random
/// numbers.
#[derive(Debug, Clone, Copy)]
pub struct Mixed {
    seed: u64,
    factor: u64,
}

impl Mixed {
    pub fn random() -> Self {
        let random = RandomState::new();
        Self { seed: random.hash_one(0), factor: random.hash_one(1) | 1 }
    }
}

impl BuildHasher for Mixed {
    type Hasher = Mixer;

    #[inline]
    fn build_hasher(&self) -> Mixer {
        Mixer { state: self.seed, factor: self.factor }
    }
}

pub struct Mixer {
    state: u64,
    factor: u64,
}

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.state
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.state = fold(self.state ^ number, self.factor);
    }
}

/// How often each value of a source comes.
pub enum Times {
    /// By the numbers of values, without grouping.
    Together(Vec<u32>),
    /// By [`pair`]s.
    InGroups(HashMap<u64, u32, Mixed>),
}

fn pair(group: usize, identity: u32) -> u64 {
    (group as u64) << 32 | u64::from(identity)
}

impl Times {
    /// Counts a value once more. Returns whether it is new.
    #[inline]
    pub fn add(&mut self, group: usize, identity: u32, memory: &mut Memory) -> bool {
        let times = match self {
            Self::Together(times) => {
                let place = identity as usize;
                if place >= times.len() {
                    let before = times.capacity();
                    // Numbers that came in windows with another end alone.
                    while times.len() <= place {
                        times.push(0);
                    }
                    memory.grow_vec(before, times);
                }
                &mut times[place]
            }
            Self::InGroups(times) => {
                /// A pair, its count and a byte of its hash, and as much again that is free.
                const PAIR: usize = 2 * (size_of::<(u64, u32)>() + 1);
                if times.len() == times.capacity() {
                    let before = times.capacity();
                    times.reserve(1);
                    memory.grow(before * PAIR, times.capacity() * PAIR);
                }
                times.entry(pair(group, identity)).or_insert(0)
            }
        };
        *times += 1;
        *times == 1
    }

    /// Passes each group, value and count to `take`.
    pub fn each(&self, mut take: impl FnMut(usize, u32, u64)) {
        match self {
            Self::Together(times) => {
                let counted = (0..).zip(times).filter(|(_, times)| **times > 0);
                counted.for_each(|(identity, times)| take(0, identity, u64::from(*times)));
            }
            Self::InGroups(times) => {
                times.iter().for_each(|(pair, times)| take((pair >> 32) as usize, *pair as u32, u64::from(*times)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tally_hashes_pairs_in_its_own_way() {
        let (one, other) = (Mixed::random(), Mixed::random());
        let hashes = |mixed: Mixed| (0..100).map(|group| mixed.hash_one(pair(group, 7))).collect::<Vec<_>>();
        assert_eq!(hashes(one), hashes(one));
        assert!(hashes(one).iter().zip(hashes(other)).all(|(one, other)| *one != other));
    }
}
