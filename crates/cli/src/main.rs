//! The `pantler` command.

fn main() {}
