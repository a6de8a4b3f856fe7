//! EELRU from its paper: everything known in one vector, positions counted afresh whenever they
//! matter.

use pantler_policy::Handle;

use crate::harness::{Twin, check};

struct Eelru {
    age: f64,
    frames: usize,
    /// Last referenced first, with residence.
    known: Vec<(Handle, bool)>,
    /// By position, from 1; halved now and then for each range between points, which is how they
    /// are kept there.
    counts: Vec<u32>,
    since: u64,
}

impl Eelru {
    fn points(&self) -> Vec<usize> {
        let frames = self.frames;
        let at = |share: f64| (frames as f64 * share) as usize;
        let early = [0.2, 0.4, 0.6, 0.8].map(at).into_iter().filter(|&point| 0 < point && point < frames);
        let late = [1.25, 1.5, 2.0, 2.5].map(at).into_iter().filter(|&point| point > frames);
        let mut points: Vec<usize> = early.chain([frames]).chain(late).collect();
        points.dedup();
        points
    }

    /// The range between points in which a position lies.
    fn range(&self, position: usize) -> usize {
        self.points().iter().filter(|&&point| point < position).count()
    }

    fn position(&self, handle: Handle) -> Option<usize> {
        self.known.iter().position(|(other, _)| *other == handle).map(|at| at + 1)
    }

    fn reference(&mut self, handle: Handle) {
        let points = self.points();
        self.counts.resize(points.len(), 0);
        if let Some(position) = self.position(handle) {
            let range = self.range(position);
            if range < points.len() {
                self.counts[range] += 1;
            }
        }
        self.since += 1;
        if self.since >= (self.frames as f64 * self.age) as u64 {
            self.since = 0;
            self.counts.iter_mut().for_each(|count| *count /= 2);
        }
        self.remove(handle);
        self.known.insert(0, (handle, true));
    }

    /// Position and range of an early eviction.
    fn early(&self) -> Option<(usize, usize)> {
        let points = self.points();
        let upto = |point: usize| {
            let ranges = points.iter().take_while(|&&other| other <= point).count();
            self.counts.iter().take(ranges).sum::<u32>()
        };
        let m = self.frames;
        let mut most = f64::from(upto(m));
        let mut best = None;
        for &e in points.iter().filter(|&&point| point < m) {
            for &l in points.iter().filter(|&&point| point > m) {
                let share = (m - e) as f64 / (l - e) as f64;
                let got = f64::from(upto(e)) + f64::from(upto(l) - upto(e)) * share;
                if got > most {
                    most = got;
                    best = Some((e, l));
                }
            }
        }
        best
    }
}

impl Twin for Eelru {
    fn hit(&mut self, handle: Handle) {
        self.reference(handle);
    }

    fn insert(&mut self, handle: Handle) {
        self.reference(handle);
        let last = self.points().last().copied().expect("the frames");
        for _ in 0..4 {
            if self.known.len() > last && self.known.last().is_some_and(|(_, resident)| !resident) {
                self.known.pop();
            }
        }
    }

    fn evict(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let free = |at: &usize| self.known[*at].1 && !pinned(self.known[*at].0);
        let oldest = (0..self.known.len()).rev().find(free)?;
        let mut victim = oldest;
        let early = self.early().filter(|&(e, l)| oldest < l && e <= self.known.len());
        if let Some((e, _)) = early {
            let mut looks = e - 1..self.known.len().min(e - 1 + 32);
            victim = looks.find(free).unwrap_or(oldest);
        }
        self.known[victim].1 = false;
        Some(self.known[victim].0)
    }

    fn remove(&mut self, handle: Handle) {
        self.known.retain(|(other, _)| *other != handle);
    }

    fn resize(&mut self, frames: u32) {
        self.frames = frames as usize;
        self.counts.clear();
    }

    fn residents(&self) -> Vec<Handle> {
        self.known.iter().filter(|(_, resident)| *resident).map(|(handle, _)| *handle).collect()
    }

    fn ghosts(&self) -> Vec<Handle> {
        self.known.iter().filter(|(_, resident)| !resident).map(|(handle, _)| *handle).collect()
    }
}

fn twin(frames: u32, age: f64) -> Eelru {
    Eelru { age, frames: frames as usize, known: Vec::new(), counts: Vec::new(), since: 0 }
}

#[test]
fn eelru() {
    check("eelru", |frames| twin(frames, 4.0));
    check("eelru:age=30", |frames| twin(frames, 30.0));
}
