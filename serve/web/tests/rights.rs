//! A server that may not ask what is cached, because other users own its files: reads that do not
//! wait tell it.

mod common;

use common::{Site, pattern, site};
use pantler_rig::{missing, undisturbed};
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::os::unix::fs::PermissionsExt;

/// The number of `cachestat`, which is the same on all machines.
const CACHESTAT: libc::c_long = 451;
const NOBODY: libc::uid_t = 65_534;
const FILES: usize = 20;
const FILE_BYTES: usize = 200_000;

/// The calling thread, and those it starts from now on, run as a user without rights.
fn become_nobody() {
    for (call, id) in [(libc::SYS_setresgid, NOBODY), (libc::SYS_setresuid, NOBODY)] {
        // SAFETY: three numbers, no pointers. The C library's own functions would change all
        // threads.
        let result = unsafe { libc::syscall(call, id, id, id) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    }
}

/// Twenty files that are in memory, and a server without rights.
fn without_rights(lose_rights: fn()) -> Site {
    let start = move || {
        site(|options| {
            for number in 0..FILES {
                std::fs::write(options.root.join(format!("f{number}")), pattern(FILE_BYTES)).unwrap();
            }
            rustix::fs::syncfs(File::open(&options.root).unwrap()).unwrap();
            options.threads = 1;
            // The user may look at what is below this folder, but enter no other.
            std::fs::set_permissions(&options.root, PermissionsExt::from_mode(0o755)).unwrap();
            std::env::set_current_dir(&options.root).unwrap();
            options.root = ".".into();
            lose_rights();
        })
    };
    let site = std::thread::spawn(start).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    (0..FILES).for_each(|number| drop(std::fs::read(site.path(&format!("f{number}"))).unwrap()));
    site
}

/// Serves all files some times; gives how many reads waited for the disk.
fn reads_of(site: &Site, rounds: usize) -> u64 {
    let before = site.metric("reads_total");
    for round in 0..rounds * FILES {
        assert_eq!(site.get(&format!("/f{}", round % FILES)).body, pattern(FILE_BYTES));
    }
    site.metric("reads_total") - before
}

fn what_is_cached_is_served_at_once(site: &Site) {
    let reads = reads_of(site, 10);
    assert!(reads < 20, "{reads} of {} requests waited for a reader, and all is in memory", 10 * FILES);
}

#[test]
fn a_server_without_rights_learns_from_reading() {
    // One after the other: where this program stands is one for all its threads.
    undisturbed(|| {
        // As in a container that does not know the call, and before Linux 6.5.
        what_is_cached_is_served_at_once(&without_rights(|| pantler_rig::forbid(CACHESTAT)));
    });
    if !rustix::process::geteuid().is_root() {
        return missing("root, to become nobody", "sudo");
    }
    undisturbed(|| {
        let site = without_rights(become_nobody);
        what_is_cached_is_served_at_once(&site);
        for number in 0..FILES {
            let file = File::open(site.path(&format!("f{number}"))).unwrap();
            fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        }
        let reads = reads_of(&site, 1);
        assert!(reads >= FILES as u64 / 2, "{reads} reads, and nothing was in memory");
    });
}
