//! References per second on one core, over three tiers of a third of a million blocks. ULC must do
//! two million: else this fails.
//!
//! `cargo bench -p pantler-sim --bench placement`
//!
//! CPU time of the thread, best of three passes after one that fills the tiers. References are made
//! before.

use pantler_sim::tiers::ProtocolSpec;
use pantler_steward::placement::{Client, Sizes};
use pantler_trace::generate::Specification;
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

/// What a generator gives, as numbers of blocks.
fn generated(generator: &str) -> Vec<u32> {
    let text = format!("{generator},requests={REFERENCES}");
    let specification: Specification = text.parse().expect("a generator");
    specification.references().map(|reference| reference.block as u32).collect()
}

fn main() -> Result<(), bars::Missed> {
    let bars = bars::Bars::default();
    println!("{}", environment::line(None));
    let sizes = Sizes::new(&[333_334, 333_333, 333_333]).expect("sane sizes");
    let traces = [
        ("uniform over 1 million", generated("uniform:ids=1000000")),
        ("uniform over 2 million", generated("uniform:ids=2000000")),
        ("Zipf over 4 million", generated("zipf:ids=4194304,order=shuffled")),
        ("loop over 1.2 million", generated("loop:ids=1200000")),
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
