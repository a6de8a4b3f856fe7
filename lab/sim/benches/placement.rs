//! References per second on one core, over three tiers of a third of a million blocks. ULC must do
//! two million: else this fails.
//!
//! `cargo bench -p pantler-sim --bench placement`; figures in docs/benchmarks/tiers.md.
//!
//! CPU time of the thread, best of three passes after one that fills the tiers. References are made
//! before.

use pantler_sim::tiers::ProtocolSpec;
use pantler_steward::placement::{Client, Sizes};
use rustix::time::{ClockId, clock_gettime};

#[path = "../../../benches/bars.rs"]
mod bars;
#[path = "../../../benches/environment.rs"]
mod environment;

/// Million references per second.
const TARGET: f64 = 2.0;

const REFERENCES: u32 = 1 << 22;
const PASSES: usize = 3;

fn cpu_seconds() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

/// A number that looks drawn, the same on every machine.
fn mixed(number: u32) -> u64 {
    let mut mixed = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 31)
}

fn uniform(blocks: u64) -> Vec<u32> {
    (0..REFERENCES).map(|at| (mixed(at) % blocks) as u32).collect()
}

/// Zipf's law with exponent 1 by inversion of the continuous distribution, ranks spread over the
/// blocks.
fn zipf(bits: u32) -> Vec<u32> {
    let draw = |at| {
        let uniform = (mixed(at) >> 11) as f64 / (1u64 << 53) as f64;
        let rank = f64::from(1u32 << bits).powf(uniform) as u32;
        rank.wrapping_mul(0x9e37_79b1) & ((1 << bits) - 1)
    };
    (0..REFERENCES).map(draw).collect()
}

fn main() -> Result<(), bars::Missed> {
    let bars = bars::Bars::default();
    println!("{}", environment::line(None));
    let sizes = Sizes::new(&[333_334, 333_333, 333_333]).expect("sane sizes");
    let traces = [
        ("uniform over 1 million", uniform(1_000_000)),
        ("uniform over 2 million", uniform(2_000_000)),
        ("Zipf over 4 million", zipf(22)),
        ("loop over 1.2 million", (0..REFERENCES).map(|at| at % 1_200_000).collect()),
    ];
    for (name, references) in &traces {
        for protocol in ["ulc", "ulc-request-order", "uni-lru", "ind-lru"] {
            let spec: ProtocolSpec = protocol.parse().expect("a protocol");
            let mut hierarchy = spec.build(&sizes, 1).expect("online");
            let mut steps = Vec::new();
            let mut best = f64::MAX;
            for pass in 0..=PASSES {
                let start = cpu_seconds();
                for &block in references {
                    steps.clear();
                    hierarchy.reference(Client(0), block, &mut steps);
                }
                if pass > 0 {
                    best = best.min(cpu_seconds() - start);
                }
            }
            let rate = f64::from(REFERENCES) / best / 1e6;
            println!("{name:<24} {protocol:<18} {rate:>6.1} M/s");
            if protocol == "ulc" {
                bars.at_least(&format!("{name}, {protocol}, million references per second"), rate, TARGET);
            }
        }
    }
    bars.end()
}
