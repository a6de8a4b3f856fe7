//! Tests of the page cache on a machine that others use, too.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

use crate::eventually;

/// So often a test is tried, if the machine takes pages each time.
const TRIES: usize = 8;

/// What the kernel counts when it takes pages that no test gave up: short of memory, told to drop
/// its caches, or asked by the host of a virtual machine to give memory back. Reclaim of a control
/// group at its limit is not among them.
const TAKINGS: [&str; 6] = [
    "pgsteal_kswapd",
    "pgsteal_direct",
    "pgsteal_khugepaged",
    "pgsteal_proactive",
    "drop_pagecache",
    "balloon_inflate",
];

/// Where the kernel shows which monitors page out cold pages though memory is not short, and how
/// much.
const DAMON: &str = "/sys/kernel/mm/damon/admin/kdamonds";

/// What was taken so far, by its taker.
type Taken = BTreeMap<String, u64>;

/// Runs a test that rests on what is cached. If it fails while the machine took pages from all
/// programs, it says nothing about the tested one, and runs again. A failure while nothing was
/// taken is a failure at once.
///
/// # Panics
///
/// As the test, or if the machine never leaves it alone.
pub fn undisturbed(test: impl Fn()) {
    tried(test, taken);
}

fn tried(test: impl Fn(), taken: impl Fn() -> Taken) {
    for left in (0..TRIES).rev() {
        let before = taken();
        let Err(panic) = catch_unwind(AssertUnwindSafe(&test)) else { return };
        let after = taken();
        if after == before || left == 0 {
            resume_unwind(panic);
        }
        eprintln!("again: the machine took pages from all programs: {before:?} became {after:?}");
    }
}

fn taken() -> Taken {
    let text = fs::read_to_string("/proc/vmstat").expect("counters of the kernel");
    let mut taken: Taken =
        TAKINGS.iter().filter_map(|name| Some(((*name).to_owned(), count(&text, name)?))).collect();
    taken.extend(paged_out(Path::new(DAMON)));
    taken
}

/// A counter, if the kernel has it.
fn count(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    Some(line.parse().expect("a number"))
}

/// Bytes that each monitor of cold memory paged out. Its statistics are those of when it was last
/// asked for them.
fn paged_out(monitors: &Path) -> Taken {
    let says = |path: PathBuf, word: &str| fs::read_to_string(path).is_ok_and(|text| text.trim() == word);
    let mut taken = Taken::new();
    for monitor in within(monitors).into_iter().filter(|monitor| says(monitor.join("state"), "on")) {
        // Refused while another process asks.
        eventually("a monitor tells what it paged out", || {
            fs::write(monitor.join("state"), "update_schemes_stats").is_ok()
        });
        let contexts = within(&monitor.join("contexts"));
        for scheme in contexts.iter().flat_map(|context| within(&context.join("schemes"))) {
            let bytes = fs::read_to_string(scheme.join("stats/sz_applied"));
            if let (true, Ok(bytes)) = (says(scheme.join("action"), "pageout"), bytes) {
                taken.insert(scheme.display().to_string(), bytes.trim().parse().expect("a number"));
            }
        }
    }
    taken
}

fn within(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// How often a test ran that fails `fails` times, on a machine that takes pages during the
    /// first `takes` runs.
    fn runs(fails: usize, takes: usize) -> (bool, usize) {
        let runs = Cell::new(0);
        let test = || {
            runs.set(runs.get() + 1);
            assert!(runs.get() > fails, "as it was told");
        };
        let taken = || Taken::from([("pages".to_owned(), runs.get().min(takes) as u64)]);
        let passed = catch_unwind(AssertUnwindSafe(|| tried(test, taken))).is_ok();
        (passed, runs.get())
    }

    #[test]
    fn only_failures_of_a_disturbed_machine_are_tried_again() {
        assert_eq!(runs(0, 0), (true, 1));
        assert_eq!(runs(0, 9), (true, 1));
        assert_eq!(runs(1, 0), (false, 1));
        assert_eq!(runs(2, 9), (true, 3));
        assert_eq!(runs(2, 1), (false, 2));
        assert_eq!(runs(9, 9), (false, TRIES));
    }

    #[test]
    fn the_kernel_counts_what_it_takes() {
        let taken = taken();
        assert!(taken.contains_key("pgsteal_kswapd") && taken.contains_key("drop_pagecache"), "{taken:?}");
    }

    #[test]
    fn monitors_of_cold_memory_count_while_they_are_on() {
        let root = tempfile::tempdir().expect("a folder");
        let monitor = root.path().join("0");
        let scheme = |number: usize| monitor.join(format!("contexts/0/schemes/{number}"));
        for (number, action, bytes) in [(0, "pageout\n", "81920\n"), (1, "stat\n", "4096\n")] {
            fs::create_dir_all(scheme(number).join("stats")).expect("made");
            fs::write(scheme(number).join("action"), action).expect("written");
            fs::write(scheme(number).join("stats/sz_applied"), bytes).expect("written");
        }
        fs::write(monitor.join("state"), "off\n").expect("written");
        assert_eq!(paged_out(root.path()), Taken::new());
        fs::write(monitor.join("state"), "on\n").expect("written");
        assert_eq!(paged_out(root.path()), Taken::from([(scheme(0).display().to_string(), 81_920)]));
        assert_eq!(paged_out(Path::new("/nowhere")), Taken::new());
    }
}
