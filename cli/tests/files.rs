//! `pantler files`: what is in memory of files, and why.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

const PANTLER: &str = env!("CARGO_BIN_EXE_pantler");

fn ran(folder: &Path, script: &str) -> (bool, String, String) {
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(folder).stdin(Stdio::null());
    command.env("PANTLER", PANTLER).env("PANTLER_RUNTIME_DIR", folder.join("run"));
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

fn must(folder: &Path, script: &str) -> String {
    let (is_done, out, err) = ran(folder, script);
    assert!(is_done, "{script}: {out}{err}");
    out
}

fn rows(folder: &Path, script: &str) -> Vec<Value> {
    must(folder, script).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn what_the_page_cache_and_a_mount_hold_is_told() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = folder.path();
    must(
        at,
        "mkdir origin mnt; head -c 1M /dev/urandom > origin/a; head -c 300K /dev/urandom > origin/b; sync origin/*",
    );
    let cold = "dd of=origin/b oflag=nocache conv=notrunc,fdatasync count=0 status=none";
    let found =
        rows(at, &format!("{cold}; cat origin/a > /dev/null; $PANTLER files --json origin/a origin/b"));
    assert_eq!(found[0]["cached_bytes"], 1 << 20);
    let page = rustix::param::page_size() as u64;
    assert_eq!(found[0]["cached_pages"], (1 << 20) / page);
    assert_eq!((&found[1]["bytes"], &found[1]["cached_bytes"]), (&Value::from(300 << 10), &Value::from(0)));
    assert!(found.iter().all(|row| row["owner"].is_null() && row["kind"] == "file"));

    must(at, "$PANTLER mount origin mnt --cache 16M --frames own && cat mnt/b > /dev/null");
    let _mount = Unmount(at);
    let found = rows(at, "$PANTLER files --json mnt/a mnt/b");
    assert_eq!(
        (&found[0]["cached_bytes"], &found[1]["cached_bytes"]),
        (&Value::from(0), &Value::from(300 << 10))
    );
    assert_eq!(found[1]["why"], "of no owner; nothing of it was evicted", "the program has ended");
    let owned = "$PANTLER run --owner-name job --quiet -- sh -c 'cat mnt/a > /dev/null; \
        $PANTLER hint set-priority mnt/a 5 --owner job; $PANTLER files --json mnt/a'";
    let of_job = &rows(at, owned)[0];
    assert_eq!((&of_job["owner"], &of_job["priority"]), (&Value::from("job"), &Value::from(5)), "{of_job}");
    assert!(of_job["why"].as_str().unwrap().starts_with("leaves at priority 5 by "), "{of_job}");
    assert!(found[1]["on"].as_str().unwrap().ends_with("/mnt"), "{}", found[1]);
    let text = must(at, "$PANTLER files");
    assert!(
        text.lines().any(|line| line.contains("300 KiB")
            && line.contains(&format!(" {} ", (300 << 10) / page))
            && line.ends_with("/mnt/b")),
        "{text}"
    );

    let evil = "$(printf 'mnt/x\\033[31m')";
    must(at, &format!("touch \"{evil}\""));
    let (is_done, out, err) = ran(at, &format!("$PANTLER files \"{evil}\" mnt/none mnt/b"));
    assert!(!is_done && err.contains("expected one that exists"), "{err}");
    assert!(out.contains("mnt/x\\u{1b}[31m") && out.contains("mnt/b") && !out.contains('\u{1b}'), "{out}");
    fs::remove_file(at.join("origin/x\u{1b}[31m")).unwrap();
}

struct Unmount<'a>(&'a Path);

impl Drop for Unmount<'_> {
    fn drop(&mut self) {
        let _ = ran(self.0, "$PANTLER umount mnt");
    }
}
