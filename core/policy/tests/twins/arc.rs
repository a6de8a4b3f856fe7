//! ARC from figure 4 of its paper: one vector of all handles known, each with its list.

use pantler_policy::Handle;

use crate::harness::{Twin, check};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Which {
    T1,
    T2,
    B1,
    B2,
}
use Which::{B1, B2, T1, T2};

struct Arc {
    c: usize,
    p: f64,
    /// In the order in which they came to their lists.
    known: Vec<(Handle, Which)>,
    in_b2: bool,
}

impl Arc {
    fn size(&self, which: Which) -> usize {
        self.known.iter().filter(|(_, list)| *list == which).count()
    }

    fn list_of(&self, handle: Handle) -> Option<Which> {
        self.known.iter().find(|(other, _)| *other == handle).map(|(_, list)| *list)
    }

    fn put(&mut self, handle: Handle, list: Which) {
        self.remove(handle);
        self.known.push((handle, list));
    }

    fn drop_oldest(&mut self, which: Which) {
        if let Some(at) = self.known.iter().position(|(_, list)| *list == which) {
            self.known.remove(at);
        }
    }

    /// One ghost at most.
    fn trim(&mut self) {
        let l1 = self.size(T1) + self.size(B1);
        if l1 > self.c && self.size(B1) > 0 {
            self.drop_oldest(B1);
        } else if self.known.len() > 2 * self.c {
            self.drop_oldest(B2);
        }
    }

    fn all(&self, lists: [Which; 2]) -> Vec<Handle> {
        self.known.iter().filter(|(_, list)| lists.contains(list)).map(|(handle, _)| *handle).collect()
    }
}

impl Twin for Arc {
    fn hit(&mut self, handle: Handle) {
        self.put(handle, T2);
    }

    fn miss(&mut self, handle: Handle) {
        let (b1, b2) = (self.size(B1) as f64, self.size(B2) as f64);
        let list = self.list_of(handle);
        if list == Some(B1) {
            self.p = (self.c as f64).min(self.p + if b1 >= b2 { 1.0 } else { b2 / b1 });
        }
        if list == Some(B2) {
            self.p = 0f64.max(self.p - if b2 >= b1 { 1.0 } else { b1 / b2 });
        }
        self.in_b2 = list == Some(B2);
    }

    fn insert(&mut self, handle: Handle) {
        let list = if self.list_of(handle).is_some() { T2 } else { T1 };
        self.put(handle, list);
        self.in_b2 = false;
        self.trim();
    }

    fn evict(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let t1 = self.size(T1) as f64;
        let from_t1 = t1 >= 1.0 && ((self.in_b2 && t1 == self.p) || t1 > self.p);
        let order = if from_t1 { [(T1, B1), (T2, B2)] } else { [(T2, B2), (T1, B1)] };
        for (list, ghosts) in order {
            let found = self.known.iter().find(|(handle, which)| *which == list && !pinned(*handle));
            if let Some(&(victim, _)) = found {
                self.put(victim, ghosts);
                self.trim();
                return Some(victim);
            }
        }
        None
    }

    fn remove(&mut self, handle: Handle) {
        self.known.retain(|(other, _)| *other != handle);
    }

    fn resize(&mut self, frames: u32) {
        self.c = frames as usize;
        self.p = self.p.min(self.c as f64);
    }

    fn residents(&self) -> Vec<Handle> {
        self.all([T1, T2])
    }

    fn ghosts(&self) -> Vec<Handle> {
        self.all([B1, B2])
    }
}

#[test]
fn arc() {
    check("arc", |frames| Arc { c: frames as usize, p: 0.0, known: Vec::new(), in_b2: false });
}
