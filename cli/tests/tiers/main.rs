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

use pantler_policy::Draws;
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
    let mut draws = Draws::new(1);
    let once: Vec<u8> = (0..PERIOD).map(|_| draws.bits() as u8).collect();
    let mut bytes = once.repeat(length.div_ceil(PERIOD));
    bytes.truncate(length);
    bytes
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
