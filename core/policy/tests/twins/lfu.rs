//! LFU in the cache, perfect and aged; MFU.

use pantler_policy::Handle;

use crate::harness::{Twin, check};

#[derive(Default)]
struct Lfu {
    /// Handle, count, and when it was last referenced; in order of halving and reference.
    blocks: Vec<(Handle, u32, u64)>,
    remembered: Option<Vec<(Handle, u32)>>,
    most: bool,
    now: u64,
    /// References per frame between halvings, references per halving, references since the last.
    every: Option<f64>,
    period: u64,
    left: u64,
}

impl Lfu {
    fn aged(every: f64, frames: u32) -> Self {
        let period = ((f64::from(frames) * every) as u64).max(1);
        Lfu { every: Some(every), period, left: period, ..Lfu::default() }
    }

    fn count_reference(&mut self) {
        if self.every.is_some() {
            self.left -= 1;
            if self.left == 0 {
                self.left = self.period;
                // Equal counts afterwards: lower counts before count as referenced longer ago.
                self.blocks.sort_by_key(|&(_, count, time)| (count, time));
                for block in &mut self.blocks {
                    self.now += 1;
                    *block = (block.0, block.1 / 2, self.now);
                }
            }
        }
    }
}

impl Twin for Lfu {
    fn hit(&mut self, handle: Handle) {
        self.now += 1;
        let block = self.blocks.iter_mut().find(|block| block.0 == handle).expect("resident");
        *block = (handle, block.1 + 1, self.now);
        self.count_reference();
    }

    fn miss(&mut self, _handle: Handle) {
        self.count_reference();
    }

    fn insert(&mut self, handle: Handle) {
        self.now += 1;
        let known = self.remembered.iter().flatten().find(|block| block.0 == handle);
        self.blocks.push((handle, known.map_or(0, |block| block.1) + 1, self.now));
        self.remembered.iter_mut().for_each(|blocks| blocks.retain(|block| block.0 != handle));
    }

    fn evict(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let most = self.most;
        let free = self.blocks.iter().filter(|block| !pinned(block.0));
        let victim = *free.min_by_key(|block| (if most { u32::MAX - block.1 } else { block.1 }, block.2))?;
        self.blocks.retain(|block| block.0 != victim.0);
        self.remembered.iter_mut().for_each(|blocks| blocks.push((victim.0, victim.1)));
        Some(victim.0)
    }

    fn remove(&mut self, handle: Handle) {
        self.blocks.retain(|block| block.0 != handle);
        self.remembered.iter_mut().for_each(|blocks| blocks.retain(|block| block.0 != handle));
    }

    fn resize(&mut self, frames: u32) {
        if let Some(every) = self.every {
            self.period = ((f64::from(frames) * every) as u64).max(1);
            self.left = self.left.min(self.period);
        }
    }

    fn residents(&self) -> Vec<Handle> {
        self.blocks.iter().map(|block| block.0).collect()
    }

    fn ghosts(&self) -> Vec<Handle> {
        self.remembered.iter().flatten().map(|block| block.0).collect()
    }
}

#[test]
fn lfu() {
    check("lfu", |_| Lfu::default());
}

#[test]
fn mfu() {
    check("mfu", |_| Lfu { most: true, ..Lfu::default() });
}

#[test]
fn lfu_perfect() {
    check("lfu-perfect", |_| Lfu { remembered: Some(Vec::new()), ..Lfu::default() });
}

#[test]
fn lfu_aged() {
    check("lfu-aged", |frames| Lfu::aged(10.0, frames));
    check("lfu-aged:every=1.5", |frames| Lfu::aged(1.5, frames));
    check("lfu-aged:every=0.01", |frames| Lfu::aged(0.01, frames));
}
