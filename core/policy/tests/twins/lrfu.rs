//! LRFU from its definition: all reference times of each block, and the sum over them whenever it
//! is needed.

use pantler_policy::Handle;

use crate::harness::{Twin, check};

struct Lrfu {
    lambda: f64,
    now: u32,
    blocks: Vec<(Handle, Vec<u32>)>,
}

impl Lrfu {
    fn value(&self, times: &[u32]) -> f64 {
        times.iter().map(|&time| 0.5f64.powf(self.lambda * f64::from(self.now - time))).sum()
    }
}

impl Twin for Lrfu {
    fn hit(&mut self, handle: Handle) {
        self.now += 1;
        let block = self.blocks.iter_mut().find(|(other, _)| *other == handle).expect("resident");
        block.1.push(self.now);
    }

    fn insert(&mut self, handle: Handle) {
        self.now += 1;
        self.blocks.push((handle, vec![self.now]));
    }

    fn evict(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let free = self.blocks.iter().filter(|(handle, _)| !pinned(*handle));
        let order = |times: &[u32]| (self.value(times), times.last().copied());
        let victim = free.min_by(|a, b| order(&a.1).partial_cmp(&order(&b.1)).expect("numbers"))?.0;
        self.remove(victim);
        Some(victim)
    }

    fn remove(&mut self, handle: Handle) {
        self.blocks.retain(|(other, _)| *other != handle);
    }

    fn residents(&self) -> Vec<Handle> {
        self.blocks.iter().map(|(handle, _)| *handle).collect()
    }
}

fn twin(lambda: f64) -> Lrfu {
    Lrfu { lambda, now: 0, blocks: Vec::new() }
}

#[test]
fn lrfu() {
    check("lrfu", |_| twin(0.001));
    check("lrfu:lambda=0.1", |_| twin(0.1));
    check("lrfu:lambda=0", |_| twin(0.0));
}
