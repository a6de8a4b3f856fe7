//! Transcripts of `pantler sim`: the contract of `docs/JSON.md` field by field, and what is said of
//! mistakes.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Four blocks, two owners: small enough to count by hand.
const OWNERS: &str = "owner,file,block\na,x,1\nb,y,1\na,x,2\na,x,1\nb,y,1\na,x,2\n";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// Status, standard output, standard error.
fn sim(words: &[&str]) -> (i32, String, String) {
    let output = command(words).stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pantler"));
    command.arg("sim").args(words).env_remove("PANTLER_LOG");
    command
}

fn lines(words: &[&str]) -> Vec<Value> {
    let (status, out, err) = sim(words);
    assert_eq!(status, 0, "{words:?}: {err}");
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn refused(words: &[&str], expected: &str) {
    let (status, out, err) = sim(words);
    assert_eq!((status, out.as_str()), (2, ""), "{words:?}: {err}");
    assert_eq!(err, format!("pantler: {expected}\n"), "{words:?}");
}

fn numbers(folder: &Folder) -> String {
    folder.file("numbers", "1\n2\n3\n1\n2\n3\n1\n2\n3\n1\n")
}

#[test]
fn one_object_per_run_and_line() {
    let folder = Folder::new();
    let trace = numbers(&folder);
    let found = lines(&[&trace, "--policy", "lru,min,fifo", "--size", "2,3", "--json"]);
    let object = |policy: &str, size: u32, misses: u32| {
        json!({
            "trace": trace, "policy": policy, "size": size, "requests": 10, "misses": misses,
            "hit_ratio": f64::from(10 - misses) / 10.0, "footprint": 3, "unit": "object", "warm_up": 0,
            "version": 1, "kind": "sim",
        })
    };
    let expected =
        [("lru", 2, 10), ("lru", 3, 3), ("opt", 2, 6), ("opt", 3, 3), ("fifo", 2, 10), ("fifo", 3, 3)];
    assert_eq!(found, expected.map(|(policy, size, misses)| object(policy, size, misses)));
    // The words of the contract come first, in its order.
    let (_, out, _) = sim(&[&trace, "--size", "2", "--json"]);
    let start = format!(
        "{{\"trace\":{},\"policy\":\"lru\",\"size\":2,\"requests\":10,\"misses\":10,\"hit_ratio\":0.0,",
        json!(trace)
    );
    assert!(out.starts_with(&start), "{out}");
}

#[test]
fn lookahead_says_what_it_brought() {
    let folder = Folder::new();
    let text: String = (0..20).map(|number| format!("{number}\n")).collect();
    let trace = folder.file("scan", &text);
    let words = ["--size", "5", "--lookahead", "none,sa-w2r", "--json"];
    let found = lines(&[&[trace.as_str()], &words[..]].concat());
    let object = |lookahead: &str, misses: u32, prefetched: u32, used: u32, room: f64| {
        json!({
            "trace": trace, "policy": "lru", "size": 5, "requests": 20, "misses": misses,
            "hit_ratio": f64::from(20 - misses) / 20.0, "lookahead": lookahead, "window": 1,
            "prefetched": prefetched, "used": used, "wasted": 0, "room": room, "footprint": 20,
            "unit": "object", "warm_up": 0, "version": 1, "kind": "sim",
        })
    };
    assert_eq!(found, [object("none", 20, 0, 0, 0.0), object("sa-w2r", 1, 20, 19, 1.0)]);
    let expected = "expected one of none, obl, obl-2, w2r, sa-w2r, streams";
    let mistaken = format!("unknown lookahead \"sa-wr2\" (did you mean \"sa-w2r\"?): {expected}");
    refused(&[&trace, "--lookahead", "sa-wr2"], &mistaken);
    let future = "policy opt knows the future: nothing is looked ahead beside it";
    refused(&[&trace, "--policy", "opt", "--lookahead", "obl"], future);
}

#[test]
fn sizes_are_blocks_bytes_or_shares() {
    let folder = Folder::new();
    let trace = folder.file("t.csv", "offset,length\n0,8192\n4096,4096\n65536,16384\n0,4096\n");
    let sizes = |words: &[&str]| -> Vec<u64> {
        let words = [&[trace.as_str(), "--json"], words].concat();
        lines(&words).iter().map(|line| line["size"].as_u64().unwrap()).collect()
    };
    assert_eq!(sizes(&["--unit", "block:4096", "--size", "5,16K,50%,100%"]), [5, 4, 3, 6]);
    assert_eq!(sizes(&["--unit", "block:4096", "--size", "1..4/4"]), [1, 2, 3, 4]);
    let blocks = &lines(&[&trace, "--unit", "block:4096", "--size", "6", "--json"])[0];
    assert_eq!(
        (&blocks["requests"], &blocks["misses"], &blocks["unit"]),
        (&json!(8), &json!(6), &json!("block:4096"))
    );
    assert_eq!(blocks["byte_hit_ratio"], json!(0.25));
    let objects = &lines(&[&trace, "--size", "6", "--json"])[0];
    assert_eq!((&objects["requests"], &objects["unit"]), (&json!(4), &json!("object")));
}

#[test]
fn bytes_of_objects_of_one_size() {
    let folder = Folder::new();
    let csv = folder.file("u.csv", "block,size\n1,4096\n2,4096\n1,4096\n");
    let general = folder.path("u.oracleGeneral");
    let record = |(at, object): (u32, u64)| {
        let never = (-1_i64).to_le_bytes();
        [&at.to_le_bytes()[..], &object.to_le_bytes(), &4096_u32.to_le_bytes(), &never].concat()
    };
    let bytes: Vec<u8> = (0..).zip([1_u64, 2, 1]).flat_map(record).collect();
    std::fs::write(&general, bytes).unwrap();
    for trace in [&csv, general.to_str().unwrap()] {
        let found = &lines(&[trace, "--size", "8K", "--json"])[0];
        let said = (&found["size"], &found["hit_ratio"], &found["byte_hit_ratio"]);
        assert_eq!(said, (&json!(2), &json!(1.0 / 3.0), &json!(1.0 / 3.0)), "{trace}");
    }
}

#[test]
fn a_seed_is_of_policies_that_draw() {
    let trace = "zipf:ids=500,requests=5000,alpha=0.8";
    let policies = "random,random:seed=7,redis-lru,lru";
    let run = |seed: &str| {
        let found = lines(&[trace, "--policy", policies, "--size", "50", "--seed", seed, "--json"]);
        let said = |line: &Value| (line["policy"].as_str().unwrap().to_owned(), line["misses"].clone());
        found.iter().map(said).collect::<Vec<_>>()
    };
    let (one, two) = (run("1"), run("2"));
    let names = |run: &[(String, Value)]| run.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&one), ["random", "random:seed=7", "redis-lru", "lru"]);
    assert_eq!(names(&two), ["random:seed=2", "random:seed=7", "redis-lru:seed=2", "lru"]);
    assert!(one[0].1 != two[0].1 && one[2].1 != two[2].1, "{one:?} {two:?}");
    assert_eq!((&one[1].1, &one[3].1), (&two[1].1, &two[3].1), "a seed of its own, and none at all");
}

