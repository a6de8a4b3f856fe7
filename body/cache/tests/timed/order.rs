//! The cache asks a disk for the same blocks in the same order, at the same times, as the simulator
//! does.

use pantler_sim::processes::{Configuration, DiskModel, DiskRead, MachineOptions, Scene, run_processes};
use pantler_sim::{Control, Watch};
use pantler_trace::generate::Specification;

use crate::world::play;

const FRAMES: u32 = 819;

fn compare(workload: &str, configuration: &str) {
    let scene = Scene::of_workloads(&[workload], 1).expect("a workload");
    compare_on(workload, &scene, configuration, "rz56".parse().expect("a disk"));
}

fn compare_on(workload: &str, scene: &Scene, configuration: &str, model: DiskModel) {
    let configuration: Configuration = configuration.parse().expect("a configuration");
    let mut options = MachineOptions::new(configuration, FRAMES, model);
    options.log_reads = true;
    let mut simulated = run_processes(scene, &options, &Watch::default()).expect("it runs");
    let mut played = play(scene, configuration, FRAMES.into(), model);
    join(&mut simulated.reads);
    join(&mut played.reads);
    let seconds = |ns: u64| ns as f64 / 1e9;
    println!(
        "{workload:<6} {configuration:<24} simulator {:>6.2} s, {} reads; cache {:>6.2} s, {} reads",
        seconds(simulated.elapsed_ns),
        simulated.reads.len(),
        seconds(played.elapsed_ns),
        played.reads.len()
    );
    let same = simulated.reads.iter().zip(&played.reads).take_while(|(one, other)| one == other).count();
    let part = |reads: &[DiskRead]| reads.iter().skip(same).take(4).copied().collect::<Vec<_>>();
    assert!(
        same == simulated.reads.len() && same == played.reads.len(),
        "{workload}, {configuration}: {same} reads are the same, then the simulator {:?}, the cache {:?}",
        part(&simulated.reads),
        part(&played.reads)
    );
    assert_eq!(simulated.elapsed_ns, played.elapsed_ns);
}

/// A long read may be several, each going on where the last ended.
fn join(reads: &mut Vec<DiskRead>) {
    reads.dedup_by(|next, last| {
        let goes_on = last.position + u64::from(last.count) == next.position;
        if goes_on {
            last.count += next.count;
        }
        goes_on
    });
}

/// Q7: on a disk of today most of a list is read through holes.
#[test]
fn of_a_selection_from_a_table() {
    let specification: Specification = "uniform:ids=4000,requests=2000,seed=3".parse().expect("a generator");
    let trace = specification.prepare().expect("within bounds");
    let scene = Scene::of_trace(&trace, 20_000, &Control::default()).0;
    let disk = DiskModel::arm(4_882_812, 8_500_000, 4_170_000, 27_300);
    compare_on("table", &scene, "ac+prefetch+scheduling", disk);
}

#[test]
fn of_a_program_with_a_list() {
    compare("cs3", "ac+prefetch+scheduling");
    compare("gli", "ac+prefetch+scheduling");
    for configuration in ["+prefetch+scheduling", "ac+prefetch+scheduling", "ac+prefetch"] {
        compare("pse1", configuration);
    }
}
