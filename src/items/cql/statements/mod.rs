//! The texts of all statements, and the statements as a session prepared them.
//!
//! | files | what they own |
//! | --- | --- |
//! | `lists` | statements on lists of items, and the labels of all statements |
//! | `sets`, `buckets`, `bags` | statements on sets, on directories of buckets, and on bags |

pub mod bags;
pub mod buckets;
pub mod lists;
pub mod sets;
