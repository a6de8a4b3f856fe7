//! Placement beside slow twins, written straight from the rules U of docs/RULES.md.

mod exhaustive;
mod measures;
mod naive;
mod patterns;
mod props;
mod rivals;
