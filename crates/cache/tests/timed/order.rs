//! The cache asks a disk for the same blocks in the same order, at the same times, as the simulator does.

use pantler_sim::Watch;
use pantler_sim::processes::{Configuration, DiskModel, MachineOptions, Scene, run_processes};

use crate::world::play;

const FRAMES: u32 = 819;

fn compare(workload: &str, configuration: &str) {
    let scene = Scene::of_workloads(&[workload], 1).expect("a workload");
    let configuration: Configuration = configuration.parse().expect("a configuration");
    let model: DiskModel = "rz56".parse().expect("a disk");
    let mut options = MachineOptions::new(configuration, FRAMES, model);
    options.log_reads = true;
    let simulated = run_processes(&scene, &options, &Watch::default()).expect("it runs");
    let played = play(&scene, configuration, FRAMES.into(), model);
    let seconds = |ns: u64| ns as f64 / 1e9;
    println!(
        "{workload:<6} {configuration:<24} simulator {:>6.2} s, {} reads; cache {:>6.2} s, {} reads",
        seconds(simulated.elapsed_ns),
        simulated.reads.len(),
        seconds(played.elapsed_ns),
        played.reads.len()
    );
    let same = simulated.reads.iter().zip(&played.reads).take_while(|(one, other)| one == other).count();
    let part = |reads: &[pantler_sim::processes::DiskRead]| {
        reads.iter().skip(same).take(4).copied().collect::<Vec<_>>()
    };
    assert!(
        same == simulated.reads.len() && same == played.reads.len(),
        "{workload}, {configuration}: {same} reads are the same, then the simulator {:?}, the cache {:?}",
        part(&simulated.reads),
        part(&played.reads)
    );
    assert_eq!(simulated.elapsed_ns, played.elapsed_ns);
}

#[test]
fn of_a_program_with_a_list() {
    compare("cs3", "ac+prefetch+scheduling");
    compare("gli", "ac+prefetch+scheduling");
    for configuration in ["+prefetch+scheduling", "ac+prefetch+scheduling", "ac+prefetch"] {
        compare("pse1", configuration);
    }
}
