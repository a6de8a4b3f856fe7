//! The loop of a simulator around each policy: million requests per second of processor time.
//!
//! ```text
//! cargo bench -p pantler-policy --bench loop -- \
//!     [--requests 20000000] [--ids 1000000] [--alpha 1.0] [--runs 3] [POLICY..]
//! ```
//!
//! Requests are Zipf distributed over dense ids in order of first use, as a prepared trace has
//! them; the cache holds 1 % and 10 % of the ids referenced. The best of the runs is printed, with
//! the miss ratio as a check.

use std::fs;
use std::hint::black_box;

use pantler_policy::min::{Min, NEVER, Reference};
use pantler_policy::{Links, Offline, Online, Spec, Visitor};
use pantler_trace::generate::Specification;

#[path = "../../../benches/environment.rs"]
mod environment;

/// How far ahead the policy is told of a reference.
const AHEAD: usize = 16;

fn main() {
    println!("{}", environment::line(None));
    let mut options =
        Options { requests: 20_000_000, ids: 1_000_000, alpha: 1.0, runs: 3, policies: Vec::new() };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|text| text.parse::<f64>().ok()).expect("a number");
        match argument.as_str() {
            "--requests" => options.requests = number() as usize,
            "--ids" => options.ids = number() as u32,
            "--alpha" => options.alpha = number(),
            "--runs" => options.runs = number() as u32,
            // Cargo says this to every bench.
            "--bench" => {}
            policy => options.policies.push(policy.parse().unwrap_or_else(|error| panic!("{error}"))),
        }
    }
    if options.policies.is_empty() {
        options.policies = Spec::all().into_iter().map(|known| known.spec).collect();
    }
    let Options { requests, ids, alpha, .. } = options;
    let specification = format!("zipf:requests={requests},ids={ids},alpha={alpha}");
    let specification: Specification = specification.parse().expect("sensible numbers");
    let trace = specification.prepare().expect("no more requests than fit");
    let (requests, handles) = (trace.requests(), trace.distinct());
    println!("{} requests, {handles} ids, alpha {}", requests.len(), options.alpha);
    println!("{:<28} {:>9} {:>8} {:>10}", "policy", "frames", "misses", "Mreq/CPU-s");
    for spec in &options.policies {
        for frames in [handles / 100, handles / 10] {
            let run = || {
                let visitor = Simulation { requests, handles, frames };
                let (misses, seconds) = spec.with(frames, visitor);
                (seconds, misses)
            };
            let best = (0..options.runs).map(|_| run()).min_by(|a, b| a.0.total_cmp(&b.0));
            let (seconds, misses) = best.expect("at least one run");
            let (ratio, speed) =
                (misses as f64 / requests.len() as f64, requests.len() as f64 / seconds / 1e6);
            println!("{:<28} {frames:>9} {ratio:>8.4} {speed:>10.1}", spec.to_string());
        }
    }
}

struct Options {
    requests: usize,
    ids: u32,
    alpha: f64,
    runs: u32,
    policies: Vec<Spec>,
}

/// One pass over the requests; gives the misses and the seconds.
struct Simulation<'a> {
    requests: &'a [u32],
    handles: u32,
    frames: u32,
}

impl Visitor for Simulation<'_> {
    type Output = (u64, f64);

    fn online<P: Online>(self, mut policy: P) -> (u64, f64) {
        let mut links = Links::new(self.handles);
        policy.reserve(self.handles);
        let mut resident = vec![0u64; self.handles as usize / 64 + 1];
        let mut misses = 0;
        let start = processor_seconds();
        for (index, &handle) in self.requests.iter().enumerate() {
            if let Some(&soon) = self.requests.get(index + AHEAD) {
                policy.prefetch(&links, soon);
            }
            if let Some(hit) = policy.reference(&mut links, handle, self.frames) {
                misses += u64::from(!hit);
                continue;
            }
            let (word, bit) = (handle as usize / 64, 1 << (handle % 64));
            if resident[word] & bit != 0 {
                policy.hit(&mut links, handle);
                continue;
            }
            misses += 1;
            policy.miss(&mut links, handle);
            if policy.len() >= self.frames
                && let Some(victim) = policy.evict(&mut links, &|_| false)
            {
                resident[victim as usize / 64] &= !(1 << (victim % 64));
            }
            policy.insert(&mut links, handle);
            resident[word] |= bit;
        }
        let seconds = processor_seconds() - start;
        black_box(&links);
        (misses, seconds)
    }

    fn offline(self, policy: Offline) -> (u64, f64) {
        // A prepared trace brings the next uses, so their computation is not measured.
        let mut seen = vec![NEVER; self.handles as usize];
        let mut next_uses = vec![NEVER; self.requests.len()];
        for (index, &handle) in self.requests.iter().enumerate().rev() {
            next_uses[index] = std::mem::replace(&mut seen[handle as usize], index as u32);
        }
        let bypass = policy == Offline::MinWithBypass;
        let mut min = Min::new(self.frames, self.requests.len() as u32, bypass);
        let mut misses = 0;
        let start = processor_seconds();
        for (now, &next) in (0..).zip(&next_uses) {
            if let Some(&soon) = next_uses.get(now as usize + AHEAD) {
                min.prefetch(soon);
            }
            misses += u64::from(min.reference(now, next) != Reference::Hit);
        }
        (misses, processor_seconds() - start)
    }
}

/// Time that this thread was on a processor.
fn processor_seconds() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let nanoseconds = text.split(' ').next().and_then(|text| text.parse::<u64>().ok());
    nanoseconds.expect("nanoseconds on a processor") as f64 * 1e-9
}
