//! `pantler dust` and real servers on loopback: one of each kind, through the command.

use std::process::{Command, Stdio};

/// What the command says of a target, as JSON.
fn asked(words: &[&str]) -> serde_json::Value {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pantler"));
    command.arg("dust").args(words).arg("--json").stdin(Stdio::null());
    let output = command.env("PANTLER_RUNTIME_DIR", folder.path()).output().expect("it runs");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words:?}: {err}");
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    println!("{words:?}: {found:.400}");
    found
}

fn named(found: &serde_json::Value, family: &str) {
    assert_eq!(
        (found["family"].as_str(), found["verdict"].as_str()),
        (Some(family), Some("known")),
        "{found}"
    );
}

#[test]
fn redis_is_named() {
    let Some(server) = pantler_rig::redis(&["--maxmemory", "4mb", "--maxmemory-policy", "noeviction"]) else {
        return;
    };
    let url = format!("redis://{}", server.address());
    let found = asked(&[&url]);
    named(&found, "noeviction");
    assert_eq!(found["target"].as_str(), Some(url.as_str()));
}

#[test]
fn memcached_is_named() {
    let Some(server) = pantler_rig::memcached("") else { return };
    named(&asked(&[&format!("memcached://{}", server.address())]), "memcached");
}

#[test]
fn a_caching_proxy_is_named() {
    let origin = pantler_rig::free_port();
    let Some(server) = pantler_rig::nginx_proxy(origin) else { return };
    let found = asked(&[&format!("http://{}", server.address()), "--origin", &format!("127.0.0.1:{origin}")]);
    named(&found, "lru");
}
