//! The in-memory part of lists: rows that no data file contains yet, and the newest items of lists that are read.

pub mod change_counts;
pub mod head;
pub mod heads;
pub mod member_index;
pub mod member_indexes;
pub mod memtable;
