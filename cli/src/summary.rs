//! The last line of `pantler run`: what was read, and what LRU would have read in the same memory.

use pantler_control::{BodyInfo, BodyKind, BodyStat, OwnerStat, Size};
use pantler_kernel::memory::Limit;

/// A share of what was read from which on it is told that it left without a decision, or was there
/// before, in percent.
const NOTABLE_PERCENT: u64 = 5;

/// The line about a steered run.
pub fn of_run(stat: &BodyStat, memory: Size) -> String {
    let count = |name: &str| stat.body_counters.get(name).copied().unwrap_or(0);
    let block_bytes = u64::from(stat.body.block_bytes);
    let size = |blocks: u64| Size::new(blocks * block_bytes).rounded();
    let (brought_in, foreign, lru) = (count("brought_in"), count("foreign"), count("lru_misses"));
    if count("drops") == 0 {
        return idle(brought_in, count("gone"), memory, block_bytes);
    }
    let references = stat.totals.references.saturating_sub(foreign);
    let hits = references.saturating_sub(brought_in);
    let mut line = format!(
        "read {brought_in} blocks, {} from disk, LRU would have read {}{} of files; {:.1} % hits of {references} references",
        Size::new(stat.totals.read_bytes).rounded(),
        if count("lru_sampled_one_in") > 1 { "about " } else { "" },
        size(lru),
        hits as f64 * 100.0 / references.max(1) as f64,
    );
    if !stat.owners.iter().any(|owner| owner.control) {
        line += &format!(", in the order of {}", stat.followed);
    }
    let is_notable = |part: u64, of: u64| part * 100 >= of.max(1) * NOTABLE_PERCENT;
    // Around a page that is mapped the kernel names pages that are in no memory, too.
    let others = foreign.saturating_sub(count("foreign_mapped"));
    if is_notable(others, stat.totals.references) {
        line += &format!("; {others} more are to what other programs had brought into memory");
    }
    if is_notable(count("gone"), brought_in) {
        let share = count("gone") * 100 / brought_in.max(1);
        line += &format!(
            "; {share} % of the blocks read left without a decision: other programs, little memory, or deleted files"
        );
    }
    let peak = count("resident_peak");
    if is_notable(count("drops_refused"), count("drops"))
        && is_notable(peak.saturating_sub(memory.bytes() / block_bytes), memory.bytes() / block_bytes)
    {
        line += &format!(
            "; up to {} were cached at once: mapped pages and what is not written yet may stay",
            size(peak)
        );
    }
    if count("events_lost") > 0 {
        line += "; events were lost, so the figures are too low";
    }
    if stat.owners.iter().any(|owner| owner.revoked) {
        line += "; control was lost, hints have had no effect since";
    }
    line
}

/// Nothing had to leave, or the kernel chose what did.
fn idle(blocks: u64, gone: u64, memory: Size, block_bytes: u64) -> String {
    let bytes = blocks * block_bytes;
    let mut line = format!(
        "nothing was steered: {blocks} blocks, {}, came into the page cache by this run, of {} it may keep",
        Size::new(bytes).rounded(),
        memory.rounded()
    );
    if gone * 100 >= blocks.max(1) * NOTABLE_PERCENT {
        line += "; the kernel reclaimed for a limit, in its order: no hint or --policy asks for another";
    } else if bytes < memory.bytes() / 4 {
        line += "; what was in memory before, what a server reads for the program, and O_DIRECT do not count";
    }
    line
}

/// The line about one owner of a mount, or of a daemon that steers; none if it read nothing there.
pub fn of_owner(body: &BodyInfo, owner: &OwnerStat) -> Option<String> {
    let counters = &owner.counters;
    let read = Size::new(counters.read_bytes).rounded();
    let (name, source) = (&body.name, if body.kind == BodyKind::Mount { "the origin" } else { "disk" });
    (counters.references > 0).then(|| {
        format!(
            "{name}: read {} blocks, {read} from {source}; {:.1} % hits of {} references",
            counters.misses + counters.ahead_used,
            counters.hit_ratio() * 100.0,
            counters.references
        )
    })
}

