//! A server that may not ask what is cached, because it neither owns its files nor may write them:
//! what it believes is corrected by what its reads show.

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

/// The calling thread, and those it starts from now on, are nobody's, who owns nothing here.
fn become_nobody() {
    for (call, id) in [(libc::SYS_setresgid, NOBODY), (libc::SYS_setresuid, NOBODY)] {
        // SAFETY: three numbers, no pointers. The C library's own functions would change all
        // threads.
        let result = unsafe { libc::syscall(call, id, id, id) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    }
}

/// Twenty files that are in memory, and a server that believes them to fit into a quarter of what
/// they have, started by a thread that loses its rights first.
fn believing_too_little(lose_rights: fn()) -> Site {
    let start = move || {
        site(|options| {
            for number in 0..FILES {
                std::fs::write(options.root.join(format!("f{number}")), pattern(FILE_BYTES)).unwrap();
            }
            rustix::fs::syncfs(File::open(&options.root).unwrap()).unwrap();
            options.model.bytes = 1 << 20;
            options.threads = 1;
            // Nobody may enter, but everybody may look at what is below where it stands.
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

fn number(site: &Site, name: &str) -> u64 {
    let numbers = site.server.site().desk.metrics.numbers();
    numbers.into_iter().find(|(other, _)| *other == name).unwrap().1
}

fn beliefs_are_corrected(site: &Site) {
    let model = || site.server.site().desk.with_belief(|belief| belief.model()).unwrap();
    let ask = |rounds: usize| {
        for round in 0..rounds {
            assert_eq!(site.get(&format!("/f{}", round % FILES)).body.len(), FILE_BYTES);
        }
    };
    ask(40 * FILES);
    let (policy, bytes) = model();
    assert_eq!(policy, "linux", "nothing is let go of, so the kernel decides what stays");
    assert!(bytes >= (FILES * FILE_BYTES) as u64, "{bytes} bytes, and all of them are there");
    assert_eq!(number(site, "let_go_bytes"), 0);
    let score = site.server.site().desk.with_belief(|belief| belief.score());
    assert!(score.falsely_absent > 20, "{score:?}");
    let before = number(site, "reads");
    ask(10 * FILES);
    let reads = number(site, "reads") - before;
    assert!(reads < 20, "{reads} of {} requests waited for a reader, and all is in memory", 10 * FILES);
}

#[test]
fn who_may_not_ask_the_kernel_learns_from_reading() {
    // One after the other: where this program stands is one for all its threads.
    undisturbed(|| {
        // As in a container that does not know the call, and before Linux 6.5.
        beliefs_are_corrected(&believing_too_little(|| pantler_rig::forbid(CACHESTAT)));
    });
    if !rustix::process::geteuid().is_root() {
        return missing("root, to become nobody", "sudo");
    }
    undisturbed(|| {
        let site = believing_too_little(become_nobody);
        beliefs_are_corrected(&site);
        // What has left is not believed to be there for long.
        for number in 0..FILES {
            let file = File::open(site.path(&format!("f{number}"))).unwrap();
            fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        }
        let before = site.server.site().desk.with_belief(|belief| belief.score()).falsely_cached;
        (0..FILES).for_each(|number| assert_eq!(site.get(&format!("/f{number}")).body, pattern(FILE_BYTES)));
        let after = site.server.site().desk.with_belief(|belief| belief.score()).falsely_cached;
        assert!(after - before >= FILES as u64 / 2, "{before}, {after}");
    });
}
