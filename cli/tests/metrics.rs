//! `pantler metrics`: what a mount and a steered run count, as Prometheus reads it.

#![cfg(feature = "network")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

const PANTLER: &str = env!("CARGO_BIN_EXE_pantler");

fn pantler(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(PANTLER);
    command.args(words).current_dir(folder).env("PANTLER_RUNTIME_DIR", folder.join("run"));
    command.stdin(Stdio::null());
    command
}

fn must(folder: &Path, words: &[&str]) -> String {
    let output = pantler(folder, words).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    assert!(output.status.success(), "{words:?}: {}", text(output.stderr));
    text(output.stdout)
}

/// The names of metrics that a text has.
fn names(text: &str) -> BTreeSet<&str> {
    text.lines().filter_map(|line| line.split_once('{')).map(|(name, _)| name).collect()
}

/// The names of metrics that the dashboard asks for.
fn asked_for(dashboard: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let words = target["expr"].as_str().unwrap();
            let words = words.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            names.extend(words.filter(|word| word.starts_with("pantler_")).map(str::to_owned));
        }
    }
    names
}

#[test]
fn what_a_mount_counts_is_told_once_and_over_http() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = folder.path();
    assert_eq!(must(at, &["metrics"]), "# EOF\n");
    fs::create_dir_all(at.join("origin")).unwrap();
    fs::create_dir_all(at.join("mnt")).unwrap();
    fs::write(at.join("origin/data"), vec![1; 1 << 20]).unwrap();
    must(at, &["mount", "origin", "mnt", "--cache", "16M", "--frames", "own"]);
    let _mount = Unmount(at);
    for _ in 0..2 {
        assert_eq!(fs::read(at.join("mnt/data")).unwrap().len(), 1 << 20);
    }
    let once = must(at, &["metrics"]);
    let blocks = |line: &&str| line.starts_with("pantler_blocks{") && line.ends_with(" 16");
    assert_eq!(once.lines().filter(blocks).count(), 1, "{once}");

    let dashboard = concat!(env!("CARGO_MANIFEST_DIR"), "/../dashboard/grafana.json");
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(dashboard).unwrap()).unwrap();
    let asked = asked_for(&dashboard);
    assert!(asked.len() >= 10, "{asked:?}");
    for name in asked {
        assert!(names(&once).contains(name.as_str()), "the dashboard asks for {name}, not in {once}");
    }

    let words = ["metrics", "--listen", "127.0.0.1:0"];
    let mut exporter = pantler(at, &words).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(exporter.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
    let address = said.trim().split_once("http://").unwrap().1.trim_end_matches("/metrics").to_owned();
    let ask = |path: &str| {
        let mut client = TcpStream::connect(&address).unwrap();
        write!(client, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    };
    let answer = ask("/metrics");
    assert!(
        answer.starts_with("HTTP/1.1 200 ") && answer.contains("application/openmetrics-text"),
        "{answer}"
    );
    assert_eq!(names(answer.split_once("\r\n\r\n").unwrap().1), names(&once));
    assert!(ask("/").starts_with("HTTP/1.1 404 "));
    rustix::process::kill_process(rustix::process::Pid::from_child(&exporter), rustix::process::Signal::TERM)
        .unwrap();
    assert!(exporter.wait().unwrap().success(), "it ends when it is told to");
}

struct Unmount<'a>(&'a Path);

impl Drop for Unmount<'_> {
    fn drop(&mut self) {
        let _ = pantler(self.0, &["umount", "mnt"]).status();
    }
}
