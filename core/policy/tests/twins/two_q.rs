//! 2Q, the full version.

use pantler_policy::Handle;

use crate::harness::{Twin, check};

pub struct TwoQ {
    input: Vec<Handle>,
    main: Vec<Handle>,
    ghosts: Vec<Handle>,
    /// Ghosts that were missed, and are about to come back.
    returning: Vec<Handle>,
    shares: (f64, f64),
    input_max: usize,
    ghosts_max: usize,
}

impl TwoQ {
    pub fn new(frames: u32, input: f64, output: f64) -> Self {
        let mut new = TwoQ {
            input: Vec::new(),
            main: Vec::new(),
            ghosts: Vec::new(),
            returning: Vec::new(),
            shares: (input, output),
            input_max: 0,
            ghosts_max: 0,
        };
        new.resize(frames);
        new
    }

    fn evict_input(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let at = self.input.iter().position(|handle| !pinned(*handle))?;
        let victim = self.input.remove(at);
        self.ghosts.push(victim);
        let many = self.ghosts.len().saturating_sub(self.ghosts_max).min(4);
        self.ghosts.drain(..many);
        Some(victim)
    }

    fn evict_main(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let at = self.main.iter().position(|handle| !pinned(*handle))?;
        Some(self.main.remove(at))
    }
}

impl Twin for TwoQ {
    fn hit(&mut self, handle: Handle) {
        if self.main.contains(&handle) {
            self.main.retain(|other| *other != handle);
            self.main.push(handle);
        }
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
            self.main.push(handle);
        } else {
            self.input.push(handle);
        }
    }

    fn evict(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        if self.input.len() > self.input_max {
            self.evict_input(pinned).or_else(|| self.evict_main(pinned))
        } else {
            self.evict_main(pinned).or_else(|| self.evict_input(pinned))
        }
    }

    fn remove(&mut self, handle: Handle) {
        for list in [&mut self.input, &mut self.main, &mut self.ghosts, &mut self.returning] {
            list.retain(|other| *other != handle);
        }
    }

    fn resize(&mut self, frames: u32) {
        self.input_max = (f64::from(frames) * self.shares.0) as usize;
        self.ghosts_max = (f64::from(frames) * self.shares.1) as usize;
    }

    fn residents(&self) -> Vec<Handle> {
        [&self.input[..], &self.main].concat()
    }

    fn ghosts(&self) -> Vec<Handle> {
        [&self.ghosts[..], &self.returning].concat()
    }
}

#[test]
fn two_q() {
    check("2q", |frames| TwoQ::new(frames, 0.25, 0.5));
    check("2q:in=0.5,out=2", |frames| TwoQ::new(frames, 0.5, 2.0));
    check("2q:out=0", |frames| TwoQ::new(frames, 0.25, 0.0));
}