#[test]
fn revocation_is_of_allocations() {
    let folder = Folder::new();
    let trace = folder.file("o.csv", OWNERS);
    let (status, _, err) = sim(&[&trace, "--revocation", "banana"]);
    assert!(status == 2 && err.contains("--allocation"), "{err}");
    let expected = "expected never, default, or NEEDED,PERCENT";
    for bad in ["banana", "1000,500,40", "1,-2"] {
        let words = [&trace, "--allocation", "lru-sp", "--size", "2", "--revocation", bad];
        refused(&words, &format!("revocation {bad:?}: {expected}"));
    }
}

#[test]
fn warm_up_is_said() {
    let folder = Folder::new();
    let trace = numbers(&folder);
    for (words, warm_up, requests) in [("4", 4, 6), ("50%", 5, 5), ("99", 99, 0)] {
        let found = &lines(&[&trace, "--size", "3", "--warm-up", words, "--json"])[0];
        assert_eq!((&found["warm_up"], &found["requests"]), (&json!(warm_up), &json!(requests)));
    }
}

#[test]
fn owners_share_under_control() {
    let folder = Folder::new();
    let trace = folder.file("o.csv", OWNERS);
    let control = folder.file("c.toml", "[a.policies]\n0 = \"mru\"\n[a.priorities]\nx = 1\n");
    let words = [&trace, "--allocation", "lru-sp", "--control", &control, "--size", "2", "--json"];
    let (status, out, err) = sim(&words);
    assert_eq!((status, err.as_str()), (0, ""));
    // a,x,1 and b,y,1 fill the cache. a,x,2 takes the place of a,x,1, which is the candidate and
    // a's only block; the next a,x,1 finds b's block at the LRU end; and so on in turns.
    let expected = json!({
        "allocation": "lru-sp", "size": 2,
        "owners": {
            "a": {"requests": 4, "misses": 4, "overrules": 0, "mistakes": 0},
            "b": {"requests": 2, "misses": 2, "overrules": 0, "mistakes": 0},
        },
        "trace": trace, "requests": 6, "misses": 6, "hit_ratio": 0.0, "revocations": 0, "footprint": 3,
        "unit": "object", "warm_up": 0, "version": 1, "kind": "sim",
    });
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), expected);
    assert!(out.contains("\"owners\":{\"a\":{\"requests\":4,"), "{out}");
    // The same trace under a plain policy tells owners apart, too.
    let found = &lines(&[&trace, "--size", "3", "--json"])[0];
    let owners = json!({"a": {"requests": 4, "misses": 2}, "b": {"requests": 2, "misses": 1}});
    assert_eq!(found["owners"], owners);
}

