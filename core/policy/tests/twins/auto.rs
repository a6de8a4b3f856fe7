//! `auto` over naive twins: each contender sees the sample, and the cache takes the order of one.

use pantler_policy::Handle;

use crate::harness::{Twin, check};
use crate::lirs::twin as lirs;
use crate::lists::Order;
use crate::s3_fifo::S3Fifo;
use crate::two_q::TwoQ;

const LRU: usize = 0;
const S3_FIFO: usize = 3;

fn contender(number: usize, frames: u32) -> Box<dyn Twin> {
    match number {
        0 => Box::new(Order::new(true, false)),
        1 => Box::new(Order::new(true, true)),
        2 => Box::new(TwoQ::new(frames, 0.25, 0.5)),
        3 => Box::new(S3Fifo::new(frames, 0.1, 0.9, 2, true)),
        _ => Box::new(lirs(frames, 0.01, 3.0, 0)),
    }
}

struct Auto {
    sample: u32,
    share: f64,
    frames: u32,
    /// From the least to the most recently used.
    recency: Vec<Handle>,
    order: Box<dyn Twin>,
    one_in: u32,
    trials: Vec<Box<dyn Twin>>,
    followed: usize,
    /// Of each contender: by how many misses it is ahead, and of how many differences.
    leads: Vec<(f64, u32)>,
    doubled: u32,
    calm: usize,
    gain: i64,
}

impl Auto {
    fn new(frames: u32, sample: u32, share: f64) -> Self {
        let mut new = Self {
            sample,
            share,
            frames,
            recency: Vec::new(),
            order: contender(S3_FIFO, frames),
            one_in: 1,
            trials: (0..5).map(|number| contender(number, 1)).collect(),
            followed: S3_FIFO,
            leads: vec![(0.0, 0); 5],
            doubled: 0,
            calm: 0,
            gain: 0,
        };
        new.resize(frames);
        new
    }

    /// The fraction of the handle times the golden ratio is below that of the sample.
    fn is_sampled(&self, handle: Handle) -> bool {
        let part = u64::from(handle) * 0x9e37_79b9 % (1 << 32);
        part * u64::from(self.one_in) < 1 << 32
    }

    fn held(&self) -> usize {
        self.recency.iter().filter(|handle| self.is_sampled(**handle)).count()
    }

    /// Which contenders hit.
    fn try_all(&mut self, handle: Handle) -> Vec<bool> {
        let held = self.held();
        let refer = |trial: &mut Box<dyn Twin>| {
            if trial.residents().contains(&handle) {
                trial.hit(handle);
                return true;
            }
            trial.miss(handle);
            trial.resize(held as u32);
            while trial.residents().len() >= held && trial.evict(&|_| false).is_some() {}
            trial.insert(handle);
            false
        };
        self.trials.iter_mut().map(refer).collect()
    }

    fn refer(&mut self, handle: Handle, hit: bool) {
        if !self.is_sampled(handle) {
            return;
        }
        let held = self.held();
        let hits = self.try_all(handle);
        let value = |hit: bool| f64::from(u8::from(hit));
        for number in 0..5 {
            let cache_counts = number == LRU && self.followed != LRU;
            let than = if cache_counts { hit } else { hits[self.followed] };
            let (lead, differences) = &mut self.leads[number];
            *lead += value(hits[number]) - value(than) - value(!than) / 64.0;
            *differences += u32::from(hits[number] != than);
            if *lead <= 0.0 {
                self.leads[number] = (0.0, 0);
            }
        }
        self.gain += i64::from(hit) - i64::from(hits[LRU]);
        if self.followed == LRU && self.gain < 0 {
            self.gain = 0;
        }
        self.calm += 1;
        if self.calm > 32 * held {
            self.calm = 0;
            self.doubled = self.doubled.saturating_sub(1);
        }
        self.choose(held as f64);
    }

    fn choose(&mut self, held: f64) {
        let mut best: Option<usize> = None;
        for (number, &(lead, differences)) in self.leads.iter().enumerate() {
            let mut asked = self.share * held;
            if number == LRU {
                asked += (self.gain as f64 / 2.0).max(0.0);
            } else {
                (0..self.doubled).for_each(|_| asked *= 2.0);
            }
            let by_chance = 2.0 * f64::from(differences).sqrt();
            let is_ahead = lead - asked.min(held) > by_chance;
            if is_ahead && best.is_none_or(|best| lead >= self.leads[best].0) {
                best = Some(number);
            }
        }
        if let Some(best) = best {
            self.followed = best;
            self.leads = vec![(0.0, 0); 5];
            self.doubled = (self.doubled + 1).min(8);
            self.calm = 0;
            self.order = contender(best, self.frames);
            self.recency.iter().for_each(|&handle| self.order.insert(handle));
        }
    }

    fn drop_from_recency(&mut self, handle: Handle) {
        self.recency.retain(|other| *other != handle);
    }
}

impl Twin for Auto {
    fn hit(&mut self, handle: Handle) {
        self.drop_from_recency(handle);
        self.recency.push(handle);
        self.order.hit(handle);
        self.refer(handle, true);
    }

    fn miss(&mut self, handle: Handle) {
        self.drop_from_recency(handle);
        self.order.miss(handle);
    }

    fn insert(&mut self, handle: Handle) {
        self.drop_from_recency(handle);
        self.recency.push(handle);
        self.order.insert(handle);
        self.refer(handle, false);
    }

    fn evict(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let victim = self.order.evict(pinned)?;
        self.drop_from_recency(victim);
        Some(victim)
    }

    fn remove(&mut self, handle: Handle) {
        self.drop_from_recency(handle);
        self.order.remove(handle);
        self.trials.iter_mut().for_each(|trial| trial.remove(handle));
    }

    fn resize(&mut self, frames: u32) {
        self.frames = frames;
        self.order.resize(frames);
        let (before, mut wanted) = (self.one_in, 1);
        while frames / wanted > self.sample {
            wanted *= 2;
        }
        if wanted > before {
            self.one_in = wanted;
            for handle in (0..64).filter(|&handle| !self.is_sampled(handle)).collect::<Vec<_>>() {
                self.trials.iter_mut().for_each(|trial| trial.remove(handle));
            }
            self.gain = self.gain.div_euclid(i64::from(wanted / before));
            self.leads = vec![(0.0, 0); 5];
        } else if wanted * 4 <= before {
            self.one_in = wanted;
            self.gain *= i64::from(before / wanted);
            self.leads = vec![(0.0, 0); 5];
            self.trials = (0..5).map(|number| contender(number, 1)).collect();
            let sampled = self.recency.clone().into_iter().filter(|&handle| self.is_sampled(handle));
            for handle in sampled.collect::<Vec<_>>() {
                self.try_all(handle);
            }
        }
    }

    fn residents(&self) -> Vec<Handle> {
        self.recency.clone()
    }

    fn ghosts(&self) -> Vec<Handle> {
        self.order.ghosts()
    }
}

#[test]
fn auto() {
    check("auto", |frames| Auto::new(frames, 1024, 0.0625));
    check("auto:lead=0", |frames| Auto::new(frames, 1024, 0.0));
    check("auto:sample=3,lead=0", |frames| Auto::new(frames, 3, 0.0));
}
