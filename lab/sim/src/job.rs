//! One simulation as a value: everything that it needs to know.

use pantler_policy::Spec;

use crate::ahead::Ahead;
use crate::allocation::Sharing;

/// Blocks looked ahead at a time: more is no lookahead, and each takes memory.
pub const WINDOW_MAX: u32 = 1 << 16;

/// One policy or allocation at one size, over a trace that is [loaded](crate::Loaded).
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// What to simulate over it.
    pub what: What,
    /// Frames.
    pub size: u32,
    /// What is looked ahead beside a policy; `None` simulates demand fetches only.
    pub ahead: Option<Ahead>,
    /// References that are made and not counted.
    pub warm_up: WarmUp,
}

/// A policy, or an allocation between owners.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A policy, owners or not.
    Policy(Spec),
    /// A steward.
    Sharing(Box<Sharing>),
}

impl What {
    /// Whether lookahead can stand beside it: beside policies that see one reference after the
    /// other.
    pub fn may_look_ahead(&self) -> bool {
        matches!(self, Self::Policy(_)) && !self.is_offline()
    }

    /// Whether it must know the next uses of the trace.
    pub fn is_offline(&self) -> bool {
        matches!(self, Self::Policy(Spec::Opt | Spec::OptBypass))
    }
}

impl Job {
    /// Whether it asks which file and place a block is: an allocation and a lookahead do, a policy
    /// does not.
    pub fn needs_blocks(&self) -> bool {
        self.ahead.is_some() || matches!(self.what, What::Sharing(_))
    }
}

/// References at the start that are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum WarmUp {
    /// None: every reference counts.
    #[default]
    None,
    /// A number of references.
    Count(u64),
    /// This share of all, rounded down.
    Share(f64),
}

impl WarmUp {
    /// In references, of a trace with `requests`.
    pub fn references(self, requests: usize) -> u64 {
        match self {
            Self::None => 0,
            Self::Count(count) => count,
            Self::Share(share) => (share * requests as f64) as u64,
        }
    }
}