#[test]
fn control_decides_who_leaves() {
    let folder = Folder::new();
    // One owner scans four blocks in turns with three frames; as in the steward's own example, MRU
    // keeps two.
    let rounds: String = (0..40).map(|at| format!("s,f,{}\n", at % 4)).collect();
    let trace = folder.file("s.csv", &format!("owner,file,block\n{rounds}"));
    let control = folder.file("c.toml", "[s.policies]\n0 = \"mru\"\n");
    let misses = |allocation: &str| {
        let words = [&trace, "--allocation", allocation, "--control", &control, "--size", "3", "--json"];
        let found = &lines(&words)[0]["owners"]["s"];
        (found["misses"].as_u64().unwrap(), found["overrules"].as_u64().unwrap())
    };
    assert_eq!(misses("global-lru"), (40, 0));
    for allocation in ["alloc-lru", "lru-s", "lru-sp"] {
        let (misses, overrules) = misses(allocation);
        assert_eq!(misses, 16, "{allocation}");
        assert!(overrules > 0, "{allocation}");
    }
}

#[test]
fn strangers_in_control_are_mentioned() {
    let folder = Folder::new();
    let trace = folder.file("o.csv", OWNERS);
    let control = folder.file("c.toml", "[aa.policies]\n0 = \"mru\"\n[b.priorities]\nz = 1\n");
    let words = [&trace, "--allocation", "lru-sp,lru-s", "--control", &control, "--size", "2", "--json"];
    let (status, out, err) = sim(&words);
    assert_eq!((status, out.lines().count()), (0, 2));
    let expected = "pantler: control names owner \"aa\", which the trace does not have; the nearest is \"a\"\n\
        pantler: control names file \"z\", which the trace does not have; the nearest is \"x\"\n";
    assert_eq!(err, expected);
}

#[test]
fn people_get_a_table() {
    let folder = Folder::new();
    let trace = numbers(&folder);
    let (status, out, err) = sim(&[&trace, "--policy", "lru,opt", "--size", "2,3"]);
    assert_eq!((status, err.as_str()), (0, ""));
    let expected = format!(
        "{trace}: 10 requests, 3 objects\n  \
        size    share     lru     opt\n     \
        2   66.67%   0.00%  40.00%\n     \
        3  100.00%  70.00%  70.00%\n"
    );
    assert_eq!(out, expected);
}

