//! Real servers on loopback: Redis, memcached, nginx and Varnish, as Debian packages them.

use std::time::{Duration, Instant};

use pantler_dust::targets::{HttpTarget, MemcachedTarget, Patience, RedisTarget, expectations};
use pantler_dust::{Inquiry, Known, Options, Target, Verdict, investigate};
use pantler_rig::free_port;

/// How often Redis is asked that remains unknown.
const ATTEMPTS: u64 = 3;

fn ask(seed: u64, name: &str, target: &mut dyn Target) -> Verdict {
    let options = Options { seed, ..expectations(name) };
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
    let mut target = RedisTarget::new(&server.address(), None, &Patience::default()).expect("it answers");
    // It draws from seventy keys; two thousand references to them sometimes leave honest doubt,
    // never another name.
    let ask = |target: &mut RedisTarget, seed| ask(seed, &format!("redis://{policy}"), target);
    let mut verdict = ask(&mut target, 1);
    for seed in 2..=ATTEMPTS {
        if verdict.verdict == Known::Known {
            break;
        }
        verdict = ask(&mut target, seed);
    }
    Some(verdict)
}

fn named(verdict: Option<Verdict>, name: &str) {
    let Some(verdict) = verdict else { return };
    let right = verdict.family == name || verdict.equivalent.iter().any(|other| other == name);
    assert!(verdict.verdict == Known::Known && right, "{verdict:?}");
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    let patience = Patience { time: Duration::from_millis(150), ..Patience::default() };
    let errors = [
        RedisTarget::new(&address, None, &patience).map(drop),
        MemcachedTarget::new(&address, None, &patience).map(drop),
        HttpTarget::new(&format!("http://{address}"), "127.0.0.1:0", None, &patience).map(drop),
    ];
    for (error, expected) in
        errors.into_iter().zip(["no answer within 150ms", "no answer within 150ms", "timeout"])
    {
        let error = error.expect_err("nobody answers").to_string();
        assert!(error.contains(&address) && error.contains(expected), "{error}");
    }
}

#[test]
fn redis_that_evicts_what_has_a_time_to_live_is_not_called_noeviction() {
    let volatile = ["--maxmemory", "8mb", "--maxmemory-policy", "volatile-lru"];
    let Some(server) = pantler_rig::redis(&volatile) else { return };
    let error = RedisTarget::new(&server.address(), None, &Patience::default()).expect_err("it is told why");
    assert!(error.to_string().contains("under volatile-lru it evicts none of Dust's"), "{error}");
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

/// Its one queue is in the order of references that are a minute apart: within a minute it is that
/// of insertion. With segments it is asked by the command's own test.
#[test]
fn memcached_without_segments() {
    let Some(server) = pantler_rig::memcached("-o no_modern") else { return };
    let mut target = MemcachedTarget::new(&server.address(), None, &Patience::default()).expect("it answers");
    named(Some(ask(1, "memcached://", &mut target)), "fifo");
}

#[test]
fn nginx_proxy_cache() {
    let origin = free_port();
    let Some(server) = pantler_rig::nginx_proxy(origin) else { return };
    let url = format!("http://{}", server.address());
    let mut target = HttpTarget::new(&url, &format!("127.0.0.1:{origin}"), None, &Patience::default())
        .expect("it answers");
    let verdict = ask(1, &url, &mut target);
    assert_eq!((verdict.verdict, verdict.family.as_str()), (Known::Known, "lru"), "{verdict:?}");
}

#[test]
fn varnish() {
    let origin = free_port();
    let Some(server) = pantler_rig::varnish(origin) else { return };
    let url = format!("http://{}", server.address());
    let mut target =
        HttpTarget::new(&url, &format!("127.0.0.1:{origin}"), Some(16_000), &Patience::default())
            .expect("it answers");
    let verdict = ask(1, &url, &mut target);
    assert_eq!((verdict.verdict, verdict.family.as_str()), (Known::Known, "lru"), "{verdict:?}");
}
