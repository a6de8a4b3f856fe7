//! This kernel's page cache, by timing alone. Needs root and memory control groups.

use std::path::Path;

use pantler_dust::infer::family::Family;
use pantler_dust::targets::{PageCacheTarget, Stop, expectations};
use pantler_dust::{Doubt, Inquiry, Known, Options, Target, TargetError, Verdict, investigate};

/// So often it is asked: where others keep the processors busy an answer may be unsure. Each has to
/// be right.
const TRIES: usize = 5;

/// The orders that kernels have.
const KERNELS: [&str; 2] = ["linux", "mglru"];
/// Few rivals, so that most of the time goes to the kernel.
const RIVALS: [&str; 6] = ["lru", "clock", "arc", "fifo", "2q", "slru"];

/// What the kernel says that it evicts by, and what is found: among the rivals, or with the
/// `other` order as its only model.
fn ask(other: bool) -> Result<(&'static str, Verdict), TargetError> {
    let mut target = PageCacheTarget::new(Path::new("/var/tmp"), Stop::default())?;
    let claimed = target.claimed().expect("one or the other");
    let is_model = |family: &&Family| match other {
        true => KERNELS.contains(&family.name) && family.name != claimed,
        false => KERNELS.contains(&family.name) || RIVALS.contains(&family.name),
    };
    let families = Family::all().iter().filter(is_model).collect();
    let options = Options { families, ..expectations("pagecache") };
    let inquiry = investigate(Inquiry::new(options), &mut target).expect("the files can be read");
    Ok((claimed, inquiry.verdict()))
}

/// Gives nothing where the machine lacks something.
fn asked(other: bool) -> Option<(&'static str, Verdict)> {
    let found = match ask(other) {
        Ok(found) => found,
        Err(error @ TargetError::Missing { .. }) => {
            assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "{error}");
            eprintln!("SKIPPED: {error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    println!("{found:?}");
    Some(found)
}

/// One after the other: the process is in the control group of one at a time.
#[test]
fn this_kernel_has_what_it_says_and_without_that_model_it_is_unknown() {
    has_what_it_says();
    is_unknown_without_that_model();
}

fn has_what_it_says() {
    for left in (0..TRIES).rev() {
        let Some((claimed, verdict)) = asked(false) else { return };
        // The nearest name means nothing where hits were not seen.
        if left > 0 && verdict.doubt == Some(Doubt::Unclear) {
            continue;
        }
        assert_eq!(verdict.family, claimed, "{verdict:?}");
        // Generations depend on a count of refaults that is near its bound, and Linux 7.3 now and
        // then reclaims hundreds of pages at once.
        let (bar, least) = if claimed == "mglru" { (0.02, 3500) } else { (0.015, 3700) };
        assert!(verdict.mismatch <= bar, "{verdict:?}");
        assert!((least..4200).contains(&verdict.capacity), "{verdict:?}");
        if verdict.verdict == Known::Known {
            let per_block = verdict.accesses as f64 / f64::from(verdict.capacity);
            assert!(per_block <= 30.0, "{per_block} accesses for each block");
            return;
        }
        assert!(left > 0, "never sure: {verdict:?}");
    }
}

/// The lists are no generations, and generations are no lists.
fn is_unknown_without_that_model() {
    let Some((_, verdict)) = asked(true) else { return };
    assert_eq!(verdict.verdict, Known::Unknown, "{verdict:?}");
}
