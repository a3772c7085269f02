//! What operations take from the items of a list as they pass, newest first: pages, counts, members.

pub mod look;
pub mod members;
pub mod page;
pub mod set_write;
pub mod turn;
