//! How much work the cluster has at once, and what happens if a node does not answer.
//!
//! | files | content |
//! | --- | --- |
//! | `permits`, `limit` | permits for requests, and how many there are |
//! | `retry`, `under_way`, `budget` | attempts, attempts without a waiting caller, how many attempts |
//! | `route`, `paces` | which node an attempt asks; which nodes are slow |
//! | `coalesce` | gets of one query that share requests |

pub mod budget;
pub mod coalesce;
pub mod limit;
pub mod paces;
pub mod permits;
pub mod retry;
pub mod route;
pub mod under_way;
