//! Tiers that know nothing of each other: `ind-lru`, `ind-arc`, `mq`, and any other policy by name.
//!
//! A reference is looked for in tier 1, then in tier 2, and so on; every tier that was asked keeps the block, as caches
//! on a path do by default. So a block stands in several tiers at once, and a lower tier sees only what the tiers above
//! it missed.
//!
//! I1  A tier holds at most its frames, and `resident` agrees with its policy about how many.
//!
//! `mq` is LRU at the clients and Multi-Queue at every tier behind them, where its authors meant it to be: Y. Zhou, J.
//! Philbin, K. Li, *The multi-queue replacement algorithm for second level buffer caches*, USENIX 2001. `ind-arc` is the
//! rival that the ULC paper made up in the frame of Z. Chen et al., SIGMETRICS 2005.

use alloc::vec::Vec;

use pantler_policy::{Handle, Links, Policy, Replacement, Spec};

use super::protocol::Protocol;
use super::tier::{Client, Retrieval, Sizes, Step, Tier};

#[derive(Clone, Debug)]
struct Cache {
    frames: u32,
    policy: Replacement,
    links: Links,
    /// By handle.
    resident: Vec<bool>,
}

impl Cache {
    fn new(spec: Spec, frames: u32) -> Option<Self> {
        let policy = Replacement::new(spec, frames)?;
        Some(Self { frames, policy, links: Links::default(), resident: Vec::new() })
    }

    /// Whether the block was there; it is afterwards. Names the block that left for it.
    #[inline]
    fn reference(&mut self, block: Handle) -> (bool, Option<Handle>) {
        if self.resident.len() <= block as usize {
            self.reserve(block);
        }
        if self.resident[block as usize] {
            self.policy.hit(&mut self.links, block);
            return (true, None);
        }
        self.policy.miss(&mut self.links, block);
        let mut victim = None;
        if self.policy.len() >= self.frames {
            victim = self.policy.evict(&mut self.links, &|_| false);
            if let Some(victim) = victim {
                self.resident[victim as usize] = false;
            }
        }
        self.policy.insert(&mut self.links, block);
        self.resident[block as usize] = true;
        (false, victim)
    }

    #[cold]
    fn reserve(&mut self, block: Handle) {
        let handles = (block as usize + 1).next_power_of_two().max(64);
        self.resident.resize(handles, false);
        self.links.grow(handles as u32);
        self.policy.reserve(handles as u32);
    }
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
    /// Clients under one policy, the tiers behind them under another. `None` where a policy must know the future.
    pub fn new(sizes: &Sizes, clients: u16, near: Spec, far: Spec) -> Option<Self> {
        let first = Cache::new(near, sizes.of(Tier(1)))?;
        let servers = sizes.iter().skip(1).map(|(_, frames)| Cache::new(far, frames));
        let clients = (0..clients).map(|_| first.clone()).collect();
        Some(Self { clients, servers: servers.collect::<Option<_>>()? })
    }
}

impl Protocol for Independent {
    fn reference(&mut self, client: Client, block: Handle, steps: &mut Vec<Step>) -> Retrieval {
        let path = self.clients[client.index()..].iter_mut().take(1).chain(&mut self.servers);
        let mut tier = Tier(1);
        for cache in path {
            let (hit, victim) = cache.reference(block);
            steps.extend(victim.map(|block| Step::Drop { block, from: tier }));
            if hit {
                break;
            }
            tier = tier.below();
        }
        Retrieval { from: tier, keep: Tier(1) }
    }

    fn validate(&self) {
        for cache in self.clients.iter().chain(&self.servers) {
            cache.policy.validate(&cache.links);
            let resident = cache.resident.iter().filter(|resident| **resident).count();
            assert_eq!(resident as u32, cache.policy.len(), "I1: resident blocks");
            assert!(cache.policy.len() <= cache.frames, "I1: over its frames");
        }
    }
}
