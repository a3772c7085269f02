//! Lists that are kept in buckets: a partition for each day, week, month or year of a list, so that none grows for
//! ever.
//!
//! The partition of a bucket is a partition of `list_items`, like any list, under the list's feature key, `@`, and the
//! bucket's name. So all code for the partition of a list works on it too. The directory of a list, a partition of
//! `list_buckets`, names its buckets.
//!
//! The directory must never miss a bucket whose items were acknowledged. So its row is written before them, and again
//! once the last one that this session wrote is `noted_buckets::HELD` old; its TTL is the longest lifetime of any item
//! of the bucket. A row is deleted with a write timestamp that lies `HELD` before the timestamp of its bucket's
//! deletion. An item that outlives this deletion has a larger timestamp, and its row outlives the deletion as well.
//! This needs only the clock of write timestamps.

mod add;
mod count;
mod directory;
mod pace;
mod remove;
mod several;
mod trim;
mod walk;

pub use add::add;
pub use count::count;
pub use directory::{emptied_before, forget, is_covered, partition, partitions};
pub use remove::all;
pub use trim::trim;
pub use walk::BucketsWalk;
