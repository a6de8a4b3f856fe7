//! A backup beside a service: the first lines of README, on the kernel's page cache.
//!
//! Both are in one control group; the backup alone would fill its memory. The service has read its
//! file once, so the kernel's lists have no reason to keep it.

mod place;

use pantler_rig::{missing, undisturbed};
use place::limited::Limited;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;

const MEGABYTE: usize = 1 << 20;
const GROUP_MEGABYTES: usize = 100;
const SERVICE_MEGABYTES: usize = 32;
/// Files of 2 MB each.
const FILES: usize = 80;

/// Runs a line of shell inside, to its end.
fn run(group: &Limited, line: &str, runtime: &Path) {
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).env("PANTLER_RUNTIME_DIR", runtime);
    shell.env_remove("SUDO_UID").env_remove("SUDO_GID");
    let output = group.run(shell);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Writes a file and drops it from the page cache.
fn made(path: &Path, megabytes: usize) {
    let mut file = File::create(path).unwrap();
    (0..megabytes).for_each(|number| file.write_all(&vec![number as u8; MEGABYTE]).unwrap());
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

/// Percent of a file that is in the page cache.
fn resident(path: &Path) -> u64 {
    let output = Command::new("fincore").args(["-nb", "-o", "RES"]).arg(path).output().unwrap();
    let bytes: u64 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    bytes * 100 / (SERVICE_MEGABYTES * MEGABYTE) as u64
}

/// What is left of the service's pages after a backup by this command line.
fn left_after(backup: &str, name: &str) -> Option<u64> {
    let folder = tempfile::tempdir().unwrap();
    let (service, data) = (folder.path().join("service"), folder.path().join("data"));
    fs::create_dir(&data).unwrap();
    (0..FILES).for_each(|number| made(&data.join(number.to_string()), 2));
    made(&service, SERVICE_MEGABYTES);
    let group = Limited::new(name, (GROUP_MEGABYTES * MEGABYTE) as u64)?;
    run(&group, &format!("cat {} > /dev/null", service.display()), folder.path());
    assert_eq!(resident(&service), 100, "the service has read its file");
    // GNU tar reads nothing when its archive is /dev/null.
    run(&group, &format!("{backup} -cf - {} | wc -c > /dev/null", data.display()), folder.path());
    Some(resident(&service))
}

/// Protects what README promises first: without Pantler the backup takes the service's pages, with
/// it none.
#[test]
fn a_backup_leaves_the_pages_of_a_service_where_they_are() {
    if !rustix::process::geteuid().is_root() {
        return missing("a control group for memory", "root");
    }
    undisturbed(|| {
        let Some(alone) = left_after("tar", "pantler-test-backup-alone") else {
            return missing("a control group for memory", "cgroup");
        };
        assert!(alone < 20, "without Pantler {alone} % of the service's pages are left: too small a backup");
        let steered = format!("{} run --memory 16M -- tar", env!("CARGO_BIN_EXE_pantler"));
        let left = left_after(&steered, "pantler-test-backup-steered").unwrap();
        assert!(left >= 99, "{left} % of the service's pages are left");
    });
}
