//! Arbitrary bytes as any file, guessed and perhaps compressed.
#![cfg_attr(fuzzing, no_main)]

pantler_fuzz::target!(|bytes| pantler_fuzz::run("guess", bytes));
