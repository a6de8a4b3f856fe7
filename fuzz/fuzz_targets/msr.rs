//! Arbitrary bytes as a trace read as msr.
#![cfg_attr(fuzzing, no_main)]

pantler_fuzz::target!(|bytes| pantler_fuzz::run("msr", bytes));
