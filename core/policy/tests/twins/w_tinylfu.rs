//! W-TinyLFU from its paper: one vector of residents with their regions. The sketch is the policy's
//! own, which has tests beside it.

use pantler_policy::{Handle, Sketch};

use crate::harness::{Twin, check};

#[derive(Clone, Copy, PartialEq)]
enum Region {
    Window,
    Probation,
    Protected,
}
use Region::{Probation, Protected, Window};

struct WTinyLfu {
    window: f64,
    protected: f64,
    frames: u32,
    /// Least recently used first.
    blocks: Vec<(Handle, Region)>,
    sketch: Sketch,
    sample: f64,
}

impl WTinyLfu {
    fn window_max(&self) -> usize {
        ((f64::from(self.frames) * self.window).round() as usize).clamp(1, self.frames as usize)
    }

    fn protected_max(&self) -> usize {
        ((self.frames as usize - self.window_max()) as f64 * self.protected).round() as usize
    }

    fn put(&mut self, handle: Handle, region: Region) {
        self.remove(handle);
        self.blocks.push((handle, region));
    }

    fn settle(&mut self) {
        for (region, max) in [(Protected, self.protected_max()), (Window, self.window_max())] {
            while self.blocks.iter().filter(|(_, other)| *other == region).count() > max {
                let oldest = self.first(region, &|_| false).expect("more than none");
                self.put(oldest, Probation);
            }
        }
    }

    fn first(&self, region: Region, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let mut free = self.blocks.iter().filter(|(handle, other)| *other == region && !pinned(*handle));
        free.next().map(|(handle, _)| *handle)
    }
}

impl Twin for WTinyLfu {
    fn hit(&mut self, handle: Handle) {
        self.sketch.increment(handle);
        let region = self.blocks.iter().find(|(other, _)| *other == handle).expect("resident").1;
        self.put(handle, if region == Window { Window } else { Protected });
        self.settle();
    }

    fn miss(&mut self, handle: Handle) {
        self.sketch.increment(handle);
    }

    fn insert(&mut self, handle: Handle) {
        self.put(handle, Window);
        self.settle();
    }

    fn evict(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let newcomer = self.first(Window, pinned);
        let old = self.first(Probation, pinned).or(self.first(Protected, pinned));
        let full = self.blocks.iter().filter(|(_, region)| *region == Window).count() == self.window_max();
        let victim = match (newcomer, old) {
            (Some(newcomer), Some(old)) if full => {
                if self.sketch.frequency(newcomer) > self.sketch.frequency(old) {
                    self.put(newcomer, Probation);
                    old
                } else {
                    newcomer
                }
            }
            _ => old.or(newcomer)?,
        };
        self.remove(victim);
        Some(victim)
    }

    fn remove(&mut self, handle: Handle) {
        self.blocks.retain(|(other, _)| *other != handle);
    }

    fn resize(&mut self, frames: u32) {
        self.frames = frames;
        let sample = (f64::from(frames) * self.sample) as u64;
        if u64::from(frames) > self.sketch.frames() {
            self.sketch = Sketch::new(frames, sample);
        }
        self.sketch.set_sample(sample);
        self.settle();
    }

    fn residents(&self) -> Vec<Handle> {
        self.blocks.iter().map(|(handle, _)| *handle).collect()
    }
}

fn twin(frames: u32, window: f64, protected: f64, sample: f64) -> WTinyLfu {
    let sketch = Sketch::new(frames, (f64::from(frames) * sample) as u64);
    WTinyLfu { window, protected, frames, blocks: Vec::new(), sketch, sample }
}

#[test]
fn w_tinylfu() {
    check("w-tinylfu", |frames| twin(frames, 0.01, 0.8, 10.0));
    check("w-tinylfu:window=0.3,protected=0.5,sample=3", |frames| twin(frames, 0.3, 0.5, 3.0));
    check("w-tinylfu:window=1,protected=0", |frames| twin(frames, 1.0, 0.0, 10.0));
}
