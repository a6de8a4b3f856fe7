//! Arbitrary bytes as a trace read as hash-ids.
#![cfg_attr(fuzzing, no_main)]

pantler_fuzz::target!(|bytes| pantler_fuzz::run("hash_ids", bytes));
