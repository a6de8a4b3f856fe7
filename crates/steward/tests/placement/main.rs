//! Placement against slow twins, written straight from the rules of design.md, section 3.6.

mod exhaustive;
mod measures;
mod naive;
mod patterns;
mod props;
mod rivals;
