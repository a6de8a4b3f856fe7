//! Files as of a web site, and a trace of requests for them that is the same each time:
//!
//! ```text
//! ask files FOLDER          # writes the files
//! ask ADDRESS:PORT SAID     # asks a server for them, and writes to a file how many answers were
//!                           # slow, and what 99 of 100 take at most in microseconds
//! ```
//!
//! `make rivals` measures web servers with it.

use load::{Load, Pace, Plan, Sizes, run};
use std::error::Error;
use std::path::Path;
use std::time::Duration;

#[allow(dead_code, unused_imports, reason = "the bench uses the rest")]
#[path = "../benches/order/load.rs"]
mod load;

const PLAN: Plan = Plan { files: 2_000, sizes: Sizes::Surge, seed: 1 };
const ZIPF: f64 = 0.8;
/// Each client sends its next request when it has its answer.
const PACE: Pace = Pace::Counted { clients: 16, requests: 1_500 };
/// A server that takes longer for all of them is broken.
const TIME: Duration = Duration::from_secs(240);
/// An answer that takes longer waited for the disk, or for others that did.
const SLOW_US: u64 = 5_000;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["files", folder] => Ok(PLAN.make(Path::new(folder))?),
        [address, said] => ask(address, said),
        _ => Err("ask files FOLDER | ask ADDRESS:PORT SAID".into()),
    }
}

fn ask(address: &str, said: &str) -> Result<(), Box<dyn Error>> {
    let (address, warm_up) = (address.parse()?, Duration::ZERO);
    let report = run(&Load { address, plan: PLAN, zipf: ZIPF, pace: PACE, time: TIME, warm_up, seed: 7 })?;
    if let Some(error) = report.first_error {
        return Err(format!("{} requests failed: {error}", report.errors).into());
    }
    let Pace::Counted { clients, requests } = PACE else { return Err("requests are counted".into()) };
    if report.requests != u64::from(clients) * requests {
        return Err(format!(
            "{} requests of {} were answered",
            report.requests,
            u64::from(clients) * requests
        )
        .into());
    }
    let slow = report.all.len() - report.all.count_between(0, SLOW_US);
    std::fs::write(said, format!("{slow} {}", report.all.value_at_quantile(0.99)))?;
    Ok(())
}
