//! Arbitrary bytes as a trace read as oracle-general.
#![cfg_attr(fuzzing, no_main)]

pantler_fuzz::target!(|bytes| pantler_fuzz::run("oracle_general", bytes));
