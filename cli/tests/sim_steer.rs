//! Transcripts of `pantler sim --body steer`: the contract of `docs/JSON.md`, and what is refused.

use serde_json::Value;
use std::process::{Command, Stdio};

const CYCLE: &str = "loop:ids=3000,requests=30000";

/// Status, standard output, standard error.
fn sim(words: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pantler"));
    command.args(["sim", "--body", "steer"]).args(words).env_remove("PANTLER_LOG").stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

#[test]
fn a_cycle_under_mru_reads_far_less_than_the_kernel_alone() {
    let (status, out, err) = sim(&[CYCLE, "--size", "2000", "--policy", "lru,mru", "--json"]);
    assert_eq!((status, err.as_str()), (0, ""));
    let records: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let field = |record: &Value, name: &str| record[name].as_u64().unwrap();
    let [lru, mru] = &records[..] else { panic!("{out}") };
    for record in [lru, mru] {
        assert_eq!((field(record, "references"), field(record, "size")), (30_000, 2000));
        assert_eq!((record["kind"].as_str(), record["body"].as_str()), (Some("sim-steer"), Some("steer")));
        assert!(field(record, "resident_peak") <= 2000, "{record}");
    }
    // 3000 at first, then 1000 for each of nine rounds; what is read ahead and evicted comes on
    // top.
    let ideal = 12_000;
    let reads = field(mru, "device_reads");
    assert!((ideal..ideal * 13 / 10).contains(&reads), "{mru}");
    assert!(field(mru, "kernel_device_reads") > 2 * reads, "{mru}");
    assert!(field(lru, "device_reads") > 29_000, "{lru}");
}

#[test]
fn the_kernel_evicts_in_the_order_that_is_named() {
    let run = |kernel: &[&str]| -> Value {
        let words = ["zipf:ids=6000,requests=60000", "--size", "2000", "--json"];
        let (status, out, err) = sim(&[&words[..], kernel].concat());
        assert_eq!((status, err.as_str()), (0, ""));
        serde_json::from_str(&out).unwrap()
    };
    let kernels = [&[][..], &["--kernel", "mglru"], &["--kernel", "mglru:rework=1"]].map(run);
    assert_eq!(
        kernels.each_ref().map(|it| it["kernel"].as_str().unwrap()),
        ["linux", "mglru", "mglru:rework=1"]
    );
    let reads = kernels.each_ref().map(|it| it["kernel_device_reads"].as_u64().unwrap());
    let small = run(&["--small-folios"]);
    assert_eq!(
        (&kernels[0]["small_folios"], &small["small_folios"]),
        (&Value::Bool(false), &Value::Bool(true))
    );
    assert_ne!(small["kernel_device_reads"].as_u64(), Some(reads[0]));
    assert!(reads[0] != reads[1] && reads[1] != reads[2] && reads[0] != reads[2], "{reads:?}");
}

#[test]
fn a_table_is_shown_and_senseless_words_are_refused() {
    let (status, out, _) = sim(&[CYCLE, "--size", "2000"]);
    assert_eq!(status, 0);
    assert!(out.contains("kernel alone") && out.contains("2,000"), "{out}");
    for (words, expected) in [
        (&["--size", "100"][..], "--body steer: size 100 is less than 256 blocks"),
        (&["--size", "2000", "--policy", "opt"], "--body steer: policy opt knows the future"),
        (&["--size", "2000", "--kernel", "opt"], "`opt` would have to know the future"),
        (&["--size", "2000", "--kernel", "mglr"], "did you mean \"mglru\"?"),
        (&["--size", "2000", "--allocation", "lru-sp"], "the argument '--body <NAME>' cannot be used with"),
        (&["--size", "2000", "--lookahead", "obl"], "the argument '--body <NAME>' cannot be used with"),
    ] {
        let (status, out, err) = sim(&[&[CYCLE], words].concat());
        assert_eq!((status, out.as_str()), (2, ""), "{words:?}: {err}");
        assert!(err.contains(expected), "{words:?}: {err}");
    }
}
