//! CAR from figure 2 of its paper: four vectors, and the set of handles with a set bit.

use pantler_policy::Handle;

use crate::harness::{Twin, check};

#[derive(Default)]
struct Car {
    c: usize,
    p: f64,
    t1: Vec<Handle>,
    t2: Vec<Handle>,
    b1: Vec<Handle>,
    b2: Vec<Handle>,
    bits: Vec<Handle>,
}

impl Car {
    fn trim(&mut self) {
        if self.t1.len() + self.b1.len() > self.c && !self.b1.is_empty() {
            self.b1.remove(0);
        } else if self.residents().len() + self.b1.len() + self.b2.len() > 2 * self.c && !self.b2.is_empty() {
            self.b2.remove(0);
        }
    }
}

impl Twin for Car {
    fn hit(&mut self, handle: Handle) {
        self.bits.push(handle);
    }

    fn insert(&mut self, handle: Handle) {
        let (b1, b2) = (self.b1.len() as f64, self.b2.len() as f64);
        if self.b1.contains(&handle) {
            self.p = (self.p + 1f64.max(b2 / b1)).min(self.c as f64);
        } else if self.b2.contains(&handle) {
            self.p = (self.p - 1f64.max(b1 / b2)).max(0.0);
        }
        let known = self.ghosts().contains(&handle);
        self.remove(handle);
        if known {
            self.t2.push(handle)
        } else {
            self.t1.push(handle)
        }
        self.trim();
    }

    fn evict(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        loop {
            let free = |list: &[Handle]| list.iter().copied().find(|handle| !pinned(*handle));
            let (one, two) = (free(&self.t1), free(&self.t2));
            let t1_first = self.t1.len() as f64 >= 1f64.max(self.p);
            let from_t1 = (t1_first && one.is_some()) || two.is_none();
            let handle = if from_t1 { one? } else { two? };
            let bit = self.bits.contains(&handle);
            self.remove(handle);
            match (bit, from_t1) {
                (true, _) => self.t2.push(handle),
                (false, true) => self.b1.push(handle),
                (false, false) => self.b2.push(handle),
            }
            if !bit {
                self.trim();
                return Some(handle);
            }
        }
    }

    fn remove(&mut self, handle: Handle) {
        for list in [&mut self.t1, &mut self.t2, &mut self.b1, &mut self.b2, &mut self.bits] {
            list.retain(|other| *other != handle);
        }
    }

    fn resize(&mut self, frames: u32) {
        self.c = frames as usize;
        self.p = self.p.min(self.c as f64);
    }

    fn residents(&self) -> Vec<Handle> {
        [self.t1.clone(), self.t2.clone()].concat()
    }

    fn ghosts(&self) -> Vec<Handle> {
        [self.b1.clone(), self.b2.clone()].concat()
    }
}

#[test]
fn car() {
    check("car", |frames| Car { c: frames as usize, ..Car::default() });
}
