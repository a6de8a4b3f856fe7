//! Q7: on a disk with an arm and short seeks a list is read in long sweeps, through holes.
//!
//! `cargo test -p pantler-sim --test processes holes -- --nocapture` prints the rows.

use pantler_sim::Control;
use pantler_sim::processes::{DiskModel, Lists, MachineOptions, ProcessesOutcome, Scene};
use pantler_trace::generate::Specification;

use crate::run::{disk, options, run};

/// An index selection: blocks of a table in random order, 20 µs of computing each.
fn selection(text: &str) -> Scene {
    let specification: Specification = text.parse().expect("a generator");
    let trace = specification.prepare().expect("within bounds");
    Scene::of_trace(&trace, 20_000, &Control::default()).0
}

/// A table of 27 MB in blocks of 8 KiB, 640 frames, a disk of 20 GB.
fn on(scene: &Scene, configuration: &str, disk: DiskModel, batch_max: Option<u32>) -> ProcessesOutcome {
    run(scene, &MachineOptions { batch_max, ..options(configuration, 640, disk) })
}

const TABLE: &str = "uniform:ids=3300,requests=1800,seed=1";
const HDD: DiskModel = DiskModel::arm(2_441_406, 8_500_000, 4_170_000, 54_600);
const EVEN: DiskModel = DiskModel::Fixed { latency_ns: 400_000, parallel: 1 };

/// The bar of the real bench is 75 percent; Q7 alone is worth half of what batches leave.
#[test]
fn a_selection_gains_where_requests_are_dear() {
    let scene = selection(TABLE);
    println!("elapsed ms of an index selection");
    println!("disk                lru+obl   +prefetch   +prefetch+scheduling   the same without Q7");
    let row = |name: &str, disk: DiskModel| {
        let [base, lists] = ["lru+obl", "+prefetch"].map(|name| on(&scene, name, disk, None).elapsed_ns);
        let [with, without] =
            [None, Some(0)].map(|most| on(&scene, "ac+prefetch+scheduling", disk, most).elapsed_ns);
        let [base_ms, lists_ms, with_ms, without_ms] = [base, lists, with, without].map(|ns| ns / 1_000_000);
        println!("{name:<18} {base_ms:>8} {lists_ms:>11} {with_ms:>22} {without_ms:>21}");
        (base, with, without)
    };
    let (base, with, without) = row("20 GB, 8 KiB", HDD);
    assert!(with * 100 <= base * 40, "{with} of {base} ns");
    assert!(with * 100 <= without * 50, "{with} ns, {without} without");
    // Where a block takes as long as a fifth of a request, as on the paper's disks, and where
    // requests are fast.
    let disks = ["rz56", "rz26", "ssd"].map(|name| (name, disk(name)));
    for (name, disk) in disks.into_iter().chain([("0.4 ms", EVEN)]) {
        let (_, with, without) = row(name, disk);
        assert!(with * 100 <= without * 101, "{name}: {with} ns, {without} without");
    }
}

/// A reader without a list, beside one with it, waits for at most a batch of single reads, and
/// gains by what the other leaves of the disk.
#[test]
fn a_neighbour_is_not_slowed_by_long_sweeps() {
    let mut scene = selection(
        "mix:lists=(uniform:ids=3300,requests=1800,seed=1),asks=(uniform:ids=3300,requests=400,seed=2)",
    );
    scene.tell(1, Lists::None, 1);
    let asks = |most| on(&scene, "ac+prefetch+scheduling", HDD, most).processes[1].elapsed_ns / 1_000_000;
    let (with, without) = (asks(None), asks(Some(0)));
    println!("elapsed ms of the one that asks: {with}, without Q7 {without}");
    assert!(with * 100 <= without * 110, "{with} ms, {without} without");
}
