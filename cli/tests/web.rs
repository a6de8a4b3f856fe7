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

/// Ends with the test, however that ends.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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
    let mut child = pantler()
        .args(["web", "--json", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--root"])
        .arg(folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let started = url(&mut child);
    assert_eq!((&started["kind"], &started["order"]), (&"web".into(), &"truth".into()));
    assert!(started["metrics"].as_str().unwrap().ends_with("/metrics"));
    let address = started["url"].as_str().unwrap().trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("\r\n\r\ntext"), "{answer}");
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
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
        (["--order", "best"], "truth"),
        (["--idle-time", "soon"], "duration"),
        (["--listen", "70000"], "127.0.0.1:8080"),
    ] {
        let (status, text) = refused(&[&["--root", root][..], &words].concat());
        assert!(status == Some(2) && text.contains(hint), "{words:?}: {text}");
    }
    assert_eq!(refused(&[]).0, Some(2), "a root is needed");
}

#[test]
fn words_that_mean_nothing_together_are_refused_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap();
    let words = ["--root", root, "--listen", "127.0.0.1:8080", "--metrics", "127.0.0.1:8080"];
    let (status, text) = refused(&words);
    assert!(status == Some(2) && text.contains("--metrics 127.0.0.1:8080"), "{text}");
    assert!(text.contains("another port"), "{text}");
}

/// Asks for a path over a connection, and takes no more than the status.
fn ask(stream: &mut TcpStream, path: &str) -> u16 {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
    status(stream)
}

fn status(stream: &mut TcpStream) -> u16 {
    let mut line = [0; 12];
    stream.read_exact(&mut line).unwrap();
    std::str::from_utf8(&line[9..]).unwrap().parse().expect("a status")
}

/// Status and body.
fn get(address: &str, path: &str) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    let host = format!("Host: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(format!("GET {path} HTTP/1.1\r\n{host}").as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
    let status = String::from_utf8_lossy(&answer[9..12]).parse().expect("a status");
    (status, answer.split_off(head))
}

#[test]
fn a_crowd_waits_for_descriptors() {
    /// More than the kernel holds for a client that takes nothing.
    const BYTES: u64 = 24 << 20;
    const CROWD: usize = 40;
    let folder = tempfile::tempdir().unwrap();
    for at in 0..100 {
        let file = std::fs::File::create(folder.path().join(format!("f{at}"))).unwrap();
        file.set_len(BYTES).unwrap();
    }
    std::thread::sleep(std::time::Duration::from_millis(30));
    // Of 192 descriptors about sixty are left for connections and files.
    let child = Command::new("sh")
        .args(["-c", "ulimit -n 192 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_pantler"), "web", "--json"])
        .args(["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--threads", "1", "--disk-reads", "1"])
        .args(["--open-time", "2s", "--root"])
        .arg(folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Ends(child);
    let started = url(&mut child.0);
    let place = |name: &str| {
        let text = started[name].as_str().unwrap();
        text.trim_start_matches("http://").trim_end_matches('/').to_owned()
    };
    let address = place("url");
    let metrics = place("metrics").trim_end_matches("/metrics").to_owned();
    let metric = |name: &str| {
        let (_, text) = get(&metrics, "/metrics");
        let text = String::from_utf8(text).unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name}")).parse::<u64>().unwrap()
    };
    let refused = || metric("pantler_web_answers_total{class=\"5xx\"}");
    let open = |name: &str| {
        let path = format!("{}/{name}", folder.path().display());
        let links = std::fs::read_dir(format!("/proc/{}/fd", child.0.id())).unwrap().flatten();
        links
            .filter(|link| {
                std::fs::read_link(link.path()).is_ok_and(|to| to.to_string_lossy().starts_with(&path))
            })
            .count()
    };
    // All are there before the first of them asks: connections take most of what is common.
    let mut crowd: Vec<TcpStream> = (0..CROWD).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let start = std::time::Instant::now();
    while metric("pantler_web_connections") < CROWD as u64 {
        assert!(start.elapsed() < std::time::Duration::from_secs(60), "they are not accepted");
    }
    for (at, stream) in crowd.iter_mut().enumerate() {
        stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
        stream.write_all(format!("GET /f{at} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
    }
    let statuses: Vec<u16> = crowd.iter_mut().map(status).collect();
    let well = statuses.iter().filter(|status| **status == 200).count();
    let crowded = metric("pantler_web_crowded_total");
    assert!((15..=30).contains(&well) && open("f") == well, "{well} answers, {} files open", open("f"));
    assert_eq!(crowded, (CROWD - well) as u64, "{well} answers");
    let in_vain = statuses.iter().position(|status| *status == 503).unwrap();
    // What came behind the status is taken first.
    let mut rest = [0; 1000];
    assert!(crowd[in_vain].read(&mut rest).unwrap() < rest.len());
    assert_eq!(ask(&mut crowd[in_vain], "/f99"), 503, "all waited for it in vain, and so does this one");
    assert_eq!(metric("pantler_web_crowded_total"), crowded + 1);
    drop(crowd);
    let start = std::time::Instant::now();
    while open("f") > 0 {
        assert!(start.elapsed() < std::time::Duration::from_secs(60), "they are never closed");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(get(&address, "/f99"), (200, vec![0; BYTES as usize]));
    assert_eq!((metric("pantler_web_crowded_total"), metric("pantler_web_faults_total")), (crowded + 1, 0));
    assert_eq!(refused(), crowded + 1);
}
