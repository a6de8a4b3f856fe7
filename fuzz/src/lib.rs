//! What the fuzz targets call. Smoke tests of `pantler-trace`, `pantler-tier-server` and
//! `pantler-control` include the same files, and feed them mutated samples without a fuzzer.

pub mod ring;
pub mod tier;
pub mod trace;

use std::io::{self, Read};

use trace::Target;

/// A target: what a fuzzer calls, and without one a program that reads an input that crashed from
/// its standard input.
#[macro_export]
macro_rules! target {
    (|$bytes:ident| $run:expr) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|$bytes: &[u8]| $run);

        #[cfg(not(fuzzing))]
        fn main() -> std::io::Result<()> {
            $crate::once(|$bytes| $run)
        }
    };
}

/// Runs a target once, with the bytes of standard input.
///
/// # Errors
///
/// Of reading them.
///
/// # Panics
///
/// If the target finds something.
pub fn once(run: impl Fn(&[u8])) -> io::Result<()> {
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes)?;
    run(&bytes);
    Ok(())
}

/// Runs a target about traces by its name.
///
/// # Panics
///
/// If there is no such target; or if the target finds something.
pub fn run(name: &str, bytes: &[u8]) {
    let target = Target::all().find(|target| target.name() == name);
    target.unwrap_or_else(|| panic!("no fuzz target {name}")).run(bytes);
}
