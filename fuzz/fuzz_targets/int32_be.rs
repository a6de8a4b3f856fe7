//! Arbitrary bytes as a trace read as int32-be.
#![cfg_attr(fuzzing, no_main)]

pantler_fuzz::target!(|bytes| pantler_fuzz::run("int32_be", bytes));
