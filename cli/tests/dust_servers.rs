//! `pantler dust` and real servers on loopback: one of each kind, through the command.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

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

/// One line that a server answers.
fn said(address: &str, words: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(words.as_bytes()).expect("it reads");
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("it answers");
    line.trim_end().to_owned()
}

#[test]
fn a_server_in_use_is_not_emptied_unasked() {
    let Some(server) = pantler_rig::redis(&["--maxmemory", "8mb", "--maxmemory-policy", "allkeys-lru"])
    else {
        return;
    };
    said(&server.address(), "SET mine x\r\n");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pantler"));
    command.args(["dust", &format!("redis://{}", server.address())]).stdin(Stdio::null());
    let output = command.output().expect("it runs");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && err.contains("1 keys") && err.contains("--anyway"), "{err}");
    assert_eq!(said(&server.address(), "EXISTS mine\r\n"), ":1");
    // A key of another database takes the same memory.
    assert_eq!(said(&server.address(), "MOVE mine 1\r\n"), ":1");
    let output = command.output().expect("it runs");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && err.contains("1 keys"), "{err}");
}

/// A connection within a minute, or the command's message when it ended without.
fn connected(listener: &TcpListener, child: &mut Child) -> TcpStream {
    listener.set_nonblocking(true).expect("it is open");
    let start = Instant::now();
    loop {
        if let Ok((stream, _)) = listener.accept() {
            return stream;
        }
        let ended = child.try_wait().expect("it is ours");
        if ended.is_some() || start.elapsed() > Duration::from_secs(60) {
            // A process that has ended already cannot be killed.
            let _ = child.kill();
            let mut err = String::new();
            child.stderr.take().expect("it is piped").read_to_string(&mut err).expect("text");
            panic!("it did not connect, {ended:?}: {err}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// One signal is enough while a server that says nothing is waited for.
#[test]
fn whoever_waits_is_stopped_at_once() {
    for (scheme, more) in [("redis", &[][..]), ("memcached", &[]), ("http", &["--origin", "127.0.0.1:0"])] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("{scheme}://{}", listener.local_addr().expect("bound"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_pantler"));
        command.args(["dust", &url]).args(more).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
        // It has connected, and waits.
        let _connected = connected(&listener, &mut child);
        let start = Instant::now();
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
        let output = child.wait_with_output().expect("it ends");
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            (output.status.code(), err.as_ref()),
            (Some(130), "pantler: stopped by signal 2\n"),
            "{url}"
        );
        assert!(start.elapsed() < Duration::from_secs(10), "{url}: {:?}", start.elapsed());
    }
}

#[test]
fn whoever_is_stopped_leaves_nothing_behind() {
    let Some(server) = pantler_rig::redis(&["--maxmemory", "8mb", "--maxmemory-policy", "allkeys-lru"])
    else {
        return;
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_pantler"));
    command.args(["dust", &format!("redis://{}", server.address())]).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
    let start = Instant::now();
    while said(&server.address(), "DBSIZE\r\n") == ":0" {
        assert!(start.elapsed() < Duration::from_secs(60), "it sets nothing");
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
    assert_eq!(child.wait().expect("it ends").code(), Some(128 + 15));
    assert_eq!(said(&server.address(), "DBSIZE\r\n"), ":0");
}
