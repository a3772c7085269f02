//! Sets: ordered rows and reverse entries in one partition.
//!
//! A member has one *reverse entry*, which has its items by writer. Each writer, a process, has a place of its
//! own there, which it overwrites; so two that add a member at once lose neither item, and which of them is current is
//! decided by the two items alone ([`Keep`](crate::domain::Keep)). Each item also has an *ordered row*. A row and its
//! place in an entry are written by one batch with one write timestamp, and are deleted by one batch with the same
//! timestamp. So the deletion hides nothing else, regardless of clocks.
//!
//! The entry is canonical. A reader takes rows for hints, reads the entries of their members, and shows the items of
//! these. If the two do not agree it notes the member, and a task repairs it.
//!
//! | files | content |
//! | --- | --- |
//! | `entry` | the content of an entry, its current item, and its place |
//! | `read`, `write` | the requests: rows and entries; batches of changes |
//! | `walk` | current items, in order |
//! | `queries`, `add`, `remove` | the operations |
//! | `trim` | cutting a set that is longer than it shows |
//! | `compare` | finding entries whose rows are hidden |
//! | `repair` | making rows and entries agree |

mod add;
mod compare;
mod entry;
mod queries;
mod read;
mod remove;
mod repair;
mod trim;
mod walk;
mod write;

pub use add::add;
pub use queries::{contains, count_whole, lookup, order_of_moves};
pub use remove::remove;
pub use repair::repair;
pub use trim::trim;
pub use walk::SetWalk;
