//! The same tests of the HTTP API, with connections that are handed over to the framework.

#[path = "main.rs"]
mod api;
