//! The observations of sessions about the cluster and clocks, and their reports.
//!
//! | files | content |
//! | --- | --- |
//! | `gate` | refusing operations while no node is reached |
//! | `watch`, `view`, `news` | the view of all sessions, for the log and `/readyz` |
//! | `write_clock`, `skew` | write timestamps, and the clocks of other servers |
//! | `metrics` | counts |

pub mod gate;
pub mod metrics;
pub mod news;
pub mod skew;
pub mod view;
pub mod watch;
pub mod write_clock;
