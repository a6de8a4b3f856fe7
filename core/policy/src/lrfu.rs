//! LRFU: each reference counts, and counts less the longer ago it is. Between LRU and LFU.
//!
//! ```text
//!   value of a block now = sum over its references of 2^(-lambda x references since)
//!
//!   block a, referenced 1, 2 and 50 references ago
//!     lambda = 1:      0.50 + 0.25 + 0.00    LRU: the last reference outweighs all others
//!     lambda = 0.001:  1.00 + 1.00 + 0.97    nearly LFU
//! ```
//!
//! All values shrink by the same factor, so they are compared without shrinking any: the weight of
//! a block is the sum of 2^(lambda x time) over its references, which changes with references
//! alone. Weights have exponents of 64 bits, for time goes on.
//!
//! R1  Each resident handle is in the heap.
//! R2  The heap orders by weight, ties by the last reference; both only grow.
//!
//! Paper: Lee, Choi, Kim, Noh, Min, Cho and Kim, LRFU: A Spectrum of Policies that Subsumes the
//! Least Recently Used and Least Frequently Used Policies, IEEE TC 50(12), 2001.
//! Differences: no correlated period. Nothing is known of evicted blocks, as in the paper.
//! Default: `lambda=0.001`.

use alloc::vec::Vec;

use crate::heap::Heap;
use crate::parameters::parameters;
use crate::prefetch::prefetch;
use crate::{Handle, Links, Online, Policy};

parameters! {
    /// Parameters of [`Lrfu`].
    pub struct LrfuParameters {
        /// How fast references lose their worth, per reference: 0 is LFU, 1 is LRU.
        "lambda" => lambda: f64 = 0.001, 0.0..=1.0;
    }
}

/// A positive number: 2^exponent x mantissa, the mantissa from 1 to below 2. Comparisons follow the
/// order of the fields: bits of positive numbers are ordered as the numbers are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Weight {
    exponent: i64,
    /// Bits of a double.
    mantissa: u64,
}

impl Weight {
    const ONE: Self = Self { exponent: 0, mantissa: 1f64.to_bits() };

    /// For mantissas below 4.
    fn new(exponent: i64, mantissa: f64) -> Self {
        let (exponent, mantissa) =
            if mantissa < 2.0 { (exponent, mantissa) } else { (exponent + 1, mantissa / 2.0) };
        Self { exponent, mantissa: mantissa.to_bits() }
    }

    fn mantissa(self) -> f64 {
        f64::from_bits(self.mantissa)
    }

    /// By a number from 1 to 2.
    fn times(self, factor: f64) -> Self {
        Self::new(self.exponent, self.mantissa() * factor)
    }

    fn plus(self, other: Self) -> Self {
        let (less, greater) = if self.exponent < other.exponent { (self, other) } else { (other, self) };
        let places = greater.exponent - less.exponent;
        if places > 64 {
            return greater;
        }
        // 2^-places, from its bits.
        let scale = f64::from_bits((1023 - places as u64) << 52);
        Self::new(greater.exponent, greater.mantissa() + less.mantissa() * scale)
    }
}

/// 2^x for x from 0 to 1, by the series of the exponential function.
fn exp2(x: f64) -> f64 {
    let x = x * core::f64::consts::LN_2;
    let (mut sum, mut term) = (1.0, 1.0);
    for n in 1..24 {
        term *= x / f64::from(n);
        sum += term;
    }
    sum
}

/// Least recently or frequently used.
#[derive(Clone, Debug)]
pub struct Lrfu {
    frames: u32,
    /// 2^lambda.
    growth: f64,
    /// References so far, and what a reference weighs now: 2^(lambda x now).
    now: u64,
    current: Weight,
    heap: Heap<(Weight, u64)>,
    /// The weight and the last reference of each handle; 0 if it is not resident.
    values: Vec<(Weight, u64)>,
}

impl Lrfu {
    #[inline]
    fn tick(&mut self) {
        self.now += 1;
        self.current = self.current.times(self.growth);
    }
}

impl Online for Lrfu {
    type Parameters = LrfuParameters;
    const NAME: &'static str = "lrfu";
    const SUMMARY: &'static str = "between LRU and LFU: references count less the older they are";

    fn new(frames: u32, parameters: LrfuParameters) -> Self {
        Self {
            frames,
            growth: exp2(parameters.lambda.clamp(0.0, 1.0)),
            now: 0,
            current: Weight::ONE,
            heap: Heap::default(),
            values: Vec::new(),
        }
    }
}

impl Policy for Lrfu {
    #[inline]
    fn hit(&mut self, _: &mut Links, handle: Handle) {
        self.tick();
        let value = &mut self.values[handle as usize];
        *value = (value.0.plus(self.current), self.now);
    }

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        self.reserve(links.capacity());
        self.tick();
        self.values[handle as usize] = (self.current, self.now);
        self.heap.push((self.current, self.now), handle);
    }

    #[inline]
    fn evict(&mut self, _: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        self.heap.take(|handle| self.values[handle as usize], |handle| !pinned(handle))
    }

    fn remove(&mut self, _: &mut Links, handle: Handle) {
        self.heap.remove(handle);
    }

    #[inline]
    fn len(&self) -> u32 {
        self.heap.len()
    }

    fn resize(&mut self, _: &mut Links, frames: u32) {
        self.frames = frames;
        self.heap.reserve(frames.min(self.values.len() as u32));
    }

    #[inline]
    fn reserve(&mut self, handles: u32) {
        if self.values.len() < handles as usize {
            self.values.resize(handles as usize, (Weight::ONE, 0));
            self.heap.reserve(handles.min(self.frames));
        }
    }

    #[inline]
    fn prefetch(&self, _: &Links, handle: Handle) {
        prefetch(&self.values, handle as usize);
    }

    fn validate(&self, _: &Links) {
        self.heap.validate(|handle| self.values[handle as usize]);
        let mut last = self.heap.handles().map(|handle| self.values[handle as usize].1);
        assert!(last.all(|last| (1..=self.now).contains(&last)), "R2: a last reference");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two() {
        assert_eq!(exp2(0.0), 1.0);
        assert!((exp2(1.0) - 2.0).abs() < 1e-15);
        assert!((exp2(0.5) - core::f64::consts::SQRT_2).abs() < 1e-15);
    }

    #[test]
    fn weights_add_up_at_any_distance() {
        let three = Weight::ONE.plus(Weight::ONE).plus(Weight::new(1, 1.0));
        assert_eq!(three, Weight::new(2, 1.0));
        let far = Weight::new(1 << 40, 1.5);
        assert_eq!(Weight::ONE.plus(far), far);
        assert!(Weight::ONE < far);
    }
}
