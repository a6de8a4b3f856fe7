//! The six file systems that the ACFS paper compares, by name.
//!
//! | name | allocation | managers' wishes | lists | `B`, order |
//! | --- | --- | --- | --- | --- |
//! | `lru+obl` | global LRU | no | no | |
//! | `+prefetch` | LRU-SP | no | yes | 1, as they come |
//! | `+prefetch+scheduling` | LRU-SP | no | yes | 16, by position |
//! | `ac` | LRU-SP | yes | no | |
//! | `ac+prefetch` | LRU-SP | yes | yes | 1, as they come |
//! | `ac+prefetch+scheduling` | LRU-SP | yes | yes | 16, by position |
//!
//! Where requests take long compared to blocks, batches are longer than 16 and go through holes
//! (rule Q7 of the scheduler); on the paper's disks they do not.
//!
//! Beside the lists all look one block ahead after two in sequence (`obl-2`), as the paper's kernel
//! does.
//!
//! Difference from the paper: its second and third file system take the list for what to fetch
//! only. Here the list always names victims, too (P6), so that these two are better than theirs.

use std::str::FromStr;

use pantler_steward::Allocation;
use pantler_steward::lists::Prefetching;
use pantler_steward::scheduling::{Order, PaceOptions, SchedulerOptions};

/// One of the six.
#[derive(Clone, Copy, Debug, derive_more::Display, PartialEq, Eq, Hash)]
#[display("{name}")]
pub struct Configuration {
    name: &'static str,
    /// Hints of owners about their blocks are obeyed.
    pub control: bool,
    /// Access lists are heard.
    pub prefetch: bool,
    /// Reads go out in batches, by position, the urgent ones first.
    pub scheduling: bool,
}

const fn named(name: &'static str, control: bool, prefetch: bool, scheduling: bool) -> Configuration {
    Configuration { name, control, prefetch, scheduling }
}

/// All of them, in the paper's order.
pub const CONFIGURATIONS: [Configuration; 6] = [
    named("lru+obl", false, false, false),
    named("+prefetch", false, true, false),
    named("+prefetch+scheduling", false, true, true),
    named("ac", true, false, false),
    named("ac+prefetch", true, true, false),
    named("ac+prefetch+scheduling", true, true, true),
];

impl Configuration {
    /// The name as typed.
    pub const fn as_str(&self) -> &'static str {
        self.name
    }

    /// How frames are shared: without anything to hear, as kernels do.
    pub const fn allocation(&self) -> Allocation {
        if self.control || self.prefetch { Allocation::LruSp } else { Allocation::GlobalLru }
    }

    /// How lists are followed.
    pub fn prefetching(&self) -> Prefetching {
        let defaults = Prefetching::default();
        Prefetching { batch: if self.scheduling { defaults.batch } else { 1 }, ..defaults }
    }

    /// How reads go out: without scheduling as they come.
    pub fn scheduler(&self) -> SchedulerOptions {
        let pace = PaceOptions::fixed(self.prefetching().batch, 1);
        let order = if self.scheduling { Order::Position } else { Order::Arrival };
        SchedulerOptions { order, pace, ..SchedulerOptions::default() }
    }
}

impl FromStr for Configuration {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        CONFIGURATIONS.into_iter().find(|configuration| configuration.name == name).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for configuration in CONFIGURATIONS {
            assert_eq!(configuration.to_string().parse(), Ok(configuration));
        }
        assert!("acc".parse::<Configuration>().is_err());
    }
}
