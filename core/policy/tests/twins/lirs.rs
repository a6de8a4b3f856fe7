//! LIRS from its paper: S and Q as vectors, and whatever is not in S is far away.

use pantler_policy::Handle;

use crate::harness::{Twin, check};

pub struct Lirs {
    cold_share: f64,
    ghost_share: f64,
    ghosts_least: usize,
    frames: u32,
    /// From the bottom to the top.
    s: Vec<Handle>,
    /// From the front to the end.
    q: Vec<Handle>,
    lir: Vec<Handle>,
    /// By time of eviction.
    ghosts: Vec<Handle>,
    last: Option<Handle>,
}

fn without(handles: &mut Vec<Handle>, handle: Handle) -> bool {
    let before = handles.len();
    handles.retain(|other| *other != handle);
    before != handles.len()
}

impl Lirs {
    fn lir_max(&self) -> usize {
        let cold = match self.frames {
            1 | 2 => 1,
            frames => ((f64::from(frames) * self.cold_share) as u32).max(2).min(frames - 1),
        };
        (self.frames - cold) as usize
    }

    /// Stack pruning: the bottom of S is LIR; ghosts are known by being in S.
    fn prune(&mut self) {
        let keep = self.s.iter().position(|handle| self.lir.contains(handle)).unwrap_or(self.s.len());
        self.s.drain(..keep);
        let s = &self.s;
        self.ghosts.retain(|handle| s.contains(handle));
    }

    fn raise(&mut self, handle: Handle) -> bool {
        let was_in = without(&mut self.s, handle);
        self.s.push(handle);
        was_in
    }

    fn make_lir(&mut self, handle: Handle) {
        without(&mut self.q, handle);
        self.lir.push(handle);
        self.bound_lir();
    }

    fn bound_lir(&mut self) {
        while self.lir.len() > self.lir_max() {
            let bottom = *self.s.iter().find(|handle| self.lir.contains(handle)).expect("LIR is in S");
            without(&mut self.s, bottom);
            without(&mut self.lir, bottom);
            self.q.push(bottom);
        }
        self.prune();
    }
}

impl Twin for Lirs {
    fn hit(&mut self, handle: Handle) {
        if self.last == Some(handle) {
            return;
        }
        self.last = Some(handle);
        let was_in = self.raise(handle);
        if !self.lir.contains(&handle) {
            without(&mut self.q, handle);
            if was_in {
                self.make_lir(handle);
            } else {
                self.q.push(handle);
            }
        }
        self.prune();
    }

    fn insert(&mut self, handle: Handle) {
        self.last = Some(handle);
        without(&mut self.ghosts, handle);
        let was_in = self.raise(handle);
        if was_in || self.lir.len() < self.lir_max() {
            self.make_lir(handle);
        } else {
            self.q.push(handle);
        }
        self.prune();
    }

    fn evict(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        if let Some(at) = self.q.iter().position(|handle| !pinned(*handle)) {
            let victim = self.q.remove(at);
            if self.s.contains(&victim) {
                self.ghosts.push(victim);
                let share = (f64::from(self.frames) * self.ghost_share) as usize;
                let max = share.max(self.ghosts_least);
                let many = self.ghosts.len().saturating_sub(max);
                let s = &mut self.s;
                self.ghosts.drain(..many).for_each(|ghost| assert!(without(s, ghost)));
            }
            return Some(victim);
        }
        let victim = *self.s.iter().find(|handle| self.lir.contains(handle) && !pinned(**handle))?;
        self.remove(victim);
        Some(victim)
    }

    fn remove(&mut self, handle: Handle) {
        for list in [&mut self.s, &mut self.q, &mut self.lir, &mut self.ghosts] {
            without(list, handle);
        }
        self.prune();
    }

    fn resize(&mut self, frames: u32) {
        self.frames = frames;
        self.bound_lir();
    }

    fn residents(&self) -> Vec<Handle> {
        self.lir.iter().chain(&self.q).copied().collect()
    }

    fn ghosts(&self) -> Vec<Handle> {
        self.ghosts.clone()
    }
}

pub fn twin(frames: u32, cold_share: f64, ghost_share: f64, ghosts_least: usize) -> Lirs {
    let empty = Vec::new;
    Lirs {
        cold_share,
        ghost_share,
        ghosts_least,
        frames,
        s: empty(),
        q: empty(),
        lir: empty(),
        ghosts: empty(),
        last: None,
    }
}

#[test]
fn lirs() {
    check("lirs", |frames| twin(frames, 0.01, 3.0, 1_000_000));
    check("lirs:ghosts=0.5,least=0", |frames| twin(frames, 0.01, 0.5, 0));
    check("lirs:cold=0.6,ghosts=1,least=2", |frames| twin(frames, 0.6, 1.0, 2));
}
