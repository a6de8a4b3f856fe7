//! Arbitrary bytes as what a program writes into its ring.
#![cfg_attr(fuzzing, no_main)]

pantler_fuzz::target!(|bytes| pantler_fuzz::ring::words(bytes));
