//! Transcripts of `pantler sim processes`: the contract of `docs/JSON.md`, and what is said of
//! mistakes.

use serde_json::{Value, json};
use std::process::{Command, Stdio};

/// Status, standard output, standard error.
fn processes(words: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pantler"));
    command.args(["sim", "processes"]).args(words).env_remove("PANTLER_LOG").stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

fn lines(words: &[&str]) -> Vec<Value> {
    let (status, out, err) = processes(words);
    assert_eq!((status, err.as_str()), (0, ""), "{words:?}");
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn refused(words: &[&str], expected: &str) {
    let (status, out, err) = processes(words);
    assert_eq!((status, out.as_str()), (2, ""), "{words:?}: {err}");
    assert!(err.starts_with(&format!("pantler: {expected}")), "{words:?}: {err}");
}

/// Units of the paper are milliseconds: 8 without prefetching, 10 with.
#[test]
fn figure_1_as_one_object() {
    let words = [
        "figure-1",
        "--configuration",
        "ac+prefetch",
        "--size",
        "2",
        "--disk",
        "figure-1",
        "--threshold",
        "1",
        "--when-idle",
        "--json",
    ];
    // Before a step has matched the list may not replace anything of its owner's (P8): here that is
    // no loss.
    let expected = json!({
        "configuration": "ac+prefetch", "size": 2, "elapsed_ns": 10_000_000, "compute_ns": 4_000_000,
        "stall_ns": 6_000_000, "overlap_ns": 2_000_000, "disk_busy_ns": 8_000_000, "references": 4, "hits": 2,
        "fetches": 2, "prefetched": 2, "used": 2, "used_late": 2, "wasted": 0,
        "looked_ahead": {"prefetched": 0, "used": 0, "wasted": 0},
        "processes": {"figure-1": {
            "elapsed_ns": 10_000_000, "compute_ns": 4_000_000, "stall_ns": 6_000_000, "overlap_ns": 2_000_000,
            "references": 4, "hits": 2, "late": 2, "fetches": [0, 2, 0], "lists_discarded": 0,
        }},
        "scene": "figure-1", "footprint": 3, "disk": "figure-1", "lists": "exact", "lookahead": "obl-2",
        "version": 1, "kind": "sim-processes",
    });
    assert_eq!(lines(&words), [expected]);
    let default = &lines(&["figure-1", "--size", "2", "--disk", "figure-1", "--json"]);
    let elapsed: Vec<u64> =
        default.iter().map(|line| line["elapsed_ns"].as_u64().unwrap() / 1_000_000).collect();
    assert_eq!(elapsed, [12, 8, 8, 12, 8, 8]);
}

#[test]
fn owners_of_a_trace_are_processes() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("o.csv");
    let rounds: String = (0..200).map(|at| format!("a,x,{}\nb,y,{}\n", at % 20, at)).collect();
    std::fs::write(&trace, format!("owner,file,block\n{rounds}")).unwrap();
    let control = folder.path().join("c.toml");
    std::fs::write(&control, "[a.policies]\n0 = \"mru\"\n[z.policies]\n0 = \"mru\"\n").unwrap();
    let (trace, control) = (trace.to_str().unwrap(), control.to_str().unwrap());
    let words = [trace, "--size", "15", "--cpu-per-access", "2.5", "--disk", "rz56,rz26", "--json"];
    let found = lines(&words);
    let names: Vec<&str> = found.iter().map(|line| line["configuration"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["lru+obl", "+prefetch", "+prefetch+scheduling", "ac", "ac+prefetch", "ac+prefetch+scheduling"]
    );
    for line in &found {
        assert_eq!((&line["references"], &line["footprint"]), (&json!(400), &json!(220)));
        assert_eq!(line["compute_ns"], json!(1_000_000_000));
        assert_eq!(line["processes"]["b"]["references"], json!(200));
    }
    let (status, _, err) = processes(&[trace, "--control", control, "--configuration", "ac", "--size", "15"]);
    assert_eq!(status, 0);
    let stranger =
        "pantler: control names owner \"z\", which the trace does not have; the nearest is \"a\"\n";
    assert_eq!(err, stranger);
    let generated = lines(&["loop:ids=30,requests=300", "--configuration", "ac", "--size", "10%", "--json"]);
    assert_eq!(generated[0]["size"], json!(3));
}

#[test]
fn people_get_a_table() {
    let words = [
        "figure-1",
        "--configuration",
        "lru+obl,ac+prefetch+scheduling",
        "--size",
        "2",
        "--disk",
        "figure-1",
    ];
    let (status, out, err) = processes(&words);
    assert_eq!((status, err.as_str()), (0, ""));
    let mut rows = out.lines();
    assert_eq!(rows.next(), Some("figure-1 on figure-1, 2 frames: 4 references to 3 blocks"));
    assert!(rows.next().is_some_and(|row| row.contains("configuration  elapsed")), "{out}");
    assert!(rows.next().is_some_and(|row| row.contains("lru+obl  0.012 s   +0.0%")), "{out}");
    assert!(rows.next().is_some_and(|row| row.contains("ac+prefetch+scheduling  0.008 s  -33.3%")), "{out}");
    let (status, out, _) = processes(&["help"]);
    assert_eq!(status, 0);
    for name in ["cs1", "ac+prefetch+scheduling", "rz56", "figure-1"] {
        assert!(out.contains(name), "{name}");
    }
}

#[test]
fn mistakes_are_named() {
    refused(&[], "expected a scene");
    refused(&["cs9"], "unknown workload \"cs9\" (did you mean \"cs1\"?)");
    refused(&["cs1,gil"], "unknown workload \"gil\" (did you mean \"gli\"?)");
    refused(
        &["cs1", "--configuration", "ac+prefetching"],
        "unknown configuration \"ac+prefetching\" (did you mean \"ac+prefetch\"?)",
    );
    refused(&["cs1", "--disk", "rz57"], "unknown disk \"rz57\" (did you mean \"rz56\"?)");
    refused(&["cs1", "--lists", "shufled"], "unknown lists \"shufled\" (did you mean \"shuffled\"?)");
    refused(&["cs1", "--size", "0"], "size");
    refused(&["cs1", "--lookahead", "obl2"], "unknown lookahead \"obl2\" (did you mean \"obl-2\"?)");
    refused(&["cs1", "--control", "c.toml"], "control is for traces");
    refused(&["loop:ids=3,requests=9", "--cpu-per-access", "-1"], "time \"-1\": expected milliseconds");
    let (status, out, err) = processes(&["/no/such/trace"]);
    assert_eq!((status, out.as_str()), (2, ""), "{err}");
}
