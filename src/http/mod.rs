//! The server: it reads requests from connections, finds their operations in the table, and sends the answers.
//!
//! # Ways in
//! [`listen`] serves an [`ApiState`](crate::api::ApiState) on an address. `http1` reads each connection. Operations on
//! lists and bags go straight to [`server::carry_out`]. All others take the way through actix-web's `App`, where
//! routing, extractors and middleware are to be had.
//!
//! No middleware is needed: request ids, metrics and the log are kept by the API itself. Setting `draining` takes
//! readiness off and asks callers to leave their connections; requests that still come are answered until the pool
//! refuses them.

mod listen;
mod routes;
mod server;

pub use listen::{Bound, ListenOptions, Listening, bind, listen, listen_for_administration};
