//! The server: it reads requests from connections, finds their operations in the table, and sends the answers.
//!
//! # Ways in
//! [`listen`] serves an [`ApiState`](crate::api::ApiState) on an address. `http1` reads each connection. Operations on
//! lists and bags go directly to [`server::carry_out`]. All other operations go through actix-web's `App`, which
//! provides routing, extractors and middleware.
//!
//! The server needs no middleware, because the API handles request IDs, metrics and the log. Setting `draining` takes
//! readiness off and asks callers to close their connections. The server still answers requests until the pool refuses
//! them.

mod listen;
mod routes;
mod server;
mod whole;

pub use crate::api::response::{Body, Response};
pub use listen::{Bound, ListenOptions, Listening, bind, listen, listen_for_administration};
pub use whole::{Whole, answer_whole};
