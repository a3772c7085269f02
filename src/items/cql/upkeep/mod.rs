//! Tasks of a session in the background.
//!
//! | files | content |
//! | --- | --- |
//! | `lookout` | probing nodes that do not answer |
//! | `node_clocks` | following the clocks of nodes |
//! | `trims` | cutting lists that are longer than they show |
//! | `sweeps` | replacing row tombstones by range tombstones |
//! | `wide_lists` | finding lists that need buckets |

pub mod lookout;
pub mod node_clocks;
pub mod sweeps;
pub mod trims;
pub mod wide_lists;
