//! Arbitrary bytes as what a tier returns.
#![cfg_attr(fuzzing, no_main)]

pantler_fuzz::target!(|bytes| pantler_fuzz::tier::envelope(bytes));
