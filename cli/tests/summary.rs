//! The line with which `pantler run` ends: it is there, it is right, and it can be left out.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

const PANTLER: &str = env!("CARGO_BIN_EXE_pantler");

/// Runs a script that must succeed where there is a `$PANTLER`; returns what it said on standard
/// error.
fn must(folder: &Path, script: &str) -> (String, String) {
    let (status, out, err) = shell(folder, script);
    assert_eq!(status, Some(0), "{script}: {err}");
    (out, err)
}

fn shell(folder: &Path, script: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(folder).env("PANTLER", PANTLER).stdin(Stdio::null());
    command.env("PANTLER_RUNTIME_DIR", folder.join("run")).env_remove("SUDO_UID").env_remove("SUDO_GID");
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A folder on a real disk; `None`, loudly, where nothing can be steered.
fn scratch() -> Option<tempfile::TempDir> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    if shell(folder.path(), "$PANTLER doctor").0 == Some(0) {
        return Some(folder);
    }
    assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "pantler doctor says that something is missing");
    eprintln!("SKIPPED: pantler doctor says that something is missing");
    None
}

/// The line promises what LRU would have read: it must be what `pantler sim` says of the same
/// references. And what it calls read from disk is what the device gave.
#[test]
fn the_line_agrees_with_the_simulator_and_with_the_device() {
    pantler_rig::undisturbed(|| {
        let Some(folder) = scratch() else { return };
        let at = folder.path();
        must(
            at,
            "head -c 32M /dev/urandom > f; dd if=f oflag=nocache conv=notrunc,fdatasync of=f count=0 2>&1",
        );
        // Pieces of 64 KiB: first ones, and how many. A part that is read again soon, one just too
        // far, and whole scans.
        let mut pieces = vec![(0, 512)];
        for round in 0..6 {
            pieces.extend([(0, 48), (100 + 60 * round, 100), (0, 48), (200, 90 + 10 * round)]);
        }
        pieces.extend([(0, 200), (0, 270), (0, 200), (0, 512)]);
        let read =
            |(skip, count)| format!("dd if=f of=/dev/null bs=64k status=none skip={skip} count={count}\n");
        fs::write(at.join("reads.sh"), pieces.iter().copied().map(read).collect::<String>()).unwrap();
        let reference =
            |(skip, count): (u64, u64)| format!("{} {} 0 0\n", skip * 16, count.min(512 - skip) * 16);
        fs::write(at.join("t.lis"), pieces.iter().copied().map(reference).collect::<String>()).unwrap();

        let script = "$PANTLER run --memory 16M --profile none --report report -- sh reads.sh";
        let (_, err) = must(at, script);
        let report: Value = serde_json::from_str(&fs::read_to_string(at.join("report")).unwrap()).unwrap();
        let count = |name: &str| report["body_counters"][name].as_u64().unwrap_or_else(|| panic!("{name}"));
        let (sim, _) = must(at, "$PANTLER sim t.lis --policy lru --size 4096 --json");
        let sim: Value = serde_json::from_str(sim.lines().next().unwrap()).unwrap();
        let expected = misses_in(&sim).unwrap_or_else(|| panic!("{sim}"));

        assert_eq!(count("lru_sampled_one_in"), 8);
        let (lru, brought_in) = (count("lru_misses"), count("brought_in"));
        // 3 % for the sample; 1 MiB for what `sh` and `dd` read of their own.
        assert!(lru.abs_diff(expected) <= expected * 3 / 100 + 256, "{lru} instead of {expected}: {err}");
        let device = report["totals"]["read_bytes"].as_u64().unwrap();
        assert!(
            device.abs_diff(brought_in * 4096) <= device / 20 + (1 << 20),
            "{device}: {brought_in} blocks"
        );

        let line = err.lines().next_back().unwrap_or_default();
        let number = |after: &str| -> f64 {
            let rest = &line[line.find(after).unwrap_or_else(|| panic!("{line}")) + after.len()..];
            rest.split(' ').next().unwrap().parse().unwrap()
        };
        let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
        assert!((number(" blocks, ") - mib(device)).abs() < 0.06, "{line}");
        assert_eq!(number("pantler: read ") as u64, brought_in, "{line}");
        assert!((number("LRU would have read about ") - mib(lru * 4096)).abs() < 0.06, "{line}");
    });
}