#[test]
fn mistakes_are_one_line_with_the_nearest_name() {
    let folder = Folder::new();
    let trace = numbers(&folder);
    let trace = trace.as_str();
    refused(
        &[trace, "--policy", "fifa"],
        "unknown policy \"fifa\" (did you mean \"fifo\"?): --policy help lists all",
    );
    refused(&[trace, "--policy", "lru:k=2"], "policy `lru` has no parameters, `k` was given");
    refused(
        &[trace, "--size", "5x"],
        "size \"5x\": expected blocks such as 1000 (at most 4294967293), bytes such as 64M, a share such as 10%, or a range such as 1%..50%",
    );
    refused(
        &[trace, "--size", "64M"],
        "size 64M: the trace gives keys and not how many bytes each has: expected blocks such as 1000, or a share such as 10% \
         (--unit block:BYTES splits requests that are ranges of bytes, and here there are none)",
    );
    refused(
        &[trace, "--unit", "block:4096"],
        "unit \"block:4096\": expected object: this lirs trace gives keys and no ranges of bytes",
    );
    refused(
        &["loop:ids=9,requests=99", "--unit", "block:4096"],
        "unit \"block:4096\": expected object: a generated trace gives keys and no ranges of bytes",
    );
    let (_, _, err) = sim(&[trace, "--format", "lirz"]);
    assert!(
        err.starts_with("pantler: invalid value 'lirz' for '--format <NAME>': ") && err.contains("\"lirs\"?"),
        "{err}"
    );
    let (status, _, err) = sim(&[trace, "--unit", "block:1000"]);
    assert_eq!((status, err.lines().count()), (2, 1), "{err}");
    refused(
        &[trace, "--allocation", "lru-sq"],
        "unknown allocation \"lru-sq\" (did you mean \"lru-s\"?): \
        expected one of global-lru, alloc-lru, lru-s, lru-sp",
    );
    refused(
        &[trace, "--allocation", "lru-sp,global-lru", "--common-policy", "mru"],
        "common policy \"mru\": global-lru has one LRU list for all owners and no policy for some; choose another allocation",
    );
    assert_eq!(sim(&[trace, "--allocation", "global-lru", "--common-policy", "lru"]).0, 0);
    let control = folder.file("c.toml", "[a.policies]\n0 = \"mro\"\n");
    let (status, _, err) = sim(&[trace, "--allocation", "lru-sp", "--control", &control]);
    assert_eq!(status, 2);
    assert!(err.starts_with(&format!("pantler: {control}:2:5: unknown policy `mro`")), "{err}");
    refused(&[], "expected a trace, see pantler sim --help");
    for (words, expected) in [
        (["--warm-up", "x"], "warm-up \"x\": expected references such as 10000, or a share such as 10%"),
        (["--revocation", "x"], "revocation \"x\": expected never, default, or NEEDED,PERCENT"),
    ] {
        let allocation: &[&str] = if words[0] == "--revocation" { &["--allocation", "lru-s"] } else { &[] };
        refused(&[&[trace], &words[..], allocation].concat(), expected);
    }
    let (status, out, err) = sim(&["/no/such/trace"]);
    assert_eq!((status, out.as_str(), err.lines().count()), (2, "", 1), "{err}");
}

/// What is named twice is run once, and that is no secret.
#[test]
fn repeats_are_remarked() {
    let folder = Folder::new();
    let trace = numbers(&folder);
    let (status, out, err) = sim(&[&trace, "--policy", "opt,lru,min", "--size", "1,2,50%,2", "--json"]);
    assert_eq!((status, out.lines().count()), (0, 4), "{err}");
    assert_eq!(
        err,
        format!(
            "pantler: policy opt was named more than once, and is run once\n\
             pantler: {trace}: 4 sizes are 2 different numbers of blocks, and each is run once\n"
        )
    );
    let (_, out, err) = sim(&[&trace, "--allocation", "lru-s,lru-s", "--size", "2", "--json"]);
    assert_eq!(
        (out.lines().count(), err.as_str()),
        (1, "pantler: allocation lru-s was named more than once, and is run once\n")
    );
}

#[test]
fn help_lists_policies_with_parameters() {
    let (status, out, err) = sim(&["--policy", "help"]);
    assert_eq!((status, err.as_str()), (0, ""));
    for known in pantler_policy::Spec::all() {
        assert!(out.contains(&format!("  {:<16} {}\n", known.name, known.summary)), "{}", known.name);
    }
}

