//! What the fuzz targets call. The smoke tests of `pantler-trace` and `pantler-tier` include the
//! same files, and feed them mutated samples without a fuzzer.

pub mod tier;
pub mod trace;

use trace::Target;

/// Runs a target about traces by its name.
///
/// # Panics
///
/// If there is no such target; or if the target finds something.
pub fn run(name: &str, bytes: &[u8]) {
    let target = Target::all().find(|target| target.name() == name);
    target.unwrap_or_else(|| panic!("no fuzz target {name}")).run(bytes);
}