/// References that were recorded say what a run will read, before it is made.
#[test]
fn what_is_advised_reads_what_was_promised() {
    pantler_rig::undisturbed(|| {
        let Some(folder) = scratch() else { return };
        let at = folder.path();
        let cold = "dd if=f oflag=nocache conv=notrunc,fdatasync of=f count=0 2>&1";
        must(at, &format!("head -c 24M /dev/urandom > f; {cold}"));
        fs::write(at.join("reads.sh"), "for i in 1 2 3 4 5; do cat f > /dev/null; done\n").unwrap();
        // Recorded with memory for all of it.
        must(at, "$PANTLER run --memory 40M --profile none --record t.csv -- sh reads.sh");
        let (advice, _) = must(at, "$PANTLER advise t.csv --memory 16M --json --write advised.toml");
        let advice: Value = serde_json::from_str(&advice).unwrap();
        let promised = advice["policies"][0]["read_bytes"].as_u64().unwrap_or_else(|| panic!("{advice}"));
        let alone = advice["kernel_read_bytes"].as_u64().unwrap();
        assert_eq!(advice["policies"][0]["policy"], advice["advised"], "{advice}");
        assert!(promised * 100 <= alone * 65, "{advice}");

        must(at, cold);
        must(at, "$PANTLER run --memory 16M --profile ./advised.toml --report report -- sh reads.sh");
        let report: Value = serde_json::from_str(&fs::read_to_string(at.join("report")).unwrap()).unwrap();
        let read = report["totals"]["read_bytes"].as_u64().unwrap();
        // 1 MiB for what `sh` and `cat` are read of, which was in memory when it was recorded.
        assert!(
            read.abs_diff(promised) <= promised / 20 + (1 << 20),
            "{read} instead of {promised}: {advice}"
        );

        let (text, _) = must(at, "$PANTLER advise t.csv --memory 16M");
        assert!(text.contains("take: pantler run --memory 16M --policy "), "{text}");
        // In one command: the program's own output is not among the advice.
        must(at, cold);
        let (advice, said) =
            must(at, "$PANTLER advise --memory 16M --json -- sh -c 'echo reading; sh reads.sh; exit 3'");
        assert!(said.contains("reading\n") && said.contains("sh ended with status 3"), "{said}");
        let advice: Value = serde_json::from_str(&advice).unwrap();
        let again = advice["policies"][0]["read_bytes"].as_u64().unwrap_or_else(|| panic!("{advice}"));
        assert!(again.abs_diff(promised) <= promised / 20 + (1 << 20), "{again} instead of {promised}");
        let (status, _, err) = shell(at, "$PANTLER advise --memory 16M -- no-such-program");
        assert!(status == Some(2) && err.contains("no-such-program"), "{status:?}: {err}");
        let (status, _, err) = shell(at, "$PANTLER advise t.csv --memory 16M -- true");
        assert!(status == Some(2) && err.contains("cannot be used with"), "{status:?}: {err}");
        // With memory for all of it no policy reads less than another.
        let (text, _) = must(at, "$PANTLER advise t.csv --memory 64M");
        assert!(text.contains("leave it to the kernel"), "{text}");
        // Small files: a read is told of as long as it was asked for, and files end before.
        let small = "for round in 1 2 3 4; do cat small/* > /dev/null; done";
        let write = "head -c 3000 /dev/urandom > small/$i";
        let drop = "dd of=small/$i oflag=nocache conv=notrunc,fdatasync count=0 status=none";
        must(at, &format!("mkdir small; for i in $(seq 300); do {write}; {drop}; done"));
        must(at, &format!("$PANTLER run --memory 40M --profile none --record s.csv -- sh -c '{small}'"));
        let (advice, _) = must(at, "$PANTLER advise s.csv --memory 40M --json");
        let advice: Value = serde_json::from_str(&advice).unwrap();
        let count = |name: &str| advice[name].as_u64().unwrap_or_else(|| panic!("{advice}"));
        // 1,200 pages of files; the rest is the shell and what it links to.
        assert!((1200..4500).contains(&count("references")), "{advice}");
        assert!(count("kernel_read_bytes") < 12 << 20, "{advice}");

        // What is refused leaves an earlier record as it is.
        let before = fs::metadata(at.join("t.csv")).unwrap().len();
        let (status, _, err) = shell(at, "$PANTLER run --memory 1K --record t.csv -- true");
        assert!(status == Some(2) && err.contains("--memory"), "{status:?}: {err}");
        assert_eq!(fs::metadata(at.join("t.csv")).unwrap().len(), before);
        let (status, _, err) = shell(at, "$PANTLER advise t.csv --memory 10K");
        assert!(status == Some(2) && err.contains("--memory"), "{status:?}: {err}");
        let (status, _, err) = shell(at, "$PANTLER run --record t.csv -- true");
        assert!(status == Some(2) && err.contains("--memory"), "{status:?}: {err}");
        let (status, _, err) = shell(at, "$PANTLER advise nothing.csv --memory 16M");
        assert!(status == Some(2) && err.contains("nothing.csv"), "{status:?}: {err}");
    });
}

