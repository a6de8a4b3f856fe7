//! P7: batches and reads in flight grow with what a disk serves at once.
//!
//! `cargo test -p pantler-sim --test processes parallel -- --nocapture` prints the rows.

use pantler_sim::Control;
use pantler_sim::processes::{DiskModel, Lists, MachineOptions, ProcessesOutcome, Scene};
use pantler_steward::lists::Prefetching;
use pantler_steward::scheduling::PaceOptions;
use pantler_trace::generate::Specification;

use crate::run::{options, run};

/// References all over a file, 10 µs of computing each.
fn scattered(text: &str) -> Scene {
    let specification: Specification = text.parse().expect("a generator");
    let trace = specification.prepare().expect("within bounds");
    Scene::of_trace(&trace, 10_000, &Control::default()).0
}

/// A disk that serves as many reads at once, 0.1 ms each.
fn serving(parallel: u32) -> DiskModel {
    DiskModel::Fixed { latency_ns: 100_000, parallel }
}

fn on(scene: &Scene, parallel: u32, pace: PaceOptions) -> ProcessesOutcome {
    let options = options("ac+prefetch+scheduling", 4000, serving(parallel));
    let prefetching = Some(Prefetching { batch: pace.batch, ..Prefetching::default() });
    run(scene, &MachineOptions { prefetching, pace: Some(pace), ..options })
}

const FIXED: [PaceOptions; 4] = [
    PaceOptions::fixed(16, 1),
    PaceOptions::fixed(16, 16),
    PaceOptions::fixed(64, 16),
    PaceOptions::fixed(256, 64),
];

#[test]
fn what_adapts_is_near_the_best_of_what_is_fixed() {
    let scene = scattered("uniform:ids=60000,requests=10000,seed=1");
    println!("elapsed ms; reads of 0.1 ms, computing 100 ms in all");
    println!("at once   B=16, 1 on their way   16, 16   64, 16   256, 64   adapting   without a list");
    for parallel in [1, 2, 4, 8, 16, 32, 64] {
        let elapsed = FIXED.map(|pace| on(&scene, parallel, pace).elapsed_ns / 1_000_000);
        let found = on(&scene, parallel, PaceOptions::default());
        let adapted = found.elapsed_ns / 1_000_000;
        let mut silent = scene.clone();
        silent.tell(0, Lists::None, 1);
        let without = on(&silent, parallel, FIXED[0]).elapsed_ns / 1_000_000;
        println!("{parallel:>7} {elapsed:>8?} {adapted:>10} {without:>16}");
        let best = *elapsed.iter().min().expect("there are four");
        assert!(adapted * 100 <= best * 130, "{parallel} at once: {adapted} ms, {best} ms at best");
        // P4: whatever B is, nothing leaves that is needed before what comes.
        assert_eq!(found.prefetched.wasted, 0, "{parallel} at once");
    }
}

/// A reader without a list, beside one that adapts, waits for at most as long as where everything
/// is asked for at once.
#[test]
fn a_neighbour_is_not_slowed_by_what_adapts() {
    let scene = {
        let mut scene = scattered(
            "mix:lists=(uniform:ids=60000,requests=10000,seed=1),asks=(uniform:ids=60000,requests=1000,seed=2)",
        );
        scene.tell(1, Lists::None, 1);
        scene
    };
    println!("elapsed ms of the one that asks, beside one with a list");
    for parallel in [1, 4, 16] {
        let asks = |pace| {
            let mut options = options("ac+prefetch+scheduling", 4000, serving(parallel));
            options.processors = std::num::NonZeroU32::new(2).expect("it is not 0");
            options.pace = Some(pace);
            run(&scene, &options).processes[1].elapsed_ns / 1_000_000
        };
        let [one, all] = [PaceOptions::fixed(16, 1), PaceOptions::fixed(256, 64)].map(asks);
        let adapted = asks(PaceOptions::default());
        println!("{parallel:>2} at once: one on its way {one}, adapting {adapted}, 64 {all}");
        assert!(adapted <= all.max(one * 11 / 10), "{parallel} at once: {adapted} ms");
    }
}
