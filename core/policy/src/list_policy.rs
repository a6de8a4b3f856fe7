//! The policies that a steward's managers run: each is an order of one list of a slab that many of
//! them share.

use crate::replacement::delegate;
use crate::{Clock, Fifo, Handle, Links, List, Lru, Mru, Policy, PolicyName, Spec};

/// A policy that remembers one list and a bit per handle, so that another can take over where it
/// stops.
///
/// An enum and not a trait object: the steward keeps one for each priority of each owner, and calls
/// it on each hit. Policies with ghosts or memory of their own are in
/// [`Replacement`](crate::Replacement).
#[derive(Clone, Debug)]
pub enum ListPolicy {
    /// See [`Lru`].
    Lru(Lru),
    /// See [`Mru`].
    Mru(Mru),
    /// See [`Fifo`].
    Fifo(Fifo<List>),
    /// See [`Clock`].
    Clock(Clock<List>),
}

delegate!(ListPolicy { Lru, Mru, Fifo, Clock });

impl ListPolicy {
    /// The names of these policies.
    pub const NAMES: [PolicyName; 4] =
        [PolicyName::Lru, PolicyName::Mru, PolicyName::Fifo, PolicyName::Clock];

    /// An empty policy of that name. `None` for a policy that needs more than a list.
    pub fn new(name: PolicyName) -> Option<Self> {
        Self::over(name, List::default(), &mut Links::default())
    }

    /// The name of the policy in force.
    pub fn name(&self) -> PolicyName {
        match self {
            Self::Lru(_) => PolicyName::Lru,
            Self::Mru(_) => PolicyName::Mru,
            Self::Fifo(_) => PolicyName::Fifo,
            Self::Clock(_) => PolicyName::Clock,
        }
    }

    /// A policy over handles in the order of `list`: only the choice of victims is another. One
    /// with reference bits starts with all clear, in time proportional to the handles held. `None`
    /// for a policy that needs more than a list.
    pub fn over(name: PolicyName, list: List, links: &mut Links) -> Option<Self> {
        Some(match name {
            PolicyName::Lru => Self::Lru(Lru { list }),
            PolicyName::Mru => Self::Mru(Mru { list }),
            PolicyName::Fifo => Self::Fifo(Fifo::over(list)),
            PolicyName::Clock => Self::Clock(Clock::over(list, links)),
            _ => return None,
        })
    }

    /// Handles from the front to the back of the list, not in order of eviction.
    pub fn iter<'a>(&self, links: &'a Links) -> crate::Iter<'a> {
        self.list().iter(links)
    }

    /// The list itself, for another policy to take over.
    pub fn list(&self) -> List {
        match self {
            Self::Lru(policy) => policy.list,
            Self::Mru(policy) => policy.list,
            Self::Fifo(policy) => policy.queue,
            Self::Clock(policy) => policy.queue,
        }
    }
}

impl Spec {
    /// Whether the policy needs more memory than a list and a bit per block: it remembers blocks
    /// that left, or counts.
    pub fn remembers(&self) -> bool {
        !self.policy_name().is_some_and(|name| ListPolicy::NAMES.contains(&name))
    }
}
