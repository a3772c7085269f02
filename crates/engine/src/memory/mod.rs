//! What is in memory of lists: rows that are in no data file yet, and the newest items of lists that are read.

pub mod head;
pub mod heads;
pub mod member_index;
pub mod memtable;
