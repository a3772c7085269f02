//! Partition tokens, and the routing of lists to actors.

/// A Murmur3 partition token, as Cassandra's and ScyllaDB's `Murmur3Partitioner` computes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(i64);

impl Token {
    /// The token of a partition key's bytes.
    #[inline]
    pub fn of_bytes(key: &[u8]) -> Self {
        match cassandra_murmur3_h1(key) {
            // The partitioner reserves the smallest token (Cassandra's Murmur3Partitioner.normalize).
            i64::MIN => Self(i64::MAX),
            hash => Self(hash),
        }
    }

    #[inline]
    pub fn as_i64(self) -> i64 {
        self.0
    }

    /// The bucket of `0..buckets` for this token by jump consistent hashing (Lamping and Veach,
    /// "A Fast, Minimal Memory, Consistent Hash Algorithm", 2014): growing from n to n + 1 buckets
    /// moves 1/(n + 1) of all lists. Zero buckets count as one.
    #[inline]
    pub fn bucket(self, buckets: usize) -> usize {
        let mut state = self.0.cast_unsigned();
        let (mut bucket, mut next) = (0_usize, 0_f64);
        while (next as usize) < buckets {
            bucket = next as usize;
            state = state.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
            next = (bucket as f64 + 1.0) * ((1_u64 << 31) as f64 / ((state >> 33) as f64 + 1.0));
        }
        bucket
    }
}

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// The first half of Murmur3 x64 128 with seed 0, with the sign extension of tail bytes that
/// Cassandra's Java implementation has (`org.apache.cassandra.utils.MurmurHash.hash3_x64_128`).
fn cassandra_murmur3_h1(data: &[u8]) -> i64 {
    let (mut h1, mut h2) = (0_u64, 0_u64);
    let (blocks, tail) = data.as_chunks::<16>();
    for block in blocks {
        let block = u128::from_le_bytes(*block);
        h1 ^= mix1(block as u64);
        h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= mix2((block >> 64) as u64);
        h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let (low, high) = tail.split_at(tail.len().min(8));
    if !high.is_empty() {
        h2 ^= mix2(sign_extending_tail(data, high));
    }
    if !low.is_empty() {
        h1 ^= mix1(sign_extending_tail(data, low));
    }
    h1 ^= data.len() as u64;
    h2 ^= data.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    fmix(h1).wrapping_add(fmix(h2)).cast_signed()
}

fn mix1(k: u64) -> u64 {
    k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn mix2(k: u64) -> u64 {
    k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

fn fmix(mut k: u64) -> u64 {
    k ^= k >> 33;
    k = k.wrapping_mul(0xff51_afd7_ed55_8ccd);
    k ^= k >> 33;
    k = k.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ (k >> 33)
}

/// Tail bytes are signed in Java: a byte above 0x7f flips all bits above it. These are one to eight of the data's
/// bytes: its last ones, if they are fewer than eight.
fn sign_extending_tail(data: &[u8], bytes: &[u8]) -> u64 {
    const SIGNS: u64 = 0x8080_8080_8080_8080;
    let whole = bytes.first_chunk().map(|whole| u64::from_le_bytes(*whole));
    let shifted = || data.last_chunk().map(|last| u64::from_le_bytes(*last) >> (8 * (8 - bytes.len())));
    match whole.or_else(shifted) {
        // Most keys are ASCII: all bytes at once, then.
        Some(word) if word & SIGNS == 0 => word,
        _ => sign_extending_bytes(bytes),
    }
}

fn sign_extending_bytes(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .enumerate()
        .fold(0, |word, (i, &byte)| word ^ (i64::from(byte.cast_signed()).cast_unsigned() << (8 * i)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Vectors that the ScyllaDB Rust driver tests its own partitioner with.
    #[test]
    fn tokens_equal_those_of_the_murmur3_partitioner() {
        for (key, token) in [
            ("test", -6_017_608_668_500_074_083),
            ("xd", 4_507_812_186_440_344_727),
            ("primary_key", -1_632_642_444_691_073_360),
            ("kremówki", 4_354_931_215_268_080_151),
        ] {
            assert_eq!(Token::of_bytes(key.as_bytes()).as_i64(), token, "{key}");
        }
    }

    /// Those above fit one tail. Embedded data files are in the order of these hashes: a list whose
    /// hash changed would not be found in them again.
    #[test]
    fn tokens_of_long_keys_never_change() {
        let bytes: Vec<u8> = (0..48_u8).map(|i| i.wrapping_mul(37).wrapping_add(101)).collect();
        for (len, token) in [
            (15, -6_909_840_963_060_900_700),
            (16, -199_550_643_256_857_073),
            (17, 1_534_405_514_945_781_128),
            (24, 577_755_535_932_161_049),
            (31, 8_734_630_268_248_576_706),
            (32, 180_340_039_470_416_528),
            (33, -3_581_579_353_033_086_660),
            (48, -5_096_632_538_298_712_058),
        ] {
            assert_eq!(Token::of_bytes(&bytes[..len]).as_i64(), token, "{len} bytes");
        }
    }

    proptest! {
        #[test]
        fn tails_are_read_at_once_as_byte_by_byte(key in prop::collection::vec(any::<u8>(), 1..40), ascii: bool) {
            let key: Vec<u8> = key.into_iter().map(|byte| if ascii { byte & 0x7f } else { byte }).collect();
            let (low, high) = key.as_chunks::<16>().1.split_at(key.len() % 16 / 8 * 8);
            for bytes in [low, high].into_iter().filter(|bytes| !bytes.is_empty()) {
                prop_assert_eq!(sign_extending_tail(&key, bytes), sign_extending_bytes(bytes));
            }
        }

        #[test]
        fn a_new_bucket_only_receives_lists(token: i64, buckets in 1_usize..64) {
            let (before, after) = (Token(token).bucket(buckets), Token(token).bucket(buckets + 1));
            prop_assert!(before < buckets);
            prop_assert!(after == before || after == buckets);
        }
    }

    /// Vectors that other implementations of the paper's algorithm are tested with.
    #[test]
    fn buckets_follow_jump_consistent_hashing() {
        for (token, buckets, bucket) in [(1, 1, 0), (42, 57, 43), (0xdead_10cc, 666, 361), (256, 1_024, 520)] {
            assert_eq!(Token(token).bucket(buckets), bucket, "{token} of {buckets}");
        }
        assert_eq!(Token(42).bucket(0), 0);
    }

    #[test]
    fn buckets_are_even() {
        let mut counts = [0_u32; 8];
        for i in 0..80_000_u64 {
            counts[Token::of_bytes(&i.to_be_bytes()).bucket(8)] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }
}
