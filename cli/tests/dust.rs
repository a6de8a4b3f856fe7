//! `pantler dust` on the command line: what it prints, writes and refuses, and real caches behind
//! it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn pantler(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pantler"));
    command.args(words).env("PANTLER_RUNTIME_DIR", folder.join("run")).current_dir(folder);
    command.env_remove("SUDO_UID").env_remove("SUDO_GID").stdin(Stdio::null());
    command.output().expect("it runs")
}

fn ok(folder: &Path, words: &[&str]) -> String {
    let output = pantler(folder, words);
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words:?}: {err}");
    String::from_utf8(output.stdout).expect("text")
}

fn json(folder: &Path, words: &[&str]) -> serde_json::Value {
    let line = ok(folder, &[words, &["--json"]].concat());
    assert_eq!(line.lines().count(), 1, "{line}");
    serde_json::from_str(&line).expect("JSON")
}

#[test]
fn a_simulated_cache_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["dust", "policy:2q:in=0.35", "--size", "120", "--noise", "0.02", "--seed", "7"];
    let found = json(folder.path(), &words);
    assert_eq!((found["version"].as_u64(), found["kind"].as_str()), (Some(1), Some("dust")));
    assert_eq!((found["family"].as_str(), found["verdict"].as_str()), (Some("2q"), Some("known")), "{found}");
    let capacity = found["capacity"].as_u64().unwrap();
    let between = |name: &str, at: usize| found[name][at].as_f64().unwrap();
    assert!((118..=122).contains(&capacity) && between("interval", 0) <= 120.0, "{found}");
    assert!(between("interval", 1) >= 120.0 && found["certainty"].as_f64().unwrap() > 0.9, "{found}");
    assert!(found["accesses"].as_u64().unwrap() <= 30 * 120, "{found}");
    assert!((0.33..=0.37).contains(&found["parameters"]["in"].as_f64().unwrap()), "{found}");
    let text = ok(folder.path(), &words);
    assert!(text.starts_with("2q:in=") && text.contains("% certain"), "{text}");
    assert!(text.contains(" blocks  verified on a fresh trace"), "{text}");
}

#[test]
fn the_figures_of_the_paper_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let text = ok(folder.path(), &["dust", "--paper"]);
    for number in 3..=10 {
        assert!(text.contains(&format!("figure {number}: ")), "{text}");
    }
    // Half of a cache is replaced, which is ten eighteenths of a region of nine tenths of it.
    let fifo = "  FIFO                                         ...........#########  the second half stays";
    assert!(text.lines().count() == 8 + 23 + 1 && text.lines().any(|line| line == fifo), "{text}");
}

/// A given option must be heeded.
#[test]
fn options_that_mean_nothing_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let values = [
        ("--size", "90"),
        ("--noise", "0"),
        ("--scratch", "."),
        ("--room", "1G"),
        ("--origin", "127.0.0.1:0"),
    ];
    let values = [&values[..], &[("--value-bytes", "9"), ("--anyway", ""), ("--seed", "1")]].concat();
    let not_of_servers = ["--size", "--noise", "--scratch", "--room"];
    for (asked, name, refused) in [
        (&["redis://127.0.0.1:1"][..], "redis://", &[&not_of_servers[..], &["--origin"]].concat()[..]),
        (&["memcached://127.0.0.1:1"], "memcached://", &[&not_of_servers[..], &["--origin"]].concat()),
        (&["http://127.0.0.1:1"], "http://", &[&not_of_servers[..], &["--anyway"]].concat()),
        (&["policy:lru"], "policy:", &["--scratch", "--room", "--origin", "--value-bytes", "--anyway"]),
        (
            &["pagecache"],
            "pagecache",
            &["--size", "--noise", "--room", "--origin", "--value-bytes", "--anyway"],
        ),
        (
            &["mount", "."],
            "mount",
            &["--size", "--noise", "--scratch", "--origin", "--value-bytes", "--anyway"],
        ),
        (&["--paper"], "--paper", &["--size", "--noise", "--scratch", "--room", "--origin", "--anyway"]),
    ] {
        for (option, value) in values.iter().filter(|(option, _)| refused.contains(option)) {
            let value: &[&str] = if value.is_empty() { &[] } else { &[value] };
            let output = pantler(folder.path(), &[&["dust"], asked, &[option], value].concat());
            let err = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{asked:?} {option}: {err}");
            assert!(err.starts_with(&format!("pantler: {option} is for ")), "{asked:?} {option}: {err}");
            assert!(err.ends_with(&format!(", not for {name}: leave it out\n")), "{asked:?} {option}: {err}");
            assert_eq!(err.lines().count(), 1, "{err}");
        }
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    // An unknown target is refused first.
    let output = pantler(folder.path(), &["dust", "nfs", "--size", "9"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("expected pagecache, mount"));
    // Options of every target are accepted for each.
    let words = ["dust", "policy:lru", "--size", "40", "--noise", "0.01", "--seed", "3", "--json"];
    assert!(pantler(folder.path(), &words).status.success());
}

#[test]
fn nonsense_is_refused_in_a_line() {
    let folder = tempfile::tempdir().unwrap();
    for (words, expected) in [
        (&["dust"][..], "expected a target"),
        (&["dust", "nfs"], "expected pagecache, mount"),
        (&["dust", "mount"], "expected its directory"),
        (&["dust", "pagecache", "/tmp"], "only the target mount takes a directory"),
        (&["dust", "policy:nobody"], "unknown policy"),
        (&["dust", "policy:opt"], "future"),
        (&["dust", "redis://a/b"], "expected redis://HOST"),
        (&["dust", "mount", ".", "--room", "much"], "expected a positive number of bytes"),
    ] {
        let output = pantler(folder.path(), words);
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {err}");
        assert!(err.contains(expected) && output.stdout.is_empty(), "{words:?}: {err}");
    }
    // Without a target the list is shown, a line each.
    let err = String::from_utf8_lossy(&pantler(folder.path(), &["dust"]).stderr).into_owned();
    let lines: Vec<&str> = err.lines().collect();
    assert!(lines.len() > 6 && lines.iter().any(|line| line.starts_with("  redis://HOST")), "{err}");
    // A mount is measured before it is asked, and nothing is left of that.
    let output = pantler(folder.path(), &["dust", "mount", ".", "--room", "50M"]);
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{err}");
    assert!(
        err.contains("for files of 96 MiB (50 MiB are allowed) is missing: allow more with --room"),
        "{err}"
    );
    let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.into_iter().all(|name| !name.to_string_lossy().contains("pantler-dust")));
    // There is no listener.
    let output = pantler(folder.path(), &["dust", "redis://127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(1));
}