/// The only policy's misses, wherever the table has them.
fn misses_in(value: &Value) -> Option<u64> {
    match value {
        Value::Object(fields) => match fields.get("misses").and_then(Value::as_u64) {
            None => fields.values().find_map(misses_in),
            misses => misses,
        },
        Value::Array(rows) => rows.iter().find_map(misses_in),
        _ => None,
    }
}

/// Files are read with buffers longer than they are. Bytes asked for behind their end were counted
/// as hits: 94 % for files that were read once.
#[test]
fn what_is_asked_for_behind_the_end_of_a_file_is_no_hit() {
    pantler_rig::undisturbed(|| {
        let Some(folder) = scratch() else { return };
        must(folder.path(), "mkdir d; for i in $(seq 300); do head -c 5000 /dev/zero > d/$i; done; sync d/*");
        must(
            folder.path(),
            "for f in d/*; do dd of=$f oflag=nocache conv=notrunc,fdatasync count=0 2>&1; done",
        );
        must(
            folder.path(),
            "$PANTLER run --memory 16M --profile none --report report -- sh -c 'cat d/*' > /dev/null",
        );
        let report: Value =
            serde_json::from_str(&fs::read_to_string(folder.path().join("report")).unwrap()).unwrap();
        let files = report["files"].as_array().unwrap().iter();
        let ours = files.filter(|file| file["path"].as_str().is_some_and(|path| path.contains("/d/")));
        let counted: Vec<_> = ours.map(|file| &file["counters"]).collect();
        assert!(counted.len() > 50, "{report}");
        // A read that meets a page of its buffer which is not there begins again behind what it
        // has copied: that page is referenced twice. It happens to one file in thousands.
        let other =
            |counters: &&&Value| (&counters["references"], &counters["hits"]) != (&2.into(), &0.into());
        let others: Vec<_> = counted.iter().filter(other).collect();
        assert!(others.len() <= 2, "of {} files: {others:?}", counted.len());
    });
}

#[test]
fn a_run_that_steers_nothing_says_so_and_quiet_says_nothing() {
    let Some(folder) = scratch() else { return };
    let (_, err) = must(folder.path(), "$PANTLER run --memory 16M -- true");
    assert!(err.starts_with("pantler: nothing was steered: ") && err.contains("a server reads"), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    assert_eq!(must(folder.path(), "$PANTLER run --memory 16M --quiet -- true").1, "");
    // The status is the program's, whatever is said.
    assert_eq!(shell(folder.path(), "$PANTLER run --memory 16M -- false").0, Some(1));
}

#[test]
fn more_memory_than_the_machine_has_is_told_of() {
    let Some(folder) = scratch() else { return };
    let (_, err) = must(folder.path(), "$PANTLER run --quiet --memory 4T -- true");
    assert!(err.contains("--memory 4T is more than the ") && err.contains(" MiB that "), "{err}");
}

/// A report is about `--memory`. With a mount running the file was emptied, and the status was 0.
#[test]
fn a_report_without_memory_is_refused_with_a_mount_too_and_its_share_is_told() {
    let Some(folder) = scratch() else { return };
    let at = folder.path();
    must(at, "mkdir o m; head -c 1M /dev/zero > o/f; echo precious > report; $PANTLER mount o m");
    let (status, out, err) = shell(at, "$PANTLER run --report report -- echo started");
    let (told, quiet) =
        (shell(at, "$PANTLER run -- cat m/f > /dev/null"), shell(at, "$PANTLER run --quiet -- cat m/f"));
    must(at, "$PANTLER umount m");
    assert_eq!((status, out.as_str()), (Some(2), ""), "{err}");
    assert!(err.contains("--report report: there is nothing to report without --memory"), "{err}");
    assert_eq!(fs::read_to_string(at.join("report")).unwrap(), "precious\n");
    assert_eq!(told.0, Some(0));
    assert!(told.2.contains("/m: read 16 blocks, 1 MiB from the origin; "), "{}", told.2);
    assert_eq!((quiet.0, quiet.2.as_str()), (Some(0), ""));
}
