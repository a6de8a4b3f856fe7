//! Running scenes in tests.

use pantler_sim::Watch;
use pantler_sim::processes::{DiskModel, MachineOptions, ProcessesOutcome, Scene, run_processes};

pub fn options(configuration: &str, frames: u32, disk: DiskModel) -> MachineOptions {
    MachineOptions::new(configuration.parse().expect("a configuration"), frames, disk)
}

/// A disk by name.
pub fn disk(name: &str) -> DiskModel {
    name.parse().expect("a disk")
}

pub fn scene(names: &str) -> Scene {
    Scene::of_workloads(&names.split(',').collect::<Vec<_>>(), 1).expect("workloads")
}

pub fn run(scene: &Scene, options: &MachineOptions) -> ProcessesOutcome {
    let outcome = run_processes(scene, options, &Watch::default()).expect("it runs to its end");
    for process in &outcome.processes {
        assert!(process.compute_ns + process.stall_ns <= process.elapsed_ns, "{process:?}");
        assert!(process.overlap_ns <= process.compute_ns);
        assert!(process.hits + process.late <= process.references);
    }
    let found = outcome.prefetched;
    assert!(found.used + found.wasted + found.failed <= found.prefetched, "{found:?}");
    assert!(found.used_late <= found.used, "{found:?}");
    outcome
}
