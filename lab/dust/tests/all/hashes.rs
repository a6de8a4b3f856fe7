//! W-TinyLFU is named though it counts blocks by a hash that Dust does not know: that of a mount
//! made it `unknown`.

use std::hash::BuildHasher;

use pantler_dust::targets::expectations;
use pantler_dust::{Inquiry, Known, Options, Reading, Script, Target, TargetError, investigate};
use pantler_policy::{Demand, Replacement};

/// A cache that is asked by time, is never emptied, and calls its blocks by names of its own.
struct Mount {
    cache: Demand<Replacement>,
    names: foldhash::quality::FixedState,
    known: u32,
}

impl Mount {
    fn new(policy: &str, frames: u32, seed: u64) -> Self {
        let policy = Replacement::new(policy.parse().expect("a policy"), frames).expect("it is online");
        let names = foldhash::quality::FixedState::with_seed(seed);
        Self { cache: Demand::new(policy, frames), names, known: 0 }
    }

    fn read(&mut self, block: u32) -> Reading {
        for new in self.known..=block {
            self.cache.identify(new, self.names.hash_one(("a file", new)) as u32);
        }
        self.known = self.known.max(block + 1);
        let (hit, _) = self.cache.reference(block);
        Reading::Took(if hit { 6000 } else { 90_000 } + u64::from(block % 97) * 10)
    }
}

impl Target for Mount {
    fn run(&mut self, script: &Script) -> Result<Vec<Reading>, TargetError> {
        let mut read = |&block| self.read(block);
        Ok(script.accesses.iter().map(&mut read).collect())
    }
}

#[test]
fn who_counts_by_a_hash_of_its_own_is_named() {
    let (mut named, mut all) = (0, 0);
    for policy in ["w-tinylfu", "w-tinylfu:window=0.1"] {
        for (seed, frames) in (1..).zip([110, 128, 240]) {
            let options = Options { seed, ..expectations("mount /m") };
            let mut target = Mount::new(policy, frames, seed);
            let inquiry = investigate(Inquiry::new(options), &mut target).expect("it answers");
            let verdict = inquiry.verdict();
            println!(
                "{policy}, {frames} frames: {:?} {} {:?} {:.4} {:?}",
                verdict.verdict, verdict.policy, verdict.interval, verdict.mismatch, verdict.check
            );
            assert!(
                verdict.verdict == Known::Unknown || verdict.family == "w-tinylfu",
                "{policy}: {verdict:?}"
            );
            named += u32::from(verdict.verdict == Known::Known);
            all += 1;
        }
    }
    assert!(named * 3 >= all * 2, "{named} of {all} are named");
}
