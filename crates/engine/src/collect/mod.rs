//! The results that operations collect from a list's items, newest first: pages, counts, members.

pub mod members;
pub mod page;
pub mod set_write;
pub mod turn;
