//! Arbitrary bytes as a trace read as lirs.
#![cfg_attr(fuzzing, no_main)]

pantler_fuzz::target!(|bytes: &[u8]| pantler_fuzz::run("lirs", bytes));
