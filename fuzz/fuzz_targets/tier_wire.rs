//! Arbitrary bytes as what a client sends to a tier server.
#![cfg_attr(fuzzing, no_main)]

pantler_fuzz::target!(|bytes| pantler_fuzz::tier::wire(bytes));
