//! What could be kept at best: the SURGE-like load as references to pages, by policies and by
//! oracles.
//!
//! Simulated, not measured: no server, no disk. Requests are independent of each other, so without
//! knowing the future no policy misses less than one that is told how popular each file is.

use super::load::{Plan, Popularity, Random};
use pantler_policy::min::{Min, NEVER, Reference};
use pantler_policy::{Demand, Handle, PolicyName, Replacement};
use std::collections::HashMap;
use std::ops::Range;

/// What the page cache holds, in pages: 63 and 82 MB.
const FRAMES: [u32; 2] = [15_400, 20_000];
/// Requests, and the parts of them that are counted: about what a short run counts after its
/// warm-up, and later.
const REQUESTS: usize = 200_000;
const PARTS: [Range<usize>; 2] = [12_000..44_000, 75_000..REQUESTS];
/// Under a load that changes, popularity stays for this many requests; then one file in ten
/// changes places with another.
const STEADY: usize = 20_000;
const BLOCK_BYTES: u64 = 4096;

/// Requests, as numbers of files, and the first page of each file.
struct Trace {
    requests: Vec<u32>,
    first: Vec<u32>,
    by_rank: Vec<u32>,
}

impl Trace {
    fn new(plan: &Plan, zipf: f64, changes: bool) -> Self {
        let mut first = vec![0];
        for size in plan.sizes() {
            first.push(first[first.len() - 1] + size.div_ceil(BLOCK_BYTES) as u32);
        }
        let popularity = Popularity::new(plan.files, zipf, plan.seed);
        let mut random = Random::new(7);
        let mut places: Vec<u32> = (0..plan.files).collect();
        let requests = (0..REQUESTS).map(|at| {
            if changes && at > 0 && at % STEADY == 0 {
                for _ in 0..plan.files / 20 {
                    let (one, other) = (random.below(plan.files.into()), random.below(plan.files.into()));
                    places.swap(one as usize, other as usize);
                }
            }
            places[popularity.draw(&mut random) as usize]
        });
        Self { requests: requests.collect(), first, by_rank: popularity.by_rank().to_vec() }
    }

    fn pages(&self, file: u32) -> Range<u32> {
        self.first[file as usize]..self.first[file as usize + 1]
    }

    /// Shares of pages that miss in each part; `misses` tells how many of a request do.
    fn shares(&self, mut misses: impl FnMut(usize, Range<u32>) -> u32) -> [f64; PARTS.len()] {
        let mut counts = [(0u64, 0u64); PARTS.len()];
        for (at, &file) in self.requests.iter().enumerate() {
            let pages = self.pages(file);
            let all = pages.len() as u64;
            let missed = u64::from(misses(at, pages));
            for (count, _) in counts.iter_mut().zip(&PARTS).filter(|(_, part)| part.contains(&at)) {
                (count.0, count.1) = (count.0 + missed, count.1 + all);
            }
        }
        counts.map(|(missed, all)| missed as f64 / all as f64)
    }

    fn by_policy(&self, policy: PolicyName, frames: u32) -> Option<[f64; PARTS.len()]> {
        let mut cache = Demand::new(Replacement::new(policy.spec(), frames)?, frames);
        Some(self.shares(|_, pages| pages.filter(|page| !cache.reference(*page as Handle).0).count() as u32))
    }

    /// The most popular files, as many as fit, from the start and for ever.
    fn by_knowledge(&self, frames: u32) -> [f64; PARTS.len()] {
        let mut left = frames as usize;
        let mut held = vec![false; self.first[self.first.len() - 1] as usize];
        for &file in &self.by_rank {
            let pages = self.pages(file);
            if pages.len() <= left {
                left -= pages.len();
                pages.for_each(|page| held[page as usize] = true);
            }
        }
        self.shares(|_, pages| pages.filter(|page| !held[*page as usize]).count() as u32)
    }

    /// Belady's: it knows every request to come.
    fn by_the_future(&self, frames: u32) -> [f64; PARTS.len()] {
        let pages: Vec<u32> = self.requests.iter().flat_map(|&file| self.pages(file)).collect();
        let mut seen: HashMap<&u32, u32> = HashMap::new();
        let mut next = vec![NEVER; pages.len()];
        for (at, page) in pages.iter().enumerate().rev() {
            next[at] = seen.insert(page, at as u32).unwrap_or(NEVER);
        }
        let mut min = Min::new(frames, pages.len() as u32, false);
        let mut now = 0;
        self.shares(|_, pages| {
            let missed = pages.filter(|_| {
                now += 1;
                min.reference(now - 1, next[now as usize - 1]) != Reference::Hit
            });
            missed.count() as u32
        })
    }
}

/// Prints the tables.
pub fn print(plan: &Plan, zipf: f64) {
    for (changes, title) in
        [(false, "steady popularity"), (true, "a tenth of the files changes places now and then")]
    {
        let trace = Trace::new(plan, zipf, changes);
        for frames in FRAMES {
            println!(
                "\nSimulated, {title}, {frames} pages: share of pages that miss in requests {:?} and {:?}, and what `linux` misses against it",
                PARTS[0], PARTS[1]
            );
            let linux = trace.by_policy(PolicyName::Linux, frames);
            let line = |name: &str, shares: [f64; PARTS.len()]| {
                let gain = |part: usize| linux.map_or(f64::NAN, |linux| linux[part] / shares[part]);
                let [soon, later] = shares.map(|share| 100.0 * share);
                println!("{name:<24}{soon:>8.1} %{later:>8.1} %{:>8.2}{:>8.2}", gain(0), gain(1));
            };
            for policy in PolicyName::ALL {
                if let Some(shares) = trace.by_policy(policy, frames) {
                    line(policy.as_str(), shares);
                }
            }
            if !changes {
                line("popularity is known", trace.by_knowledge(frames));
            }
            line("the future is known", trace.by_the_future(frames));
        }
    }
}
