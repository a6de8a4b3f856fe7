//! A mount asked by `pantler dust`, by timing alone. Apart from the other tests, because those
//! would take its time.

use pantler_mount::{Keeper, Lookahead, Mount, MountOptions, Mounted};
use pantler_origin::{OpenFile, Source};
use std::fs;
use std::io::{self, IoSliceMut};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What each read of the origin takes longer. A miss of a fast disk takes as long as a hit that
/// waited for the other processor, and then a busy machine leaves nothing to be told.
const SLOWER: Duration = Duration::from_micros(300);
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

/// A file of a slower disk.
struct Slow(Arc<OpenFile>);

impl Source for Slow {
    fn read_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        std::thread::sleep(SLOWER);
        self.0.read_at(offset, buffers)
    }
}

/// Where mounts are made, and what is served there.
struct Scene {
    _alone: MutexGuard<'static, ()>,
    folder: tempfile::TempDir,
}

impl Scene {
    /// Nothing where mounts cannot be made; says so.
    fn new() -> Option<Self> {
        if !is_root() {
            return None;
        }
        let alone = alone();
        // On a disk, and what was written before is not in its way.
        rustix::fs::sync();
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        for name in ["origin", "mnt"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Some(Self { _alone: alone, folder })
    }

    fn point(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }

    /// A new mount: what a policy such as ARC has adapted to outlives its blocks.
    fn mount(&self, policy: &str, choose: impl FnOnce(&mut MountOptions)) -> Mounted {
        let mut options = MountOptions::new(self.folder.path().join("origin"), self.point());
        (options.cache_bytes, options.block_bytes) = (1 << 20, 4 << 10);
        options.frames = Keeper::Own;
        options.policy = Some(policy.parse().unwrap());
        options.interpose = Some(Arc::new(|file| Arc::new(Slow(file)) as _));
        choose(&mut options);
        Mount::new(options).unwrap().spawn().unwrap()
    }

    /// What the mount says when it is asked.
    fn asked(&self, seed: u32) -> serde_json::Value {
        let point = self.point().display().to_string();
        let output =
            pantler(self.folder.path(), &["dust", "mount", &point, "--json", "--seed", &seed.to_string()]);
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect(&err);
        println!("seed {seed}: {:.400}", found.to_string());
        found
    }
}

fn pantler(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pantler"));
    command.args(words).env("PANTLER_RUNTIME_DIR", folder.join("run")).current_dir(folder);
    command.env_remove("SUDO_UID").env_remove("SUDO_GID").stdin(Stdio::null());
    command.output().expect("it runs")
}

/// Times are measured: one test at a time, so that none is the noise of another.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether mounts and control groups can be made; says so where not.
fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    let fuse = fs::File::options().read(true).write(true).open("/dev/fuse").is_ok();
    if root && fuse {
        return true;
    }
    assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "a mount needs root and /dev/fuse");
    eprintln!("SKIPPED: a mount needs root and /dev/fuse");
    false
}

#[test]
fn a_mount_with_each_of_ten_policies_is_named_by_timing_alone() {
    let Some(scene) = Scene::new() else { return };
    let (mut wrong, mut unknown) = (Vec::new(), 0);
    for policy in ["lru", "mru", "fifo", "lfu", "clock", "2q", "arc", "sieve", "lrfu", "w-tinylfu"] {
        let (mut answer, mut nearest) = (String::new(), String::new());
        let mut calm = 0;
        let begin = Instant::now();
        for attempt in (1..).take_while(|attempt| *attempt <= ATTEMPTS_MAX || begin.elapsed() < PATIENCE) {
            let start = Instant::now();
            let mounted = scene.mount(policy, |options| {
                (options.threads, options.lookahead) = (1, Lookahead::None);
            });
            let found = scene.asked(attempt);
            mounted.unmount().unwrap();
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
            if nearest == policy {
                break;
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

/// With the lookahead that a mount has by itself `dust` was certain and wrong three times of
/// eleven.
#[test]
fn a_mount_as_it_comes_is_named_right_or_not_at_all() {
    let Some(scene) = Scene::new() else { return };
    for policy in ["lru", "fifo", "arc", "s3-fifo"] {
        // Blocks of one page: of larger ones a mount keeps the pages that are read, and Dust sees
        // two sizes at once.
        for seed in 1..=2 {
            let mounted = scene.mount(policy, |_| {});
            let frames = mounted.counters().capacity_blocks as f64;
            let found = scene.asked(seed);
            if found["verdict"] == "known" {
                let blocks = found["capacity"].as_f64().expect("a number");
                assert_eq!(found["family"], policy, "{found}");
                assert!((blocks - frames).abs() < 0.1 * frames, "{policy}: {found}");
            }
            mounted.unmount().unwrap();
        }
    }
    // One that fetches ahead whatever is read is told so, and what to do about it.
    let mounted = scene.mount("lru", |options| {
        (options.cache_bytes, options.block_bytes) = (8 << 20, 32 << 10);
        options.lookahead = Lookahead::Obl;
    });
    let begin = Instant::now();
    let told =
        (1..).take_while(|attempt| *attempt <= ATTEMPTS || begin.elapsed() < PATIENCE).any(|attempt| {
            let found = scene.asked(attempt);
            assert_eq!(
                (&found["verdict"], found["certainty"].as_f64()),
                (&"unknown".into(), Some(0.0)),
                "{found}"
            );
            found["doubt"] == "fetches-ahead"
        });
    assert!(told, "nothing was said about lookahead");
    mounted.unmount().unwrap();
}
