//! The contract of a Liststore server: requests and answers.
//!
//! [`definition`] has the documents of features. [`domain`] has the words as types: names, keys, values, times and
//! page tokens. [`wire`] has the bodies of requests and replies, the parameters, and the error codes. [`operations`]
//! has a file for each operation, with its [`row`]. The server, the commands and the operator share them. This
//! package names no server, no store and no framework.

pub mod domain;
pub mod operations;
pub mod permission;
pub mod row;
pub mod wire;

pub use wire::definition;
