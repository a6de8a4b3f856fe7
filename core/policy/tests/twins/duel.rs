//! A duel between two naive caches: the lead of one is counted, and the cache follows it.

use pantler_policy::Handle;

use crate::harness::{Twin, check};
use crate::linux::{Linux, twin as linux_twin};

struct Duel {
    share: f64,
    frames: usize,
    /// From the least to the most recently used.
    lru: Vec<Handle>,
    linux: Linux,
    follows_lru: bool,
    lead: usize,
    resident: Vec<Handle>,
    extra: Vec<Handle>,
    doubtful: Vec<Handle>,
    missed: Option<Handle>,
}

fn drop_from(handles: &mut Vec<Handle>, handle: Handle) -> bool {
    let before = handles.len();
    handles.retain(|&other| other != handle);
    handles.len() < before
}

/// The victim of Linux, and what it forgets for it.
fn give_up(linux: &mut Linux) -> Vec<Handle> {
    let before = linux.ghosts();
    let victim = linux.evict(&|_| false);
    let after = linux.ghosts();
    victim.into_iter().chain(before.into_iter().filter(|ghost| !after.contains(ghost))).collect()
}

impl Duel {
    fn is_followed(&self, handle: Handle) -> bool {
        if self.follows_lru { self.lru.contains(&handle) } else { self.linux.residents().contains(&handle) }
    }

    fn known(&self) -> Vec<Handle> {
        let mut known = self.lru.clone();
        known.extend(self.linux.residents());
        known.extend(self.linux.ghosts());
        known
    }

    fn refer(&mut self, handle: Handle) {
        drop_from(&mut self.extra, handle);
        drop_from(&mut self.doubtful, handle);
        let room = self.frames.min(self.resident.len() + 1);
        let lru_hit = drop_from(&mut self.lru, handle);
        let mut left = Vec::new();
        if !lru_hit {
            let room = room.max(self.lru.len().saturating_sub(1));
            while left.len() < 2 && self.lru.len() >= room {
                left.push(self.lru.remove(0));
            }
        }
        self.lru.push(handle);
        let linux_hit = self.linux.residents().contains(&handle);
        if linux_hit {
            self.linux.hit(handle);
        } else {
            let held = |linux: &Linux| linux.residents().len();
            let room = room.max(held(&self.linux).saturating_sub(1));
            self.linux.resize(room as u32);
            for _ in 0..2 {
                if held(&self.linux) >= room {
                    left.extend(give_up(&mut self.linux));
                }
            }
            self.linux.insert(handle);
        }
        self.left(&left);
        if lru_hit == linux_hit {
            return;
        }
        if lru_hit == self.follows_lru {
            self.lead = self.lead.saturating_sub(3);
            return;
        }
        self.lead += 2;
        if self.lead > 2 * (self.frames as f64 * self.share) as usize {
            self.lead = 0;
            self.follows_lru = !self.follows_lru;
            let extra = self.resident.iter().copied().filter(|&handle| !self.is_followed(handle));
            self.extra = extra.collect();
        }
    }

    /// What left one of the two is extra in the cache, or forgotten soon.
    fn left(&mut self, left: &[Handle]) {
        let known = self.known();
        for &handle in left {
            if self.extra.contains(&handle) || self.doubtful.contains(&handle) {
                continue;
            }
            if self.resident.contains(&handle) && !self.is_followed(handle) {
                self.extra.push(handle);
            } else if !self.resident.contains(&handle) && !known.contains(&handle) {
                self.doubtful.push(handle);
            }
        }
    }

    fn forget(&mut self) {
        self.doubtful.drain(..self.doubtful.len().min(4));
    }
}

impl Twin for Duel {
    fn hit(&mut self, handle: Handle) {
        self.refer(handle);
        self.forget();
        drop_from(&mut self.resident, handle);
        self.resident.push(handle);
    }

    fn miss(&mut self, handle: Handle) {
        self.refer(handle);
        self.forget();
        self.missed = Some(handle);
    }

    fn insert(&mut self, handle: Handle) {
        if self.missed.take() != Some(handle) {
            self.refer(handle);
            self.forget();
        }
        self.resident.push(handle);
        if !self.is_followed(handle) {
            self.extra.push(handle);
        }
    }

    fn evict(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let free = |handles: &[Handle]| handles.iter().copied().find(|&handle| !pinned(handle));
        let mut victim = free(&self.extra);
        for _ in 0..2 {
            if victim.is_none() {
                let left = match self.follows_lru {
                    true => self.lru.drain(..self.lru.len().min(1)).collect(),
                    false => give_up(&mut self.linux),
                };
                self.left(&left);
                victim = free(&self.extra);
            }
        }
        self.forget();
        let victim = victim.or_else(|| free(&self.resident))?;
        drop_from(&mut self.resident, victim);
        drop_from(&mut self.extra, victim);
        Some(victim)
    }

    fn remove(&mut self, handle: Handle) {
        for handles in [&mut self.resident, &mut self.extra, &mut self.doubtful, &mut self.lru] {
            drop_from(handles, handle);
        }
        self.linux.remove(handle);
        self.missed = self.missed.filter(|&missed| missed != handle);
    }

    fn resize(&mut self, frames: u32) {
        self.frames = frames as usize;
        self.lead = self.lead.min(2 * (f64::from(frames) * self.share) as usize);
    }

    fn residents(&self) -> Vec<Handle> {
        self.resident.clone()
    }

    fn ghosts(&self) -> Vec<Handle> {
        let mut ghosts = self.known();
        ghosts.extend(&self.doubtful);
        ghosts.retain(|handle| !self.resident.contains(handle));
        ghosts.sort_unstable();
        ghosts.dedup();
        ghosts
    }
}

#[test]
fn duel() {
    let twin = |frames: u32, share| Duel {
        share,
        frames: frames as usize,
        lru: Vec::new(),
        linux: linux_twin(frames, 0, 1, 0),
        follows_lru: false,
        lead: 0,
        resident: Vec::new(),
        extra: Vec::new(),
        doubtful: Vec::new(),
        missed: None,
    };
    check("duel", |frames| twin(frames, 0.125));
    check("duel:lead=0", |frames| twin(frames, 0.0));
    check("duel:lead=1", |frames| twin(frames, 1.0));
}
