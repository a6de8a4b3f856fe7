//! The same load by our own clients and by wrk, at the same servers, in turns: both must find the
//! same.

use super::load::{Load, Pace, Plan, Sizes, run};
use anyhow::{Context, Result};
use std::process::Command;
use std::time::Duration;

use super::{Bench, Rival, pin_to_cpu};

const ROUNDS: usize = 5;
const FILES: u32 = 64;
/// Percentiles that are compared.
const PERCENTILES: [f64; 3] = [50.0, 90.0, 99.0];
/// Most by which rate and median differ.
const BAR: f64 = 1.15;

/// Answers per second, and latencies in milliseconds.
#[derive(Debug, Clone, Copy)]
struct Found {
    rate: f64,
    latencies: [f64; PERCENTILES.len()],
}

impl Bench {
    /// Files in memory; the server on one processor, the clients on the other, with one thread.
    pub(super) fn wrk(&self) -> Result<()> {
        if !self.has_rivals {
            println!("\nno comparison with wrk: --without-rivals");
            return Ok(());
        }
        if !super::is_there("wrk", "/usr/bin/wrk") {
            self.bars.missing("wrk");
            return Ok(());
        }
        pin_to_cpu(1);
        let time = Duration::from_secs(if self.is_quick { 2 } else { 5 });
        println!(
            "\nwrk beside the clients of this bench: {FILES} files in memory, server on CPU 0, clients on CPU 1; medians of {ROUNDS} rounds of {time:?}"
        );
        println!(
            "{:<44}{:>12}{:>10}{:>10}{:>10}",
            "server and clients", "answers/s", "p50 ms", "p90 ms", "p99 ms"
        );
        for (name, size, clients) in
            [("4 KiB", 4096, 8), ("4 KiB", 4096, 64), ("64 KiB", 65_536, 32), ("1 MiB", 1 << 20, 16)]
        {
            let plan = Plan { files: FILES, sizes: Sizes::Fixed(size), seed: 3 };
            let root = self.root(&format!("memory-{size}"), &plan)?;
            let server = self.start(Rival::OWN, &root, false, 1, Some("0"))?;
            let load =
                Load { address: server.address, time, ..self.load(&plan, 0.0, Pace::Closed { clients }) };
            by_us(&Load { time: Duration::from_millis(700), ..load.clone() })?;
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                ours.push(by_us(&load)?);
                theirs.push(self.by_wrk(&load, clients)?);
            }
            let (ours, theirs) = (medians(&ours), medians(&theirs));
            for (clients_are, found) in [("this bench", ours), ("wrk", theirs)] {
                let [p50, p90, p99] = found.latencies;
                let row = format!("{name}, {clients} clients, {clients_are}");
                println!("{row:<44}{:>12.0}{p50:>10.3}{p90:>10.3}{p99:>10.3}", found.rate);
            }
            let differ = |one: f64, other: f64| (one / other).max(other / one);
            let bar = |what: &str, one, other| {
                let what = format!("wrk, {name}, {clients} clients: {what}, how far apart");
                self.bars.at_most(&what, differ(one, other), BAR);
            };
            bar("answers/s", ours.rate, theirs.rate);
            bar("median", ours.latencies[0], theirs.latencies[0]);
        }
        Ok(())
    }

    fn by_wrk(&self, load: &Load, clients: u32) -> Result<Found> {
        let script = self.folder.join("files.lua");
        let told = PERCENTILES.map(|percent| format!("latency:percentile({percent})")).join(", ");
        let text = format!(
            "request = function() return wrk.format(\"GET\", string.format(\"/f%06d\", math.random(0, {}))) end\n\
             done = function(summary, latency, requests)\n\
             io.write(\"found \", table.concat({{summary.requests * 1000000 / summary.duration, {told}}}, \" \"), \"\\n\")\nend\n",
            FILES - 1
        );
        std::fs::write(&script, text)?;
        let out = Command::new("wrk")
            .args([
                "-t1",
                "--latency",
                &format!("-d{}s", load.time.as_secs()),
                "-c",
                &clients.to_string(),
                "-s",
            ])
            .arg(&script)
            .arg(format!("http://{}/", load.address))
            .output()?;
        let text = String::from_utf8_lossy(&out.stdout);
        let found = text.lines().find_map(|line| line.strip_prefix("found "));
        let found = found.with_context(|| format!("wrk: {text}{}", String::from_utf8_lossy(&out.stderr)))?;
        let numbers: Vec<f64> = found.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let latencies = std::array::from_fn(|at| numbers.get(at + 1).map_or(f64::NAN, |us| us / 1000.0));
        Ok(Found { rate: numbers[0], latencies })
    }
}

fn by_us(load: &Load) -> Result<Found> {
    let report = run(load)?;
    if report.errors > 0 {
        anyhow::bail!("{:?}", report.first_error);
    }
    let latencies = PERCENTILES.map(|percent| report.percentile_ms(percent));
    Ok(Found { rate: report.per_second(), latencies })
}

fn medians(found: &[Found]) -> Found {
    let median = |of: &dyn Fn(&Found) -> f64| {
        let mut values: Vec<f64> = found.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Found {
        rate: median(&|found| found.rate),
        latencies: std::array::from_fn(|at| median(&|found| found.latencies[at])),
    }
}
