//! `pantler web` as people and scripts start it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};

fn pantler() -> Command {
    Command::new(env!("CARGO_BIN_EXE_pantler"))
}

fn refused(words: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = pantler().arg("web").args(words).output().unwrap();
    assert!(stdout.is_empty(), "nothing but JSON goes to standard output");
    let text = String::from_utf8(stderr).unwrap();
    assert_eq!(text.lines().count(), 1, "one line: {text}");
    (status.code(), text)
}

/// Where it listens, from its first line.
fn url(child: &mut Child) -> serde_json::Value {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

#[test]
fn it_says_where_it_listens_serves_and_ends_when_told() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "text").unwrap();
    let log = folder.path().join("log");
    let mut child = pantler()
        .args(["web", "--json", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--root"])
        .arg(folder.path())
        .arg("--log")
        .arg(&log)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let started = url(&mut child);
    assert_eq!((&started["kind"], &started["order"]), (&"web".into(), &"mirror+verify".into()));
    assert!(started["admin"].as_str().unwrap().starts_with("http://127.0.0.1:"));
    let address = started["url"].as_str().unwrap().trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("\r\n\r\ntext"), "{answer}");
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("\"GET /a.txt HTTP/1.1\" 200 4"), "{log}");
}

#[test]
fn what_is_wrong_is_said_with_a_status() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let (status, text) = refused(&["--root", root, "--listen", &taken]);
    assert!(status == Some(1) && text.contains(&taken) && text.contains("in use"), "{text}");
    let (status, text) = refused(&["--root", "/no/such/folder", "--listen", "127.0.0.1:0"]);
    assert!(status == Some(1) && text.contains("/no/such/folder"), "{text}");
    for (words, hint) in [
        (["--order", "best"], "mirror+verify"),
        (["--model", "linux"], "POLICY:SIZE"),
        (["--store", "disk"], "cache:SIZE"),
        (["--store", "cache:1K"], "cache size"),
        (["--age-cap", "soon"], "duration"),
        (["--listen", "8080"], "127.0.0.1:8080"),
        (["--tls-key", "k.pem"], "--tls-certificate"),
    ] {
        let (status, text) = refused(&[&["--root", root][..], &words].concat());
        assert!(status == Some(2) && text.contains(hint), "{words:?}: {text}");
    }
    assert_eq!(refused(&[]).0, Some(2), "a root is needed");
}
