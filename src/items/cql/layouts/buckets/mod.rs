//! Lists that are kept in buckets: a partition for each day, week, month or year of a list, so that none grows for
//! ever.
//!
//! The partition of a bucket is one of `list_items` like that of any list, under the list's feature key, `@`, and the
//! bucket's name; so whatever works on the partition of a list works on it, too. Which buckets a list has is said by
//! its directory, a partition of `list_buckets`.
//!
//! The directory must never miss a bucket whose items were acknowledged. So its row is written before them, and again
//! once the last one that this session wrote is `noted_buckets::HELD` old; its TTL is that of the
//! longest-lived item that the bucket can have. And it is deleted only by a write timestamp that lies as much before
//! that of the deletion of the bucket: an item that outlives its bucket has a larger one, and was preceded by a row of
//! the directory that outlives the deletion as well. This needs no clock but that of write timestamps.

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
