//! A mount asked by `pantler dust`, by timing alone. Apart from the other tests, because those
//! would take its time.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often a mount is asked that remains unknown while the machine seems calm; where it is, once
/// is enough.
const ATTEMPTS: u32 = 6;
/// The same, and for how long, whatever the machine does.
const ATTEMPTS_MAX: u32 = 10;
const PATIENCE: Duration = Duration::from_secs(240);
/// After an attempt on a machine that was busy with something else.
const PAUSE: Duration = Duration::from_secs(2);
/// The policy that counts by a hash.
const HASHED: &str = "w-tinylfu";
/// Noise from which on something else took the time of the reads: a calm machine has less than a
/// fifth of that.
const NOISY: f64 = 0.03;

fn pantler(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pantler"));
    command.args(words).env("PANTLER_RUNTIME_DIR", folder.join("run")).current_dir(folder);
    command.env_remove("SUDO_UID").env_remove("SUDO_GID").stdin(Stdio::null());
    command.output().expect("it runs")
}

fn ok(folder: &Path, words: &[&str]) {
    let output = pantler(folder, words);
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words:?}: {err}");
}

/// Times are measured: one test at a time, so that none is the noise of another.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether mounts and control groups can be made; says so where not.
fn is_root(what: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    let fuse = fs::File::options().read(true).write(true).open("/dev/fuse").is_ok();
    if root && fuse {
        return true;
    }
    assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "{what} needs root and /dev/fuse");
    eprintln!("SKIPPED: {what} needs root and /dev/fuse");
    false
}

#[test]
fn a_mount_with_each_of_ten_policies_is_named_by_timing_alone() {
    if !is_root("a mount") {
        return;
    }
    let _alone = alone();
    // On a disk, so that a miss takes longer than a hit; and what was written before is not in its
    // way.
    rustix::fs::sync();
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    for name in ["origin", "mnt"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    let point = folder.path().join("mnt").display().to_string();
    let (mut wrong, mut unknown) = (Vec::new(), 0);
    for policy in ["lru", "mru", "fifo", "lfu", "clock", "2q", "arc", "sieve", "lrfu", "w-tinylfu"] {
        let origin = folder.path().join("origin").display().to_string();
        let cache = [
            "--cache",
            "1M",
            "--block-size",
            "4K",
            "--threads",
            "1",
            "--lookahead",
            "none",
            "--policy",
            policy,
        ];
        let (mut answer, mut nearest) = (String::new(), String::new());
        let mut calm = 0;
        let begin = Instant::now();
        for attempt in (1..).take_while(|attempt| *attempt <= ATTEMPTS_MAX || begin.elapsed() < PATIENCE) {
            let start = Instant::now();
            // A new mount: what a policy such as ARC has adapted to outlives its blocks.
            ok(folder.path(), &[&["mount", &origin, &point][..], &cache].concat());
            let found = asked(folder.path(), &point, attempt);
            ok(folder.path(), &["umount", &point]);
            println!("{policy}: {:.1?}", start.elapsed());
            // A machine that is busy with something else makes for honest doubt, never for another
            // name.
            if found["verdict"] == "known" {
                answer = found["family"].as_str().unwrap_or_default().to_owned();
                break;
            }
            // The sketch of a mount hashes blocks with a seed of its own, which no candidate has
            // (decision 0076): it may be contradicted in a few blocks, and then it has to be the
            // nearest.
            if policy == HASHED && found["doubt"].is_null() {
                nearest = found["family"].as_str().unwrap_or_default().to_owned();
            }
            let is_calm = found["noise"].as_f64().is_some_and(|noise| noise < NOISY);
            calm += u32::from(is_calm);
            if calm == ATTEMPTS {
                break;
            }
            if !is_calm {
                std::thread::sleep(PAUSE);
            }
        }
        if answer.is_empty() && nearest == policy {
            println!("{policy} is the nearest");
        } else if answer.is_empty() {
            eprintln!("{policy} remains unknown");
            unknown += 1;
        } else if answer != policy {
            wrong.push((policy, answer));
        }
    }
    assert_eq!(unknown, 0, "{unknown} of 10 remain unknown");
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// What a mount says when it is asked.
fn asked(folder: &Path, point: &str, seed: u32) -> serde_json::Value {
    let output = pantler(folder, &["dust", "mount", point, "--json", "--seed", &seed.to_string()]);
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect(&err);
    println!("seed {seed}: {:.400}", found.to_string());
    found
}

/// With the lookahead that a mount has by itself `dust` was certain and wrong three times of
/// eleven.
#[test]
fn a_mount_as_it_comes_is_named_right_or_not_at_all() {
    if !is_root("a mount") {
        return;
    }
    let _alone = alone();
    rustix::fs::sync();
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    for name in ["origin", "mnt"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    let [origin, point] = ["origin", "mnt"].map(|name| folder.path().join(name).display().to_string());
    let mount = |sizes: [&str; 2], policy: &str, more: &[&str]| {
        let [cache, block] = sizes;
        let words = ["mount", &origin, &point, "--cache", cache, "--block-size", block, "--policy", policy];
        ok(folder.path(), &[&words[..], more].concat());
        let stat = pantler(folder.path(), &["stat", &point, "--json"]).stdout;
        let stat: serde_json::Value = serde_json::from_slice(&stat).expect("JSON");
        stat["body"]["capacity_blocks"].as_f64().expect("a number")
    };
    for policy in ["lru", "fifo", "arc", "s3-fifo"] {
        // Blocks of one page: of larger ones a mount keeps the pages that are read, and Dust sees
        // two sizes at once.
        for seed in 1..=3 {
            // A new mount: what a policy such as ARC has adapted to outlives its blocks.
            let frames = mount(["1M", "4K"], policy, &[]);
            let found = asked(folder.path(), &point, seed);
            if found["verdict"] == "known" {
                let blocks = found["capacity"].as_f64().expect("a number");
                assert_eq!(found["family"], policy, "{found}");
                assert!((blocks - frames).abs() < 0.1 * frames, "{policy}: {found}");
            }
            ok(folder.path(), &["umount", &point]);
        }
    }
    // One that fetches ahead whatever is read is told so, and what to do about it.
    mount(["8M", "32K"], "lru", &["--lookahead", "obl"]);
    let begin = Instant::now();
    let told =
        (1..).take_while(|attempt| *attempt <= ATTEMPTS || begin.elapsed() < PATIENCE).any(|attempt| {
            let found = asked(folder.path(), &point, attempt);
            assert_eq!(
                (&found["verdict"], found["certainty"].as_f64()),
                (&"unknown".into(), Some(0.0)),
                "{found}"
            );
            found["doubt"] == "fetches-ahead"
        });
    assert!(told, "nothing was said about lookahead");
    ok(folder.path(), &["umount", &point]);
}
