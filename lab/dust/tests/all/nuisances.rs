//! Caches that evict in batches, or late, are named with that beside their policy.

use pantler_dust::infer::family::Family;
use pantler_dust::infer::simulate::{Nuisances, Simulated};
use pantler_dust::{Inquiry, Known, Options, Reading, Script, Target, TargetError, Verdict, investigate};
use pantler_policy::{Replacement, Spec};

const FRAMES: u32 = 100;

/// A policy with an evictor of its own.
struct Evictor {
    spec: Spec,
    nuisances: Nuisances,
    cache: Simulated<Replacement>,
}

fn empty(spec: Spec, nuisances: Nuisances) -> Simulated<Replacement> {
    Simulated::new(Replacement::new(spec, FRAMES).expect("it is online"), FRAMES, nuisances, 1 << 12)
}

impl Target for Evictor {
    fn run(&mut self, script: &Script) -> Result<Vec<Reading>, TargetError> {
        if script.cold {
            self.cache = empty(self.spec, self.nuisances);
        }
        let mut read = |&block| Reading::Said { hit: self.cache.access(block) };
        Ok(script.accesses.iter().map(&mut read).collect())
    }
}

fn ask(policy: &str, nuisances: Nuisances, seed: u64) -> Verdict {
    let spec = policy.parse().expect("a policy");
    let mut target = Evictor { spec, nuisances, cache: empty(spec, nuisances) };
    // What is asked next depends on all candidates, and what is seen of an evictor on that.
    let families = Family::all().iter().filter(|family| family.name != "mglru").collect();
    let inquiry = Inquiry::new(Options { seed, families, ..Options::default() });
    investigate(inquiry, &mut target).expect("it answers").verdict()
}

fn parameter(verdict: &Verdict, key: &str) -> Option<f64> {
    verdict.parameters.iter().find(|(name, _)| name == key).map(|(_, value)| *value)
}

/// Nuisances that show as little as any policy is forgiven: they may remain unnamed.
const SAID: [(&str, &str); 4] = [("fifo", "batch"), ("fifo", "late"), ("sieve", "batch"), ("2q", "batch")];

#[test]
fn batches_and_late_evictors_do_not_hide_the_policy() {
    let kinds = [
        ("batch", 16.0, Nuisances { batch: 16, ..Nuisances::default() }),
        ("late", 8.0, Nuisances { late: 8, ..Nuisances::default() }),
    ];
    let mut unknown = 0;
    for policy in ["lru", "fifo", "sieve", "2q"] {
        for (key, value, nuisances) in kinds {
            let verdict = ask(policy, nuisances, 1);
            println!("{policy} {key} {value}: {verdict:?}");
            assert_eq!(verdict.family, policy, "{key} {value}: {verdict:?}");
            unknown += u32::from(verdict.verdict == Known::Unknown);
            if SAID.contains(&(policy, key)) {
                assert_eq!(parameter(&verdict, key), Some(value), "{policy}: {verdict:?}");
                assert_eq!((verdict.verdict, verdict.capacity), (Known::Known, FRAMES), "{policy} {key}");
            }
        }
    }
    assert!(unknown <= 1, "{unknown} of 8 are unknown");
}
