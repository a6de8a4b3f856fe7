//! Tiers that know nothing of each other: `ind-lru`, `ind-arc`, `mq`, and any other policy by name.
//!
//! A reference is looked for in tier 1, then in tier 2, and so on; every tier that was asked keeps
//! the block, as caches on a path do by default. So a block stands in several tiers at once, and a
//! lower tier sees only what the tiers above it missed.
//!
//! `mq` is LRU at the clients and Multi-Queue at every tier behind them, where its authors meant it
//! to be: Y. Zhou, J. Philbin, K. Li, *The multi-queue replacement algorithm for second level
//! buffer caches*, USENIX 2001. `ind-arc` is the rival that the ULC paper made up in the frame of
//! Z. Chen et al., SIGMETRICS 2005.

use pantler_policy::{Demand, Handle, Replacement, Spec};
use pantler_steward::placement::{Client, Retrieval, Sizes, Step, Tier};

use super::protocol::Protocol;

type Cache = Demand<Replacement>;

fn cache(spec: Spec, frames: u32) -> Option<Cache> {
    Some(Demand::new(Replacement::new(spec, frames)?, frames))
}

/// A hierarchy of caches on their own.
#[derive(Clone, Debug)]
pub struct Independent {
    /// Tier 1 of each client.
    clients: Vec<Cache>,
    /// Tier 2 and on.
    servers: Vec<Cache>,
}

impl Independent {
    /// Clients under one policy, the tiers behind them under another. `None` where a policy must
    /// know the future.
    pub fn new(sizes: &Sizes, clients: u16, near: Spec, far: Spec) -> Option<Self> {
        let first = cache(near, sizes.of(Tier::NEAREST))?;
        let servers = sizes.iter().skip(1).map(|(_, frames)| cache(far, frames));
        let clients = (0..clients).map(|_| first.clone()).collect();
        Some(Self { clients, servers: servers.collect::<Option<_>>()? })
    }
}

impl Protocol for Independent {
    fn reference(&mut self, client: Client, block: Handle, steps: &mut Vec<Step>) -> Retrieval {
        let path = self.clients[client.index()..].iter_mut().take(1).chain(&mut self.servers);
        let mut tier = Tier::NEAREST;
        for cache in path {
            let (hit, victim) = cache.reference(block);
            steps.extend(victim.map(|block| Step::Drop { block, from: tier }));
            if hit {
                break;
            }
            tier = tier.below();
        }
        Retrieval { from: tier, keep: Tier::NEAREST }
    }

    fn validate(&self) {
        self.clients.iter().chain(&self.servers).for_each(Cache::validate);
    }
}
