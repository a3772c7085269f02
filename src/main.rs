//! The `liststore` binary.

fn main() {}
