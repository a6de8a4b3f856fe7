//! `pantler dust pagecache` on this kernel. Apart from the other tests, because those would take
//! its time.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn this_kernel_is_named_within_two_minutes() {
    pantler_rig::undisturbed(the_kernel_is_named);
}

fn the_kernel_is_named() {
    let skip = |why: &str| {
        assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "{why}");
        eprintln!("SKIPPED: {why}");
    };
    let folder = tempfile::tempdir().unwrap();
    let start = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pantler"));
    command.args(["dust", "pagecache", "--json"]).current_dir(folder.path());
    let output = command.stdin(Stdio::null()).output().expect("it runs");
    let err = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) {
        return skip(&err);
    }
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect(&err);
    println!("{:.1?} {found}", start.elapsed());
    assert!(["linux", "mglru"].map(Some).contains(&found["claimed"].as_str()), "{found}");
    assert_eq!((&found["family"], found["verdict"].as_str()), (&found["claimed"], Some("known")));
    assert!(found["mismatch"].as_f64().is_some_and(|mismatch| mismatch <= 0.015), "{found}");
    let others = found["equivalent"].as_array().expect("a list");
    assert!(others.iter().all(|name| !["lru", "clock", "arc"].contains(&name.as_str().unwrap_or_default())));
    assert!(start.elapsed() < Duration::from_secs(120));
}
