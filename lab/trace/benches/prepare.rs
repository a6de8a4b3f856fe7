//! How fast a trace is prepared, and what memory that takes: 20 million requests by Zipf's law over
//! a million sparse ids, as an oracleGeneral file.
//!
//! ```text
//! cargo bench --package pantler-trace --bench prepare -- [requests]
//! ```
//!
//! Prints CPU time, which a busy machine disturbs less than the time on the wall.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use pantler_trace::generate::{Draws, Zipf};
use pantler_trace::{Options, Prepared, ReadOptions, Reader, prepare};
use rustix::time::{ClockId, clock_gettime};

#[path = "../../../benches/environment.rs"]
mod environment;

fn main() -> Result<()> {
    let requests = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(20_000_000);
    let folder = tempfile::tempdir()?;
    println!("{}", environment::line(Some(folder.path())));
    let path = folder.path().join("zipf.oracleGeneral");
    step("generate", requests, || write(&path, requests))??;
    step("read", requests, || read(&path))??;
    let before = anonymous_kib()?;
    let (trace, _) = step("prepare", requests, || prepare(&path, &Options::default()))??;
    println!("peak beyond the requests: {} KiB", peak_kib()?.saturating_sub(before + requests * 4 / 1024));
    println!("distinct {}", trace.distinct());
    step("next uses", requests, || trace.next_uses().len())?;
    let keys: Vec<u64> = trace.requests().iter().map(|&id| trace.block_of(id).index).collect();
    step("densify", requests, || Prepared::from_ids(keys).distinct())?;
    Ok(())
}

/// Runs something and prints its CPU time and what that means per request.
fn step<T>(name: &str, requests: u64, work: impl FnOnce() -> T) -> Result<T> {
    let (wall, before) = (Instant::now(), cpu());
    let result = work();
    let (cpu, wall) = (cpu() - before, wall.elapsed());
    let rate = requests as f64 / cpu.as_secs_f64() / 1e6;
    println!("{name:<10} cpu {:.3} s  wall {:.3} s  {rate:.0} M/s", cpu.as_secs_f64(), wall.as_secs_f64());
    Ok(result)
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn write(path: &Path, requests: u64) -> Result<()> {
    let (law, mut random) = (Zipf::new(1_000_000, 1.0), Draws::new(1));
    let mut file = std::io::BufWriter::with_capacity(1 << 20, std::fs::File::create(path)?);
    for at in 0..requests {
        let sparse = law.draw(&mut random).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        file.write_all(&((at / 1000) as u32).to_le_bytes())?;
        file.write_all(&sparse.to_le_bytes())?;
        file.write_all(&4096_u32.to_le_bytes())?;
        file.write_all(&(-1_i64).to_le_bytes())?;
    }
    Ok(file.flush()?)
}

fn read(path: &Path) -> Result<u64> {
    let mut reader = Reader::open(path, &ReadOptions::default())?;
    let (mut batch, mut sum) = (Vec::new(), 0_u64);
    while reader.fill(&mut batch)? {
        sum = batch.iter().fold(sum, |sum, request| sum.wrapping_add(request.object));
    }
    Ok(sum)
}

fn anonymous_kib() -> Result<u64> {
    status("RssAnon:")
}

fn peak_kib() -> Result<u64> {
    status("VmHWM:")
}

fn status(field: &str) -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)).context("no such field")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
