//! Policies of several lists without ghosts: SLRU, segmented FIFO, simplified 2Q.

use pantler_policy::Handle;

use crate::harness::{Twin, check};

fn first_free(list: &[Handle], pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
    list.iter().copied().find(|handle| !pinned(*handle))
}

struct Slru {
    /// From the lowest; each from the least to the most recently used.
    segments: Vec<Vec<Handle>>,
    protected: f64,
    max: usize,
}

impl Slru {
    fn new(frames: u32, segments: usize, protected: f64) -> Self {
        let mut new = Slru { segments: vec![Vec::new(); segments], protected, max: 0 };
        new.resize(frames);
        new
    }
}

impl Twin for Slru {
    fn hit(&mut self, handle: Handle) {
        let at = self.segments.iter().position(|list| list.contains(&handle)).expect("resident");
        self.remove(handle);
        let top = self.segments.len() - 1;
        self.segments[(at + 1).min(top)].push(handle);
        self.settle();
    }

    fn insert(&mut self, handle: Handle) {
        self.segments[0].push(handle);
    }

    fn evict(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let victim = self.segments.iter().find_map(|list| first_free(list, pinned))?;
        self.remove(victim);
        Some(victim)
    }

    fn remove(&mut self, handle: Handle) {
        self.segments.iter_mut().for_each(|list| list.retain(|other| *other != handle));
    }

    fn resize(&mut self, frames: u32) {
        self.max = (f64::from(frames) * self.protected) as usize / (self.segments.len() - 1);
        self.settle();
    }

    fn residents(&self) -> Vec<Handle> {
        self.segments.concat()
    }
}

impl Slru {
    fn settle(&mut self) {
        for above in (1..self.segments.len()).rev() {
            while self.segments[above].len() > self.max {
                let falls = self.segments[above].remove(0);
                self.segments[above - 1].push(falls);
            }
        }
    }
}

#[test]
fn slru() {
    check("slru", |frames| Slru::new(frames, 2, 0.8));
    check("slru:segments=4,protected=0.75", |frames| Slru::new(frames, 4, 0.75));
    check("slru:protected=1", |frames| Slru::new(frames, 2, 1.0));
}

struct SegmentedFifo {
    primary: Vec<Handle>,
    secondary: Vec<Handle>,
    share: f64,
    primary_max: usize,
}

impl SegmentedFifo {
    fn new(frames: u32, share: f64) -> Self {
        let mut new = SegmentedFifo { primary: Vec::new(), secondary: Vec::new(), share, primary_max: 0 };
        new.resize(frames);
        new
    }

    fn settle(&mut self) {
        while self.primary.len() > self.primary_max {
            self.secondary.push(self.primary.remove(0));
        }
    }
}

impl Twin for SegmentedFifo {
    fn hit(&mut self, handle: Handle) {
        if self.secondary.contains(&handle) {
            self.remove(handle);
            self.insert(handle);
        }
    }

    fn insert(&mut self, handle: Handle) {
        self.primary.push(handle);
        self.settle();
    }

    fn evict(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let victim = first_free(&self.secondary, pinned).or_else(|| first_free(&self.primary, pinned))?;
        self.remove(victim);
        Some(victim)
    }

    fn remove(&mut self, handle: Handle) {
        self.primary.retain(|other| *other != handle);
        self.secondary.retain(|other| *other != handle);
    }

    fn resize(&mut self, frames: u32) {
        self.primary_max = frames as usize - (f64::from(frames) * self.share) as usize;
        self.settle();
    }

    fn residents(&self) -> Vec<Handle> {
        [&self.primary[..], &self.secondary].concat()
    }
}

#[test]
fn segmented_fifo() {
    check("sfifo", |frames| SegmentedFifo::new(frames, 0.3));
    check("sfifo:secondary=0.5", |frames| SegmentedFifo::new(frames, 0.5));
    check("sfifo:secondary=1", |frames| SegmentedFifo::new(frames, 1.0));
    check("sfifo:secondary=0", |frames| SegmentedFifo::new(frames, 0.0));
}

struct TwoQSimple {
    a1: Vec<Handle>,
    main: Vec<Handle>,
    share: f64,
    a1_max: usize,
}

impl TwoQSimple {
    fn new(frames: u32, share: f64) -> Self {
        let mut new = TwoQSimple { a1: Vec::new(), main: Vec::new(), share, a1_max: 0 };
        new.resize(frames);
        new
    }
}

impl Twin for TwoQSimple {
    fn hit(&mut self, handle: Handle) {
        self.remove(handle);
        self.main.push(handle);
    }

    fn insert(&mut self, handle: Handle) {
        self.a1.push(handle);
    }

    fn evict(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let (first, second) =
            if self.a1.len() > self.a1_max { (&self.a1, &self.main) } else { (&self.main, &self.a1) };
        let victim = first_free(first, pinned).or_else(|| first_free(second, pinned))?;
        self.remove(victim);
        Some(victim)
    }

    fn remove(&mut self, handle: Handle) {
        self.a1.retain(|other| *other != handle);
        self.main.retain(|other| *other != handle);
    }

    fn resize(&mut self, frames: u32) {
        self.a1_max = (f64::from(frames) * self.share) as usize;
    }

    fn residents(&self) -> Vec<Handle> {
        [&self.a1[..], &self.main].concat()
    }
}

#[test]
fn two_q_simple() {
    check("2q-simple", |frames| TwoQSimple::new(frames, 0.25));
    check("2q-simple:a1=0.75", |frames| TwoQSimple::new(frames, 0.75));
}
