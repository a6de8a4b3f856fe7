//! Mounts of several machines on one tier server: whatever breaks, bytes are right, nothing waits
//! long, and it heals; and they do what the simulator says.
//!
//! Each client is in a network namespace of its own, the server in another.

mod figure_11;
mod hung;
mod owners;
#[path = "../place/mod.rs"]
mod place;
mod readers;
mod server;
mod survival;

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

fn can_mount() -> bool {
    let fuse = fs::File::options().read(true).write(true).open("/dev/fuse");
    if fuse.is_ok() && rustix::process::geteuid().is_root() {
        return true;
    }
    assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "mounting needs root and /dev/fuse");
    eprintln!("SKIPPED: mounting needs root and /dev/fuse");
    false
}

/// Bytes of which no two blocks are alike: they repeat after a prime number.
fn pattern(length: usize) -> Vec<u8> {
    const PERIOD: usize = 999_983;
    let mut state = 1;
    let once: Vec<u8> = (0..PERIOD).map(|_| random(&mut state) as u8).collect();
    let mut bytes = once.repeat(length.div_ceil(PERIOD));
    bytes.truncate(length);
    bytes
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 31
}

fn eventually(what: &str, holds: impl FnMut() -> bool) {
    println!("  {what} after {} ms", pantler_rig::eventually(what, holds).as_millis());
}

/// What `pantler stat` says. On a machine that is busy a host may take its time, and listen a while
/// after its mount is there.
fn stat_of(stat: &mut Command) -> Value {
    let mut answer = None;
    pantler_rig::eventually("it answers", || {
        let output = stat.stdin(Stdio::null()).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        let is_early = ["no answer within", "not found"].iter().any(|text| err.contains(text));
        assert!(output.status.success() || is_early, "{err}");
        answer = output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap());
        answer.is_some()
    });
    answer.unwrap()
}

fn has_redis() -> bool {
    if Command::new("redis-server").arg("--version").output().is_ok() {
        return true;
    }
    pantler_rig::missing("redis-server", "apt-get install redis-server");
    false
}
