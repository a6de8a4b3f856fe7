//! Arbitrary bytes as a trace read as vscsi.
#![cfg_attr(fuzzing, no_main)]

pantler_fuzz::target!(|bytes: &[u8]| pantler_fuzz::run("vscsi", bytes));
