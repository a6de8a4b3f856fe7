//! This kernel's page cache, by timing alone. Needs root, memory control groups and the classic
//! lists.

use std::path::Path;

use pantler_dust::infer::family::Family;
use pantler_dust::targets::{PageCacheTarget, Stop, expectations};
use pantler_dust::{Inquiry, Known, Options, TargetError, Verdict, investigate};

/// So often it is asked: where others keep the processors busy an answer may be unsure. Each has to
/// be right.
const TRIES: usize = 5;

#[test]
fn this_kernel_has_active_and_inactive_lists() {
    let skip = |why: &str| {
        assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "{why}");
        eprintln!("SKIPPED: {why}");
    };
    let generations = std::fs::read_to_string("/sys/kernel/mm/lru_gen/enabled").unwrap_or_default();
    if generations.trim().trim_start_matches("0x").chars().any(|digit| digit != '0') {
        return skip("the multi-generational LRU is on, for which there is no candidate");
    }
    // Few rivals, so that most of the time goes to the kernel.
    let rivals = ["linux", "lru", "clock", "arc", "fifo", "2q", "slru"];
    let ask = || -> Result<Verdict, TargetError> {
        let families = Family::all().iter().filter(|family| rivals.contains(&family.name)).collect();
        let options = Options { families, ..expectations("pagecache") };
        let mut target = PageCacheTarget::new(Path::new("/var/tmp"), Stop::default())?;
        Ok(investigate(Inquiry::new(options), &mut target).expect("the files can be read").verdict())
    };
    for left in (0..TRIES).rev() {
        let verdict = match ask() {
            Ok(verdict) => verdict,
            Err(error @ TargetError::Missing { .. }) => return skip(&error.to_string()),
            Err(error) => panic!("{error}"),
        };
        println!("{verdict:?}");
        assert_eq!(verdict.family, "linux", "{verdict:?}");
        assert!(verdict.mismatch <= 0.015, "{verdict:?}");
        assert!((3700..4200).contains(&verdict.capacity), "{verdict:?}");
        if verdict.verdict == Known::Known {
            return;
        }
        assert!(left > 0, "never sure: {verdict:?}");
    }
}
