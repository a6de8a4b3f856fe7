//! Protocols, as the simulator drives them: they decide where the blocks of a hierarchy are.

use pantler_policy::Handle;

use pantler_steward::placement::{Client, Retrieval, Step};

/// A protocol over several tiers, with everything that its clients and its servers know.
pub trait Protocol {
    /// A client references a block. Says from which tier it came and where it was put; what
    /// followed is appended to `steps`.
    fn reference(&mut self, client: Client, block: Handle, steps: &mut Vec<Step>) -> Retrieval;

    /// Recomputes from scratch what the protocol believes, and panics with the number of the
    /// invariant that fails.
    fn validate(&self);
}
