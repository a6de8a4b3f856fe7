//! MQ from its paper: a vector of residents, each with its queue, its count and the end of its
//! life.

use pantler_policy::Handle;

use crate::harness::{Twin, check};

#[derive(Clone, Copy)]
struct Block {
    handle: Handle,
    queue: u32,
    count: u32,
    end: f64,
}

struct Mq {
    queues: u32,
    life: f64,
    out: f64,
    frames: u32,
    now: f64,
    /// Those of one queue stand in its order.
    resident: Vec<Block>,
    ghosts: Vec<(Handle, u32)>,
}

impl Mq {
    fn reference(&mut self, handle: Handle, count: u32) {
        self.now += 1.0;
        let end = self.now + self.life();
        let queue = f64::from(count).log2().floor() as u32;
        self.resident.push(Block { handle, queue: queue.min(self.queues - 1), count, end });
        for queue in 1..self.queues {
            let front = self.resident.iter().position(|block| block.queue == queue);
            if let Some(at) = front.filter(|&at| self.resident[at].end < self.now) {
                let block = self.resident.remove(at);
                self.resident.push(Block { queue: queue - 1, end: self.now + self.life(), ..block });
            }
        }
    }

    fn life(&self) -> f64 {
        (f64::from(self.frames) * self.life).floor()
    }
}

impl Twin for Mq {
    fn hit(&mut self, handle: Handle) {
        let at = self.resident.iter().position(|block| block.handle == handle).expect("resident");
        let count = self.resident.remove(at).count;
        self.reference(handle, count + 1);
    }

    fn insert(&mut self, handle: Handle) {
        let count = self.ghosts.iter().find(|(ghost, _)| *ghost == handle).map_or(0, |(_, count)| *count);
        self.ghosts.retain(|(ghost, _)| *ghost != handle);
        self.reference(handle, count + 1);
    }

    fn evict(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let free = self.resident.iter().filter(|block| !pinned(block.handle));
        // The first of the minima.
        let victim = *free.min_by_key(|block| block.queue)?;
        self.remove(victim.handle);
        self.ghosts.push((victim.handle, victim.count));
        let max = (f64::from(self.frames) * self.out).round() as usize;
        let many = self.ghosts.len().saturating_sub(max).min(4);
        self.ghosts.drain(..many);
        Some(victim.handle)
    }

    fn remove(&mut self, handle: Handle) {
        self.resident.retain(|block| block.handle != handle);
        self.ghosts.retain(|(ghost, _)| *ghost != handle);
    }

    fn resize(&mut self, frames: u32) {
        self.frames = frames;
    }

    fn residents(&self) -> Vec<Handle> {
        self.resident.iter().map(|block| block.handle).collect()
    }

    fn ghosts(&self) -> Vec<Handle> {
        self.ghosts.iter().map(|(ghost, _)| *ghost).collect()
    }
}

fn twin(frames: u32, queues: u32, life: f64, out: f64) -> Mq {
    Mq { queues, life, out, frames, now: 0.0, resident: Vec::new(), ghosts: Vec::new() }
}

#[test]
fn mq() {
    check("mq", |frames| twin(frames, 8, 2.0, 4.0));
    check("mq:queues=3,life=0.5,out=0.5", |frames| twin(frames, 3, 0.5, 0.5));
    check("mq:queues=1,life=0,out=0", |frames| twin(frames, 1, 0.0, 0.0));
}
