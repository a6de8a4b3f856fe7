//! Automation of the workspace: `cargo xtask <command>`.

fn main() {}
