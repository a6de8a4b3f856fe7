//! Wrong lists slow other programs by at most 2 %, and their own by at most 5 %, against none.
//!
//! `cargo test -p pantler-cache --test timed wrong -- --nocapture` prints the rows.

use pantler_sim::processes::{Lists, Scene};

use crate::world::{Played, play};

/// Two programs of which the first says this of its future.
fn beside(names: &str, lists: Lists) -> Played {
    let names: Vec<&str> = names.split(',').collect();
    let mut scene = Scene::of_workloads(&names, 1).expect("workloads");
    scene.tell(0, lists, 7);
    let configuration = "ac+prefetch+scheduling".parse().expect("a configuration");
    play(&scene, configuration, 819, "rz56".parse().expect("a disk"))
}

fn percent(time_ns: u64, before_ns: u64) -> f64 {
    100.0 * (time_ns as f64 / before_ns as f64 - 1.0)
}

#[test]
fn lists_cost_little() {
    println!("lists of the first: change of elapsed time of the first, of the second");
    for names in ["cs3,gli", "pse1,cs3"] {
        let none = beside(names, Lists::None);
        for lists in [Lists::Shuffled, Lists::Foreign, Lists::Endless, Lists::Unread] {
            let played = beside(names, lists);
            let of = |at: usize| percent(played.ended_ns[at], none.ended_ns[at]);
            println!("{names:<12} {:<9} {:>+6.2}% {:>+6.2}%", lists, of(0), of(1));
            assert!(of(0) <= 5.0 && of(1) <= 2.0, "{names}, {}: {} and {}", lists, of(0), of(1));
        }
    }
}
