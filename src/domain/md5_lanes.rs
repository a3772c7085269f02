//! MD5 (RFC 1321) of several short values at once. Each step of it waits for the one before, so that a processor
//! does four as fast as one, if they go beside each other.

use std::array;

/// How many go beside each other: as many as the smallest vectors that x86-64 and ARM have all.
pub const LANES: usize = 4;
/// Longer values do not fit one block.
pub const LEN_MAX: usize = 55;

type Lanes = [u32; LANES];
type State = [Lanes; 4];
type Words = [Lanes; 16];

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

/// The digests of up to [`LANES`] values of up to [`LEN_MAX`] bytes each; of those that are not given, anything.
pub fn of_short(values: &[&[u8]]) -> [[u8; 16]; LANES] {
    let mut words: Words = [[0; LANES]; 16];
    for (i, value) in values.iter().enumerate().take(LANES) {
        let mut block = [0; 64];
        let len = value.len().min(LEN_MAX);
        block[..len].copy_from_slice(&value[..len]);
        block[len] = 0x80;
        block[56] = (8 * len) as u8;
        block[57] = (len >> 5) as u8;
        for (word, bytes) in words.iter_mut().zip(block.as_chunks().0) {
            word[i] = u32::from_le_bytes(*bytes);
        }
    }
    let digest = compress(&words);
    array::from_fn(|i| {
        let mut bytes = [0; 16];
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(&digest) {
            *bytes = word[i].to_le_bytes();
        }
        bytes
    })
}

fn compress(words: &Words) -> State {
    let begin = BEGIN.map(|word| [word; LANES]);
    let state = round::<7, 12, 17, 22>(begin, words, &SINES[..16], |i| i, |b, c, d| d ^ (b & (c ^ d)));
    let state = round::<5, 9, 14, 20>(state, words, &SINES[16..32], |i| 5 * i + 1, |b, c, d| c ^ (d & (b ^ c)));
    let state = round::<4, 11, 16, 23>(state, words, &SINES[32..48], |i| 3 * i + 5, |b, c, d| b ^ c ^ d);
    let state = round::<6, 10, 15, 21>(state, words, &SINES[48..], |i| 7 * i, |b, c, d| c ^ (b | !d));
    let [a, b, c, d] = begin;
    [add(a, state[0]), add(b, state[1]), add(c, state[2]), add(d, state[3])]
}

/// Sixteen steps, four by four: they rotate by so many bits.
#[inline(always)]
fn round<const A: u32, const B: u32, const C: u32, const D: u32>(
    mut state: State,
    words: &Words,
    sines: &[u32],
    word: impl Fn(usize) -> usize,
    mix: impl Fn(u32, u32, u32) -> u32,
) -> State {
    for at in (0..16).step_by(4) {
        let added = |i: usize| add(words[word(at + i) % 16], [sines[at + i]; LANES]);
        state = step::<A>(state, added(0), &mix);
        state = step::<B>(state, added(1), &mix);
        state = step::<C>(state, added(2), &mix);
        state = step::<D>(state, added(3), &mix);
    }
    state
}

#[inline(always)]
fn step<const BITS: u32>([a, b, c, d]: State, added: Lanes, mix: impl Fn(u32, u32, u32) -> u32) -> State {
    let mut mixed = [0; LANES];
    for i in 0..LANES {
        mixed[i] = mix(b[i], c[i], d[i]);
    }
    let sum = add(add(a, mixed), added);
    let mut rotated = [0; LANES];
    for i in 0..LANES {
        rotated[i] = sum[i].rotate_left(BITS);
    }
    [d, add(rotated, b), b, c]
}

#[inline(always)]
fn add(a: Lanes, b: Lanes) -> Lanes {
    let mut sum = [0; LANES];
    for i in 0..LANES {
        sum[i] = a[i].wrapping_add(b[i]);
    }
    sum
}