#[test]
fn bad_lines_fail() {
    let folder = Folder::new();
    let trace = folder.file("t.csv", "owner,file,block\na,x,1\na,x,oops\na,x,1\n");
    let (status, out, err) = sim(&[&trace, "--size", "1", "--json"]);
    assert_eq!((status, out.as_str()), (1, ""));
    assert!(err.contains("line 3"), "{err}");
}

/// Runs until the first result, then interrupts.
#[test]
fn an_interrupt_shows_what_is_done() {
    let folder = Folder::new();
    let text: String = (0..400_000_u64).map(|at| format!("{}\n", at * at % 10_007)).collect();
    let trace = folder.file("long", &text);
    let sizes = (1..=3000).map(|size| size.to_string()).collect::<Vec<_>>().join(",");
    let words = [&trace, "--policy", "fifo", "--size", &sizes, "--json", "--threads", "1"];
    let mut child = command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    std::io::Read::read_to_string(&mut out, &mut line).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let found: Vec<Value> = line.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!found.is_empty() && found.len() < 3000, "{} results", found.len());
    for (index, record) in found.iter().enumerate() {
        assert_eq!((&record["size"], &record["requests"]), (&json!(index + 1), &json!(400_000)));
    }
    assert!(Path::new(&trace).exists());
}

/// Hundreds of runs that take a while each, and the words for them.
fn long(folder: &Folder) -> (String, String) {
    let text: String = (0..400_000_u64).map(|at| format!("{}\n", at * at % 10_007)).collect();
    let sizes = (1..=3000).map(|size| size.to_string()).collect::<Vec<_>>().join(",");
    (folder.file("long", &text), sizes)
}

#[test]
fn an_impatient_interrupt_shows_what_is_done_too() {
    let folder = Folder::new();
    let (trace, sizes) = long(&folder);
    let words = [&trace, "--policy", "fifo", "--size", &sizes, "--threads", "1", "--progress"];
    let mut child = command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The first tenth is told after two seconds.
    let mut err = std::io::BufReader::new(child.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut err, &mut String::new()).unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    for _ in 0..2 {
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    }
    let output = child.wait_with_output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(out.starts_with(&format!("{trace}: 400,000 requests")), "{out}");
    assert!((4..3000).contains(&out.lines().count()), "{out}");
}

