//! Arbitrary bytes as a generator's specification.
#![cfg_attr(fuzzing, no_main)]

pantler_fuzz::target!(|bytes| pantler_fuzz::run("specification", bytes));
