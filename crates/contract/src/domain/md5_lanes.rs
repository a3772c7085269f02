//! MD5 (RFC 1321) of several short values at once. Each step waits for the previous one, so a processor computes
//! several digests in parallel in little more time than one.

/// Longer values do not fit one block.
pub const LEN_MAX: usize = 55;

type Lanes<const N: usize> = [u32; N];
type State<const N: usize> = [Lanes<N>; 4];
type Words<const N: usize> = [Lanes<N>; 16];

/// Section 3.3.
const BEGIN: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
/// Section 3.4: the integer part of 4294967296 times abs(sin(i + 1)), i in radians.
#[rustfmt::skip]
const SINES: [u32; 64] = [
    0xd76a_a478, 0xe8c7_b756, 0x2420_70db, 0xc1bd_ceee, 0xf57c_0faf, 0x4787_c62a, 0xa830_4613, 0xfd46_9501,
    0x6980_98d8, 0x8b44_f7af, 0xffff_5bb1, 0x895c_d7be, 0x6b90_1122, 0xfd98_7193, 0xa679_438e, 0x49b4_0821,
    0xf61e_2562, 0xc040_b340, 0x265e_5a51, 0xe9b6_c7aa, 0xd62f_105d, 0x0244_1453, 0xd8a1_e681, 0xe7d3_fbc8,
    0x21e1_cde6, 0xc337_07d6, 0xf4d5_0d87, 0x455a_14ed, 0xa9e3_e905, 0xfcef_a3f8, 0x676f_02d9, 0x8d2a_4c8a,
    0xfffa_3942, 0x8771_f681, 0x6d9d_6122, 0xfde5_380c, 0xa4be_ea44, 0x4bde_cfa9, 0xf6bb_4b60, 0xbebf_bc70,
    0x289b_7ec6, 0xeaa1_27fa, 0xd4ef_3085, 0x0488_1d05, 0xd9d4_d039, 0xe6db_99e5, 0x1fa2_7cf8, 0xc4ac_5665,
    0xf429_2244, 0x432a_ff97, 0xab94_23a7, 0xfc93_a039, 0x655b_59c3, 0x8f0c_cc92, 0xffef_f47d, 0x8584_5dd1,
    0x6fa8_7e4f, 0xfe2c_e6e0, 0xa301_4314, 0x4e08_11a1, 0xf753_7e82, 0xbd3a_f235, 0x2ad7_d2bb, 0xeb86_d391,
];

/// The digests of up to `N` values of up to [`LEN_MAX`] bytes each. The digests of missing values are arbitrary.
pub fn of_short<const N: usize>(values: &[&[u8]]) -> [[u8; 16]; N] {
    let mut words: Words<N> = [[0; N]; 16];
    for i in 0..values.len().min(N) {
        let block = block_of(values[i]);
        for (word, lanes) in words.iter_mut().enumerate() {
            let at = 4 * word;
            lanes[i] = u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
        }
    }
    let digest = compress(&words);
    let mut digests = [[0; 16]; N];
    for (i, bytes) in digests.iter_mut().enumerate() {
        for word in 0..4 {
            bytes[4 * word..4 * word + 4].copy_from_slice(&digest[word][i].to_le_bytes());
        }
    }
    digests
}

/// A value as the only block of its message: section 3.1 and 3.2.
#[inline(always)]
fn block_of(value: &[u8]) -> [u8; 64] {
    let mut block = [0; 64];
    let len = value.len().min(LEN_MAX);
    block[..len].copy_from_slice(&value[..len]);
    block[len] = 0x80;
    let bits = (8 * len as u64).to_le_bytes();
    (block[56], block[57]) = (bits[0], bits[1]);
    block
}

#[inline(always)]
fn compress<const N: usize>(words: &Words<N>) -> State<N> {
    let begin = BEGIN.map(|word| [word; N]);
    let state = round::<N, 7, 12, 17, 22>(begin, words, &SINES, 0, (1, 0), |b, c, d| d ^ (b & (c ^ d)));
    let state = round::<N, 5, 9, 14, 20>(state, words, &SINES, 16, (5, 1), |b, c, d| c ^ (d & (b ^ c)));
    let state = round::<N, 4, 11, 16, 23>(state, words, &SINES, 32, (3, 5), |b, c, d| b ^ c ^ d);
    let state = round::<N, 6, 10, 15, 21>(state, words, &SINES, 48, (7, 0), |b, c, d| c ^ (b | !d));
    let [a, b, c, d] = begin;
    [add(a, state[0]), add(b, state[1]), add(c, state[2]), add(d, state[3])]
}

/// Sixteen steps, in groups of four. Each step of a group has the next of these rotation distances, and the words
/// advance by a fixed stride from a first one.
#[inline(always)]
fn round<const N: usize, const A: u32, const B: u32, const C: u32, const D: u32>(
    mut state: State<N>,
    words: &Words<N>,
    sines: &[u32; 64],
    from: usize,
    (stride, first): (usize, usize),
    mix: impl Fn(u32, u32, u32) -> u32 + Copy,
) -> State<N> {
    let added = |step: usize| add(words[(stride * step + first) % 16], [sines[from + step]; N]);
    for step in (0..16).step_by(4) {
        state = stepped::<N, A>(state, added(step), mix);
        state = stepped::<N, B>(state, added(step + 1), mix);
        state = stepped::<N, C>(state, added(step + 2), mix);
        state = stepped::<N, D>(state, added(step + 3), mix);
    }
    state
}

#[inline(always)]
fn stepped<const N: usize, const BITS: u32>(
    [a, b, c, d]: State<N>,
    added: Lanes<N>,
    mix: impl Fn(u32, u32, u32) -> u32 + Copy,
) -> State<N> {
    let mut mixed = [0; N];
    for i in 0..N {
        mixed[i] = mix(b[i], c[i], d[i]);
    }
    let sum = add(add(a, mixed), added);
    let mut rotated = [0; N];
    for i in 0..N {
        rotated[i] = sum[i].rotate_left(BITS);
    }
    [d, add(rotated, b), b, c]
}

#[inline(always)]
fn add<const N: usize>(a: Lanes<N>, b: Lanes<N>) -> Lanes<N> {
    let mut sum = [0; N];
    for i in 0..N {
        sum[i] = a[i].wrapping_add(b[i]);
    }
    sum
}
