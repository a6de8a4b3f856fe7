//! libCacheSim, from PyPI, as truth from other hands: what they are called is right, and only a few
//! are "unknown".
//!
//! It runs as a process of its own, in the Python that `cargo xtask test-python` prepares
//! (`xtask/requirements-programs.txt`) or the machine's. Where neither has the module `libcachesim`
//! this is skipped, unless `PANTLER_NO_SKIP` is set.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use pantler_dust::{Inquiry, Known, Options, Reading, Script, Target, TargetError, investigate};

/// One line of block numbers is one visit or goes on with it; the answer is a line of 0 and 1.
const PEER: &str = "
import sys, libcachesim
make = getattr(libcachesim, sys.argv[1])
request = libcachesim.Request()
request.obj_size = 1
cache = None
for line in sys.stdin:
    words = line.split()
    if words[0] == 'cold':
        cache = make(cache_size=int(sys.argv[2]))
    said = []
    for block in words[1:]:
        request.obj_id = int(block) + 1
        said.append('1' if cache.get(request) else '0')
    print(''.join(said), flush=True)
";

struct Peer {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Peer {
    fn new(python: &str, cache: &str, capacity: u32) -> Self {
        let mut command = Command::new(python);
        command.args(["-c", PEER, cache, &capacity.to_string()]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python");
        let to = child.stdin.take().expect("piped");
        let from = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, to, from }
    }
}

impl Target for Peer {
    fn run(&mut self, script: &Script) -> Result<Vec<Reading>, TargetError> {
        let failed = |source| TargetError::Io { what: "libcachesim".into(), source };
        let mut line = String::from(if script.cold { "cold" } else { "warm" });
        script.accesses.iter().for_each(|block| line += &format!(" {block}"));
        writeln!(self.to, "{line}").map_err(failed)?;
        let mut said = String::new();
        self.from.read_line(&mut said).map_err(failed)?;
        Ok(said.trim_end().chars().map(|char| Reading::Said { hit: char == '1' }).collect())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Its name, what Dust may call it, and whether it has to: the others differ from what their papers
/// say, so that "unknown" is right, too.
const CACHES: [(&str, &[&str], bool); 14] = [
    ("LRU", &["lru"], true),
    ("FIFO", &["fifo"], true),
    ("LFU", &["lfu"], true),
    ("Clock", &["clock", "gclock"], true),
    ("Sieve", &["sieve"], true),
    ("SLRU", &["slru"], false),
    ("S3FIFO", &["s3-fifo"], true),
    ("ARC", &["arc"], true),
    ("TwoQ", &["2q", "2q-simple"], true),
    ("LIRS", &["lirs"], false),
    ("MQ", &["mq"], true),
    ("WTinyLFU", &["w-tinylfu"], false),
    // Version 0.3.5 keeps the first blocks of a scan, half as many as it may, and refuses all
    // others.
    ("ClockPro", &["clock-pro", "noeviction"], true),
    ("Random", &["random"], true),
];
/// Blocks of each.
const CAPACITY: u32 = 150;

/// A Python that knows it.
fn python() -> Option<String> {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python/environment/bin/python");
    [ours.display().to_string(), "python3".into()].into_iter().find(|python| {
        let mut command = Command::new(python);
        let there = command.args(["-c", "import libcachesim"]).stderr(Stdio::null()).status();
        there.is_ok_and(|status| status.success())
    })
}

#[test]
fn caches_by_other_hands_are_named_and_never_called_what_they_are_not() {
    let Some(python) = python() else {
        assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "no Python has a module libcachesim");
        eprintln!("SKIPPED: no Python has a module libcachesim");
        return;
    };
    let mut wrong = Vec::new();
    for (cache, names, must) in CACHES {
        let mut peer = Peer::new(&python, cache, CAPACITY);
        let verdict = investigate(Inquiry::new(Options::default()), &mut peer).expect("it answers").verdict();
        println!(
            "{cache}: {:?} {} capacity {} mismatch {:.4}, {} accesses",
            verdict.verdict, verdict.policy, verdict.capacity, verdict.mismatch, verdict.accesses
        );
        let right = names.contains(&verdict.family.as_str())
            || verdict.equivalent.iter().any(|name| names.contains(&name.as_str()));
        let known = verdict.verdict == Known::Known;
        // A cache that refuses newcomers is full where that is said above; all others hold what
        // they were told to, and where a policy draws, the interval says it.
        let (least, most) = verdict.interval;
        let sized = verdict.family == "noeviction"
            || verdict.capacity.abs_diff(CAPACITY) <= 2
            || (verdict.family == "random" && (least..=most).contains(&CAPACITY));
        if (known && !right) || (must && !(known && sized)) {
            wrong.push((cache, verdict.verdict, verdict.policy, verdict.capacity));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
