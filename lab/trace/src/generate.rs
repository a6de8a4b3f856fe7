//! Traces from a line of text: seeded, and identical on every machine.
//!
//! ```text
//!   zipf:alpha=0.8,ids=1000000,requests=20000000,seed=1
//!   phases:(loop:ids=100,requests=1000),(zipf:ids=500,requests=1000,first=100),repeat=3
//!   mix:cscope=(loop:ids=1000,requests=8000),grep=(scan:ids=5000),burst=4
//! ```
//!
//! A generator is an iterator of [`Reference`]s. It draws from its own random numbers ([`Draws`]),
//! and computes with its own logarithms (the crate `libm`), because those of operating systems
//! differ in the last digit.
//!
//! ```
//! use pantler_trace::generate::Specification;
//!
//! let specification: Specification = "loop:ids=3,requests=7".parse().unwrap();
//! let blocks: Vec<u64> = specification.references().map(|reference| reference.block).collect();
//! assert_eq!(blocks, [0, 1, 2, 0, 1, 2, 0]);
//! assert_eq!(specification.prepare().unwrap().distinct(), 3);
//! ```

mod mix;
mod parameters;
mod permutation;
mod reference;
mod specification;
mod stack_distance;
mod zipf;

pub use pantler_policy::Draws;
pub use parameters::GENERATORS;
pub use permutation::Permutation;
pub use reference::Reference;
pub use specification::{Generator, Specification};
pub use stack_distance::StackDistance;
pub use zipf::Zipf;
