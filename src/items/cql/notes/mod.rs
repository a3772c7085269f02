//! Notes of operations for tasks in the background, within bounds.
//!
//! | files | content |
//! | --- | --- |
//! | `noted` | the queue that the others are made of |
//! | `overlong` | lists with more items than they show |
//! | `repairs` | members of sets to repair |
//! | `to_sweep` | places with many row tombstones |
//! | `wide` | lists that need buckets |
//! | `noted_buckets` | buckets that this session has written into directories |
//! | `dense` | sets whose entries have too many tombstones to read them all |

pub mod dense;
pub mod noted;
pub mod noted_buckets;
pub mod overlong;
pub mod repairs;
pub mod to_sweep;
pub mod wide;
