//! Turns a request of the workload into HTTP, and the answer into an outcome.

mod aggregates;
mod answers;
mod requests;
mod times;

pub use aggregates::{aggregate_json, aggregated};
pub use answers::{Reported, WireProblem, added, outcome, page, refusal};
pub use requests::{ENTITY_TYPE, Wire, items_json, segment, wire, with_parameters};
pub use times::{nanos, timestamp_json};
