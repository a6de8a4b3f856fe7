//! Inference: pure, from a seed and readings to scripts and a verdict. No I/O, no clock.
//!
//! Read in this order: [`script`] and [`pattern`] say what is done to a cache, [`calibrate`] and
//! [`evidence`] what is learnt of it, [`simulate`], [`hypothesis`] and [`score`] how explanations
//! are compared, [`rank`] and [`choose`] how the best one is found, [`check`] whether it is good
//! enough, [`fresh`] whether it holds for what it was not chosen by, [`inquiry`] how all of it
//! follows on each other, and [`verdict`] what comes out.

pub mod ahead;
pub mod budget;
pub mod calibrate;
pub mod check;
pub mod choose;
pub mod evidence;
pub mod family;
pub mod fresh;
pub mod hypothesis;
pub mod inquiry;
pub mod pattern;
pub mod random;
pub mod rank;
pub mod refine;
pub mod score;
pub mod script;
pub mod simulate;
pub mod verdict;
