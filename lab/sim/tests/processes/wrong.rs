//! Wrong lists slow other processes by at most 2 %, and their own by at most 5 %, against none.
//!
//! `cargo test -p pantler-sim --test processes wrong -- --nocapture` prints the rows.

use pantler_sim::processes::{Lists, ProcessesOutcome};

use crate::run::{disk, options, run, scene};

const WRONG: [Lists; 4] = [Lists::Shuffled, Lists::Foreign, Lists::Endless, Lists::Unread];

/// Two programs of which the first says this of its future.
fn beside(names: &str, lists: Lists) -> ProcessesOutcome {
    let mut scene = scene(names);
    scene.tell(0, lists, 7);
    run(&scene, &options("ac+prefetch+scheduling", 819, disk("rz56")))
}

fn percent(time_ns: u64, before_ns: u64) -> f64 {
    100.0 * (time_ns as f64 / before_ns as f64 - 1.0)
}

#[test]
fn wrong_lists_cost_little() {
    println!("lists of the first: change of elapsed time of the first, of the second; lists discarded");
    let mut worst: (f64, f64) = (0.0, 0.0);
    for names in ["cs3,gli", "cs2,andrew", "cs3,read300", "gli,cs1", "pse2,cs3", "din,read490"] {
        let none = beside(names, Lists::None);
        for lists in WRONG {
            let outcome = beside(names, lists);
            let of = |at: usize| percent(outcome.processes[at].elapsed_ns, none.processes[at].elapsed_ns);
            let discarded = outcome.processes[0].lists_discarded;
            println!("{names:<12} {:<9} {:>+6.2}% {:>+6.2}% {discarded}", lists, of(0), of(1));
            worst = (worst.0.max(of(0)), worst.1.max(of(1)));
        }
    }
    assert!(worst.0 <= 5.0 && worst.1 <= 2.0, "{worst:?}");
}
