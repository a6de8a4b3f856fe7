//! `pantler top`: what it prints, what it refuses, and what it leaves behind.

mod place;

use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pantler_rig::eventually;
use place::quote_rights;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn pantler(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pantler"));
    command.arg("top").args(words).stdin(Stdio::null()).env_remove("PANTLER_LOG");
    command
}

/// What it prints while this process reads a file of 8 pages again and again. The file is in
/// memory, and its name clears a terminal.
fn while_reading(words: &[&str]) -> (String, PathBuf) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("clears\u{1b}[2J");
    fs::write(&path, [1; 8 * 4096]).unwrap();
    let mut child = pantler(words).stdout(Stdio::piped()).spawn().unwrap();
    let mut printed = child.stdout.take().unwrap();
    let printing = std::thread::spawn(move || io::read_to_string(&mut printed).unwrap());
    while child.try_wait().unwrap().is_none() {
        fs::read(&path).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(child.wait().unwrap().success());
    (printing.join().unwrap(), path)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}: expected a number"))
}

#[test]
fn once_prints_one_table_that_a_terminal_shows_as_it_is() {
    let (text, path) = while_reading(&["--once", "--interval", "0.5", "--by", "file", "--rows", "100000"]);
    let mut lines = text.lines();
    let head = lines.next().unwrap();
    assert!(head.starts_with("page cache by file, 0.") && head.ends_with(" events"), "{head}");
    assert!(text.contains("\nreferences     hits  misses   hit % read MB  faults  file\n"), "{text}");
    let name = path.to_str().unwrap().replace('\u{1b}', "\\u{1b}");
    let row = lines.find(|line| line.ends_with(&name)).unwrap_or_else(|| panic!("no {name} in {text}"));
    let figures: Vec<&str> = row.split_whitespace().take(6).collect();
    let references: u64 = figures[0].parse().unwrap();
    assert!(references >= 8 && references.is_multiple_of(8), "{row}");
    assert_eq!(figures[1..], [figures[0], "0", "100.0", "0.0", "0"], "{row}");
    assert!(!text.contains('\u{1b}') && text.lines().any(|line| line.ends_with("  total")), "{text}");
}

#[test]
fn json_is_an_object_for_each_interval() {
    let words = ["--json", "--count", "2", "--interval", "0.3"];
    let (text, _) = while_reading(&words);
    let objects: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects.len(), 2, "{text}");
    for object in &objects {
        assert_eq!(
            (&object["kind"], &object["version"], &object["by"]),
            (&"top".into(), &1.into(), &"process".into())
        );
        assert!((300..3000).contains(&number(&object["interval_ms"])), "{object}");
        let rows = object["rows"].as_array().unwrap();
        assert_eq!(number(&object["rows_left_out"]), 0);
        let own = rows.iter().find(|row| number(&row["pid"]) == u64::from(std::process::id()));
        let own = own.unwrap_or_else(|| panic!("this process is not in {object}"));
        assert!(number(&own["references"]) >= 8 && own["group"].is_string(), "{own}");
        for field in ["references", "misses", "read_bytes", "faults"] {
            let sum = rows.iter().chain([&object["other"]]).map(|row| number(&row[field])).sum::<u64>();
            assert_eq!(sum, number(&object["total"][field]), "{field} of {object}");
        }
    }
}

#[test]
fn a_user_is_told_what_is_missing() {
    quote_rights("`pantler top` shows processes and files of all users, and is refused to all but root.");
    let output = pantler(&["--once"]).uid(65_534).gid(65_534).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("root's: run `sudo pantler top`") && told.lines().count() == 1, "{told}");
    assert!(output.stdout.is_empty());
    let refused = pantler(&["--once", "--count", "2"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
}

/// The trace instances of a process.
fn instances(pid: u32) -> usize {
    let tracefs = pantler_watch::instance::tracefs().unwrap();
    let prefix = format!("pantler-{pid}-");
    let entries = fs::read_dir(tracefs.join("instances")).unwrap().flatten();
    entries.filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix))).count()
}

fn end(child: &mut Child, signal: Signal) {
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
    child.wait().unwrap();
}

#[test]
fn signals_leave_no_trace_instance_and_a_kill_leaves_it_to_the_next_start() {
    let start = || {
        let child = pantler(&["--json", "--interval", "60"]).stdout(Stdio::null()).spawn().unwrap();
        eventually("it watches", || instances(child.id()) == 1);
        child
    };
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut child = start();
        // A signal before it is watched for ends it at once.
        std::thread::sleep(Duration::from_millis(100));
        end(&mut child, signal);
        assert_eq!(instances(child.id()), 0, "{signal:?}");
    }
    let mut child = start();
    end(&mut child, Signal::KILL);
    assert_eq!(instances(child.id()), 1);
    assert!(pantler(&["--once", "--interval", "0.1"]).stdout(Stdio::null()).status().unwrap().success());
    assert_eq!(instances(child.id()), 0);
}

/// A terminal of 80 columns and 24 lines, with the settings before and after it in files.
fn on_a_terminal(folder: &Path, end: impl FnOnce(&mut Child)) -> String {
    let file = |name: &str| folder.join(name).display().to_string();
    let script = format!(
        "stty rows 24 cols 80; stty -a > {}; {} top --interval 0.2 & echo $! > {}; \
         fg > /dev/null; stty -a > {}",
        file("before"),
        env!("CARGO_BIN_EXE_pantler"),
        file("pid"),
        file("after")
    );
    let mut command = Command::new("script");
    command.args(["-q", "-c", &format!("bash -mc '{script}'"), &file("out")]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).env("SHELL", "/bin/sh");
    let mut child = command.spawn().unwrap();
    let shown = || String::from_utf8_lossy(&fs::read(folder.join("out")).unwrap_or_default()).into_owned();
    eventually("a table is shown", || shown().contains("hold") && shown().contains("references"));
    end(&mut child);
    child.wait().unwrap();
    let settings = |name| fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!(settings("before"), settings("after"));
    let shown = shown();
    let (enters, leaves) = (shown.find("\x1b[?1049h"), shown.rfind("\x1b[?1049l"));
    assert!(enters.is_some() && enters < leaves && shown.rfind("\x1b[?25h") > enters, "{shown:?}");
    shown
}

#[test]
fn a_screen_comes_up_obeys_keys_and_leaves_the_terminal_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let shown = on_a_terminal(folder.path(), |terminal| {
        let mut keys = terminal.stdin.take().unwrap();
        keys.write_all(b"fs").unwrap();
        let out = folder.path().join("out");
        eventually("it shows files", || String::from_utf8_lossy(&fs::read(&out).unwrap()).contains("file"));
        keys.write_all(b"q").unwrap();
    });
    assert!(shown.contains("processes"), "{shown:?}");
    // As by q, so by a signal.
    let folder = tempfile::tempdir().unwrap();
    on_a_terminal(folder.path(), |_| {
        let pid: i32 = fs::read_to_string(folder.path().join("pid")).unwrap().trim().parse().unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
    });
}
