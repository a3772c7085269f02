//! The operations on lists, sets and bags, by the way in which each is stored.
//!
//! | files | content |
//! | --- | --- |
//! | `operations` | each operation, handed to the layout of its list |
//! | `add`, `remove`, `contains` | operations on lists of items |
//! | `walk` | the trait of walks, and the collectors over them |
//! | `partition` | the walk over a partition of items |
//! | `keys` | slices of a partition: bounds on its keys |
//! | `aggregate` | aggregates over lists of any layout |
//! | `buckets` | lists in many partitions |
//! | `members` | sets |
//! | `bags` | bags of properties |
//! | `layout` | reads of a list of any layout |
//! | `entities` | walks over the lists of a feature version |
//! | `deletes`, `settled` | requests that several operations share |

pub mod add;
pub mod aggregate;
pub mod bags;
pub mod buckets;
pub mod contains;
pub mod deletes;
pub mod entities;
pub mod keys;
pub mod layout;
pub mod members;
pub mod operations;
pub mod partition;
pub mod remove;
pub mod settled;
pub mod walk;

#[cfg(test)]
mod tests;
