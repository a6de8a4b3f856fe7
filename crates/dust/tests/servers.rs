//! Real servers on loopback: Redis, memcached, nginx and Varnish, as Debian packages them.

use std::time::Instant;

use pantler_dust::infer::family::Family;
use pantler_dust::targets::{HttpTarget, MemcachedTarget, RedisTarget, expectations};
use pantler_dust::{Inquiry, Known, Target, Verdict, investigate};
use pantler_rig::free_port;

fn ask(name: &str, target: &mut dyn Target, families: &[&str]) -> Verdict {
    let mut options = expectations(name);
    if !families.is_empty() {
        options.families.retain(|family: &&Family| families.contains(&family.name));
    }
    let start = Instant::now();
    let verdict = investigate(Inquiry::new(options), target).expect("it answers").verdict();
    println!(
        "{name}: {:?} {} capacity {} mismatch {:.4} {:?} {} accesses {:.1?} {:?}",
        verdict.verdict,
        verdict.policy,
        verdict.capacity,
        verdict.mismatch,
        verdict.check,
        verdict.accesses,
        start.elapsed(),
        verdict.likelihoods.iter().take(4).collect::<Vec<_>>()
    );
    verdict
}

fn redis(policy: &str) -> Option<Verdict> {
    let server = pantler_rig::redis(&["--maxmemory", "8mb", "--maxmemory-policy", policy])?;
    let mut target = RedisTarget::new(&server.address(), None).expect("it answers");
    Some(ask(&format!("redis://{policy}"), &mut target, &[]))
}

fn named(verdict: Option<Verdict>, name: &str) {
    let Some(verdict) = verdict else { return };
    assert_eq!((verdict.verdict, verdict.family.as_str()), (Known::Known, name), "{verdict:?}");
}

/// Most of the time passes in sleep, so all at once.
#[test]
fn redis_by_each_policy() {
    let policies = [
        ("allkeys-lru", "redis-lru"),
        ("allkeys-lfu", "redis-lfu"),
        ("allkeys-random", "random"),
        ("noeviction", "noeviction"),
    ];
    let asked = policies.map(|(policy, name)| (std::thread::spawn(|| redis(policy)), name));
    for (thread, name) in asked {
        named(thread.join().expect("it does not panic"), name);
    }
}

fn memcached(more: &str) -> Option<Verdict> {
    let server = pantler_rig::memcached(more)?;
    let mut target = MemcachedTarget::new(&server.address(), None).expect("it answers");
    Some(ask(&format!("memcached://{more}"), &mut target, &[]))
}

#[test]
fn memcached_as_it_comes() {
    named(memcached(""), "memcached");
}

/// Its one queue is in the order of references that are a minute apart: within a minute it is that of insertion.
#[test]
fn memcached_without_segments() {
    named(memcached("-o no_modern"), "fifo");
}

#[test]
fn nginx_proxy_cache() {
    let origin = free_port();
    let Some(server) = pantler_rig::nginx_proxy(origin) else { return };
    let url = format!("http://{}", server.address());
    let mut target = HttpTarget::new(&url, &format!("127.0.0.1:{origin}"), None).expect("it answers");
    let verdict = ask(&url, &mut target, &[]);
    assert_eq!((verdict.verdict, verdict.family.as_str()), (Known::Known, "lru"), "{verdict:?}");
}

#[test]
fn varnish() {
    let origin = free_port();
    let Some(server) = pantler_rig::varnish(origin) else { return };
    let url = format!("http://{}", server.address());
    let mut target = HttpTarget::new(&url, &format!("127.0.0.1:{origin}"), Some(16_000)).expect("it answers");
    let verdict = ask(&url, &mut target, &[]);
    assert_eq!((verdict.verdict, verdict.family.as_str()), (Known::Known, "lru"), "{verdict:?}");
}
