//! Arbitrary bytes as a CSV with columns that are named by its first line.
#![cfg_attr(fuzzing, no_main)]

pantler_fuzz::target!(|bytes| pantler_fuzz::run("columns", bytes));
