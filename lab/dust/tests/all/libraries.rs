//! Caches by other hands: LRU is named, and what has no hypothesis is near its relatives or
//! unknown, never wrong.

use std::num::NonZeroUsize;

use pantler_dust::{Inquiry, Known, Options, Reading, Script, Target, TargetError, Verdict, investigate};

/// A cache of numbers, seen through get and put.
trait Library {
    /// Looks the key up and puts it in if it is not there. Returns whether it was.
    fn touch(&mut self, key: u64) -> bool;
}

struct Asked<L> {
    empty: fn() -> L,
    library: L,
}

impl<L: Library> Target for Asked<L> {
    fn run(&mut self, script: &Script) -> Result<Vec<Reading>, TargetError> {
        if script.cold {
            self.library = (self.empty)();
        }
        let mut read = |&block| Reading::Said { hit: self.library.touch(u64::from(block)) };
        Ok(script.accesses.iter().map(&mut read).collect())
    }
}

fn ask<L: Library>(name: &str, empty: fn() -> L) -> Vec<Verdict> {
    let ask = |seed| {
        let mut asked = Asked { empty, library: empty() };
        let inquiry = Inquiry::new(Options { seed, ..Options::default() });
        let verdict = investigate(inquiry, &mut asked).expect("it always answers").verdict();
        println!(
            "{name}: {:?} {} capacity {} {:?} mismatch {:.4}",
            verdict.verdict, verdict.policy, verdict.capacity, verdict.interval, verdict.mismatch
        );
        verdict
    };
    (1..4).map(ask).collect()
}

/// Known verdicts name one of these.
fn never_wrong(verdicts: &[Verdict], names: &[&str]) {
    for verdict in verdicts.iter().filter(|verdict| verdict.verdict == Known::Known) {
        let named = names.contains(&verdict.family.as_str());
        assert!(named || verdict.equivalent.iter().any(|name| names.contains(&name.as_str())), "{verdict:?}");
    }
}

const CAPACITY: usize = 200;

impl Library for lru::LruCache<u64, ()> {
    fn touch(&mut self, key: u64) -> bool {
        let there = self.get(&key).is_some();
        if !there {
            self.put(key, ());
        }
        there
    }
}

#[test]
fn lru_is_lru() {
    let empty = || lru::LruCache::new(NonZeroUsize::new(CAPACITY).expect("not zero"));
    for verdict in ask("lru", empty) {
        assert_eq!((verdict.verdict, verdict.family.as_str()), (Known::Known, "lru"), "{verdict:?}");
        assert!((CAPACITY as u32).abs_diff(verdict.capacity) <= 1, "{verdict:?}");
    }
}

impl Library for quick_cache::unsync::Cache<u64, ()> {
    fn touch(&mut self, key: u64) -> bool {
        let there = self.get(&key).is_some();
        if !there {
            self.insert(key, ());
        }
        there
    }
}

#[test]
fn quick_cache_is_not_called_what_it_is_not() {
    // Its own description: CLOCK-Pro with a list of what is cold like that of S3-FIFO.
    let verdicts = ask("quick_cache", || quick_cache::unsync::Cache::new(CAPACITY));
    never_wrong(&verdicts, &["clock-pro", "s3-fifo"]);
}

impl Library for moka::sync::Cache<u64, ()> {
    fn touch(&mut self, key: u64) -> bool {
        let there = self.get(&key).is_some();
        if !there {
            self.insert(key, ());
        }
        // Reads and writes are applied later unless asked for.
        self.run_pending_tasks();
        there
    }
}

#[test]
fn moka_is_not_called_what_it_is_not() {
    let lru = || {
        moka::sync::Cache::builder()
            .max_capacity(CAPACITY as u64)
            .eviction_policy(moka::policy::EvictionPolicy::lru())
            .build()
    };
    for verdict in ask("moka, LRU", lru) {
        assert_eq!((verdict.verdict, verdict.family.as_str()), (Known::Known, "lru"), "{verdict:?}");
    }
    let verdicts = ask("moka, TinyLFU", || moka::sync::Cache::new(CAPACITY as u64));
    never_wrong(&verdicts, &["w-tinylfu"]);
}
