//! What real kernels read from the disk, and what the model reads for the same references
//! (docs/decisions/0121-what-the-modelled-kernel-reads.md); and what steering without a hint makes
//! of it.

use pantler_policy::PolicyName;
use pantler_sim::Watch;
use pantler_sim::pagecache::{Kernel, Program, SteerSettings, steer};
use pantler_trace::generate::Specification;

/// How far off the model may be.
const OFF_MAX: f64 = 0.05;

/// Traces of `xtask/src/kernels/reads.py`, with what guests read and how many pages were cached
/// then: Linux 6.12 and 7.3 (docs/benchmarks/kernels.md).
const READS: [(&str, [[u64; 2]; 2]); 7] = [
    ("loop:ids=4500,requests=45000", [[45_400, 3994], [45_396, 4009]]),
    ("uniform:ids=8192,requests=60000", [[51_938, 3951], [47_341, 3982]]),
    ("zipf:ids=8192,alpha=0.8,requests=80000,order=shuffled", [[31_584, 3943], [28_703, 3958]]),
    ("zipf:ids=8192,alpha=1.0,requests=80000,order=shuffled", [[17_209, 3963], [14_993, 3930]]),
    (
        "phases:(zipf:ids=1500,alpha=0.6,requests=6000,order=shuffled),(scan:ids=3000,first=1500),\
         (zipf:ids=1500,alpha=0.6,requests=6000,order=shuffled),(scan:ids=3000,first=4500),repeat=5",
        [[35_596, 3918], [32_158, 3935]],
    ),
    (
        "phases:(uniform:ids=3000,requests=10000),(uniform:ids=3000,requests=10000,first=1300),\
         (uniform:ids=3000,requests=10000,first=2600),(uniform:ids=3000,requests=10000,first=3900),repeat=2",
        [[22_795, 3923], [19_702, 3956]],
    ),
    (
        "mix:hot=(zipf:ids=2000,alpha=0.8,requests=20000,order=shuffled),one=(loop:ids=3000,requests=20000),\
         other=(loop:ids=3200,requests=20000),turns=round",
        [[49_214, 3969], [43_464, 3941]],
    ),
];

/// Pages that the model reads from the disk.
fn model(words: &str, mut kernel: Kernel) -> u64 {
    let trace = words.parse::<Specification>().unwrap().prepare().unwrap();
    let blocks: Vec<_> = trace.requests().iter().map(|&id| trace.block_of(id)).collect();
    for file in 0..trace.file_names().len().max(1) as u32 {
        let last = blocks.iter().filter(|block| block.file == file).map(|block| block.index).max();
        kernel.add_file(last.unwrap() + 1);
    }
    for block in blocks {
        kernel.read(Program::Run(0), block.file, block.index, block.index);
        kernel.take_events();
    }
    kernel.device_reads()
}

#[test]
fn the_model_reads_what_guests_read() {
    for (words, guests) in READS {
        let new = |order: &str, cached| Kernel::new(cached, order.parse().unwrap()).unwrap();
        // ext4 had no large folios in 6.12.
        let kernels =
            [new("mglru", guests[0][1]).without_large_folios(), new("mglru:rework=1", guests[1][1])];
        for (kernel, [read, _]) in kernels.into_iter().zip(guests) {
            let share = model(words, kernel) as f64 / read as f64;
            println!("{share:.3} {words}");
            assert!((share - 1.0).abs() < OFF_MAX, "{share} of {read} on {words}");
        }
    }
}

/// Reads at random, one page each and several: nothing tells what comes next, and what is read
/// ahead is lost.
#[test]
fn random_reads_are_not_read_ahead() {
    for (words, size) in [
        ("uniform:ids=600,requests=6000", 256),
        ("uniform:ids=15000,requests=60000", 6656),
        ("uniform:ids=15000,requests=60000", 13_000),
        ("zipf:ids=15000,alpha=0.8,requests=60000,order=shuffled", 3000),
    ] {
        let trace = words.parse::<Specification>().unwrap().prepare().unwrap();
        let kernel = "linux".parse().unwrap();
        let settings = SteerSettings {
            policy: PolicyName::Lru.spec(),
            kernel,
            small_folios: false,
            budget: size,
            seed: 1,
        };
        let record = steer(&trace, settings, &Watch::default()).unwrap();
        println!("{words} in {size}: {record:?}");
        let share = record.device_reads as f64 / record.kernel_device_reads as f64;
        assert!(share < 1.05, "{share} of the reads by the kernel alone, {words} in {size} blocks");
    }
}
