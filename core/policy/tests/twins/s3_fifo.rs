//! S3-FIFO.

use std::collections::VecDeque;

use pantler_policy::Handle;

use crate::harness::{Twin, check};

pub struct S3Fifo {
    small: VecDeque<(Handle, u8)>,
    main: VecDeque<(Handle, u8)>,
    ghosts: VecDeque<Handle>,
    /// Ghosts that were missed, and are about to come back.
    returning: Vec<Handle>,
    small_max: usize,
    ghosts_max: usize,
    shares: (f64, f64),
    threshold: u8,
    fill: bool,
}

impl S3Fifo {
    pub fn new(frames: u32, small: f64, ghosts: f64, threshold: u8, fill: bool) -> Self {
        let mut new = S3Fifo {
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghosts: VecDeque::new(),
            returning: Vec::new(),
            small_max: 0,
            ghosts_max: 0,
            shares: (small, ghosts),
            threshold,
            fill,
        };
        new.resize(frames);
        new
    }

    fn evict_small(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        loop {
            let at = self.small.iter().position(|block| !pinned(block.0))?;
            let (handle, count) = self.small.remove(at).expect("it was found");
            if count >= self.threshold {
                self.main.push_back((handle, 0));
                continue;
            }
            self.ghosts.push_back(handle);
            let many = self.ghosts.len().saturating_sub(self.ghosts_max).min(4);
            self.ghosts.drain(..many);
            return Some(handle);
        }
    }

    fn evict_main(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        loop {
            let at = self.main.iter().position(|block| !pinned(block.0))?;
            let (handle, count) = self.main.remove(at).expect("it was found");
            if count == 0 {
                return Some(handle);
            }
            self.main.push_back((handle, count - 1));
        }
    }
}

impl Twin for S3Fifo {
    fn hit(&mut self, handle: Handle) {
        let mut blocks = self.small.iter_mut().chain(&mut self.main);
        let block = blocks.find(|block| block.0 == handle).expect("resident");
        block.1 = (block.1 + 1).min(3);
    }

    fn miss(&mut self, handle: Handle) {
        if self.ghosts.contains(&handle) {
            self.ghosts.retain(|ghost| *ghost != handle);
            self.returning.push(handle);
        }
    }

    fn insert(&mut self, handle: Handle) {
        if self.ghosts().contains(&handle) {
            self.remove(handle);
            self.main.push_back((handle, 0));
        } else if self.fill && self.small.len() >= self.small_max {
            self.main.push_back((handle, 0));
        } else {
            self.small.push_back((handle, 0));
        }
    }

    fn evict(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        self.fill = false;
        let from_main = if self.small.len() < self.small_max { self.evict_main(pinned) } else { None };
        from_main.or_else(|| self.evict_small(pinned)).or_else(|| self.evict_main(pinned))
    }

    fn remove(&mut self, handle: Handle) {
        self.small.retain(|block| block.0 != handle);
        self.main.retain(|block| block.0 != handle);
        self.ghosts.retain(|ghost| *ghost != handle);
        self.returning.retain(|ghost| *ghost != handle);
    }

    fn resize(&mut self, frames: u32) {
        self.small_max = ((f64::from(frames) * self.shares.0) as usize).max(1);
        self.ghosts_max = (f64::from(frames) * self.shares.1) as usize;
    }

    fn residents(&self) -> Vec<Handle> {
        self.small.iter().chain(&self.main).map(|block| block.0).collect()
    }

    fn ghosts(&self) -> Vec<Handle> {
        self.ghosts.iter().chain(&self.returning).copied().collect()
    }
}

#[test]
fn s3_fifo() {
    check("s3-fifo", |frames| S3Fifo::new(frames, 0.1, 0.9, 2, true));
    check("s3-fifo:fill=false", |frames| S3Fifo::new(frames, 0.1, 0.9, 2, false));
    check("s3-fifo:small=0.5,ghosts=1.5,threshold=1", |frames| S3Fifo::new(frames, 0.5, 1.5, 1, true));
    check("s3-fifo:small=0.3,ghosts=0,fill=false", |frames| S3Fifo::new(frames, 0.3, 0.0, 2, false));
}