/// A warning about more memory than there is.
pub fn of_too_much(memory: Size) -> Option<String> {
    let limit = Limit::here();
    (memory.bytes() > limit.bytes).then(|| {
        format!("--memory {memory} is more than the {limit}: the kernel decides what leaves; choose less")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantler_control::Counters;

    fn stat(references: u64, read_bytes: u64, counters: &[(&str, u64)]) -> BodyStat {
        BodyStat {
            body: BodyInfo { block_bytes: 4096, ..BodyInfo::default() },
            totals: Counters { references, read_bytes, ..Counters::default() },
            body_counters: counters.iter().map(|&(name, count)| (name.to_owned(), count)).collect(),
            ..BodyStat::default()
        }
    }

    #[test]
    fn a_run_is_told_in_one_line() {
        let memory = Size::new(16 << 20);
        let mut counters = vec![("drops", 9), ("brought_in", 6400), ("lru_misses", 25_600), ("foreign", 10)];
        assert_eq!(
            of_run(&stat(25_610, 26 << 20, &counters), memory),
            "read 6400 blocks, 26 MiB from disk, LRU would have read 100 MiB of files; 75.0 % hits of 25600 references, in the order of lru"
        );
        counters.extend([("lru_sampled_one_in", 4), ("gone", 640), ("events_lost", 1)]);
        let others = |mapped| {
            let counters = [("drops", 9), ("foreign", 9000), ("foreign_mapped", mapped)];
            of_run(&stat(25_610, 26 << 20, &counters), memory)
        };
        assert!(others(1000).contains("; 8000 more are to what other programs"), "{}", others(1000));
        assert!(!others(8990).contains(" more are to"), "{}", others(8990));
        let told = of_run(&stat(25_610, 26 << 20, &counters), memory);
        assert!(told.contains("about 100 MiB") && told.contains("; 10 % of the blocks read left"), "{told}");
        assert!(told.ends_with("; events were lost, so the figures are too low"), "{told}");
        counters.extend([("drops_refused", 9), ("resident_peak", 6400)]);
        let told = of_run(&stat(25_610, 26 << 20, &counters), memory);
        assert!(told.contains("; up to 25 MiB were cached at once: mapped pages"), "{told}");
        let mut lost = stat(25_610, 26 << 20, &counters);
        lost.owners = vec![OwnerStat { revoked: true, ..OwnerStat::default() }];
        assert!(of_run(&lost, memory).ends_with("control was lost, hints have had no effect since"));
    }

    #[test]
    fn a_run_that_steered_nothing_says_why() {
        let memory = Size::new(16 << 20);
        let told = of_run(&stat(0, 0, &[]), memory);
        assert!(told.starts_with(
            "nothing was steered: 0 blocks, 0 bytes, came into the page cache by this run, of 16 MiB"
        ));
        assert!(told.contains("a server") && told.contains("O_DIRECT"), "{told}");
        let told = of_run(&stat(2000, 8 << 20, &[("brought_in", 2000)]), memory);
        assert!(told.contains("2000 blocks, 7.8 MiB, came into") && !told.contains("O_DIRECT"), "{told}");
        let told = of_run(&stat(2000, 8 << 20, &[("brought_in", 2000), ("gone", 1500)]), memory);
        assert!(told.contains("the kernel reclaimed for a limit"), "{told}");
    }

    #[test]
    fn more_memory_than_there_is_is_told_of() {
        assert_eq!(of_too_much(Size::new(1 << 20)), None);
        let told = of_too_much(Size::new(1 << 60)).expect("more than any machine has");
        assert!(told.contains("is more than the ") && told.ends_with("choose less"), "{told}");
    }
}