/// Interrupts once while a trace without end is read from standard input: what it shows, and what
/// remains to be said.
fn interrupted_while_reading(words: &[&str]) -> (String, String) {
    let mut child =
        command(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // More than a pipe holds: once it is gone, it is being read.
    let text: String = (0..300_000_u64).map(|at| format!("{}\n", at * at % 10_007)).collect();
    std::io::Write::write_all(&mut input, text.as_bytes()).unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let start = std::time::Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > std::time::Duration::from_secs(20) {
            child.kill().unwrap();
            panic!("one interrupt did not end {words:?}");
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // Until here the trace could have gone on.
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{words:?}");
    (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn an_interrupt_while_a_trace_is_read_shows_what_is_done() {
    let folder = Folder::new();
    let trace = numbers(&folder);
    let lirs = ["--format", "lirs", "--policy", "lru,fifo", "--size", "2,3"];
    let (out, err) = interrupted_while_reading(&[&[trace.as_str(), "-", "--json"], &lirs[..]].concat());
    let found: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(found.len(), 4, "{out}");
    assert!(found.iter().all(|record| record["trace"] == json!(trace) && record["requests"] == json!(10)));
    assert_eq!(err, "");
    let (out, _) = interrupted_while_reading(&[&[trace.as_str(), "-"], &lirs[..]].concat());
    assert!(out.starts_with(&format!("{trace}: 10 requests")) && out.lines().count() == 4, "{out}");
    let (out, _) = interrupted_while_reading(&[&["-"], &lirs[..]].concat());
    assert_eq!(out, "", "nothing was done");
}

#[test]
fn a_reader_that_goes_away_ends_the_sweep() {
    let folder = Folder::new();
    let (trace, sizes) = long(&folder);
    let words = [&trace, "--policy", "fifo", "--size", &sizes, "--json", "--threads", "1"];
    let mut child = command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = std::io::BufReader::with_capacity(1, child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut String::new()).unwrap();
    drop(out);
    let start = std::time::Instant::now();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
    assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
}

#[test]
fn a_trace_that_fails_leaves_the_rows_of_those_before() {
    let folder = Folder::new();
    let trace = numbers(&folder);
    let bad = folder.file("bad", "1\nx\n");
    let (status, out, err) = sim(&[&trace, &bad, "--format", "lirs", "--policy", "lru", "--size", "2,3"]);
    assert_eq!(status, 1);
    assert!(out.starts_with(&format!("{trace}: 10 requests")) && out.lines().count() >= 4, "{out}");
    assert!(err.starts_with(&format!("pantler: {bad}: line 2: \"x\": expected")), "{err}");
}

#[test]
fn a_generator_without_parameters_is_told_what_they_are() {
    refused(
        &["zipf"],
        "trace \"zipf\": expected a file, or that generator with its parameters, zipf:KEY=VALUE,...: \
         ids, requests, alpha=1, order=rank|shuffled, seed=1",
    );
}

#[test]
fn lookahead_takes_any_size() {
    let folder = Folder::new();
    let trace = numbers(&folder);
    let words = [&trace, "--policy", "w-tinylfu", "--lookahead", "obl", "--size", "4294967293", "--json"];
    assert_eq!(lines(&words)[0]["misses"], 1);
    refused(
        &[&trace, "--size", "4294967295"],
        "size \"4294967295\": expected blocks such as 1000 (at most 4294967293), bytes such as 64M, \
         a share such as 10%, or a range such as 1%..50%",
    );
}

#[test]
fn tiers_give_one_object_per_protocol() {
    let trace = "loop:ids=96,requests=960";
    let words =
        ["tiers", trace, "--protocol", "uni-lru,ulc", "--sizes", "64,64,64", "--warm-up", "0.1", "--json"];
    let records = lines(&words);
    assert_eq!(records.len(), 2);
    let [uni, ulc] = &records[..] else { panic!("{records:?}") };
    let known = [
        "protocol",
        "sizes",
        "requests",
        "hit_ratios",
        "demotion_rates",
        "average_time_ms",
        "miss_ratio",
        "placement_rates",
        "messages",
        "notices",
        "clients",
        "trace",
        "footprint",
        "unit",
        "warm_up",
        "version",
        "kind",
    ];
    for record in &records {
        assert!(record.as_object().unwrap().keys().all(|key| known.contains(&key.as_str())), "{record}");
    }
    assert_eq!((&uni["protocol"], &uni["kind"]), (&json!("uni-lru"), &json!("sim-tiers")));
    assert_eq!((&uni["hit_ratios"], &uni["demotion_rates"]), (&json!([0.0, 1.0, 0.0]), &json!([1.0, 0.0])));
    assert_eq!((&ulc["sizes"], &ulc["requests"]), (&json!([64, 64, 64]), &json!(864)));
    assert_eq!(ulc["demotion_rates"], json!([0.0, 0.0]));
    refused(
        &["tiers", trace, "--protocol", "ulk"],
        "unknown protocol \"ulk\" (did you mean \"ulc\"?): --protocol help lists all",
    );
    refused(
        &["tiers", trace, "--sizes", "1..4"],
        "sizes \"1..4\": expected one size for each tier, no range",
    );
}

#[test]
fn tiers_and_localities_are_shown() {
    let (status, out, err) = sim(&["tiers", "loop:ids=96,requests=960", "--sizes", "64,64"]);
    assert_eq!(status, 0, "{err}");
    assert!(out.lines().any(|line| line.contains("uni-lru") && line.ends_with(" ms")), "{out}");
    let records =
        lines(&["localities", "loop:ids=20,requests=200", "--segments", "4", "--measure", "rd", "--json"]);
    assert_eq!(
        (&records[0]["measure"], &records[0]["reference_ratios"]),
        (&json!("rd"), &json!([0.0, 0.0, 0.0, 0.9]))
    );
}
