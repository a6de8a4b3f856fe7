//! How right beliefs are over time: all of them against `cachestat`, once a second, from the first
//! request on.
//!
//! The server looks itself, in its own process, because what is believed and what is true change
//! with every read; it is asked by a line on its standard input.

use anyhow::{Context, Result};
use pantler_web::Server;
use pantler_web::audit::Audit;
use pantler_web::load::{Load, Pace, Plan, Popularity, Sizes, name, run};
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::{Bench, CACHE_BYTES, CLIENTS, Guess, Rival, Running, SURGE, SURGE_ZIPF};
use pantler_web::Order;

/// Least share at any moment after the warm-up.
const BAR: f64 = 0.98;
/// The same for who guesses what the kernel does.
const BAR_OF_GUESSES: f64 = 0.94;
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// Shares in a line.
const IN_LINE: usize = 10;

/// Answers each line on standard input with what is found, until that ends.
pub fn answer(server: &Server) -> Result<()> {
    for line in std::io::stdin().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        let ["look", files, zipf, seed] = words[..] else { anyhow::bail!("what is `{line}`?") };
        let popularity = Popularity::new(files.parse()?, zipf.parse()?, seed.parse()?);
        let start = Instant::now();
        let mut audit = Audit::default();
        for (file, share) in popularity.shares() {
            audit.look(server.site(), &name(file as usize), share)?;
        }
        let model = server.site().desk.with_belief(|belief| belief.model());
        let found = json!({
            "requests": audit.requests_share(), "pages": audit.pages_share(), "overlap": audit.overlap(),
            "megabytes": model.map_or(0.0, |(_, bytes)| bytes as f64 / 1e6), "seconds": start.elapsed().as_secs_f64(),
        });
        println!("{found}");
    }
    Ok(())
}

/// One look.
#[derive(Debug, Clone, Copy, serde::Deserialize)]
struct Found {
    requests: f64,
    pages: f64,
    overlap: f64,
    megabytes: f64,
    seconds: f64,
}

/// Who asks a server.
struct Looker {
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    plan: Plan,
}

impl Looker {
    fn new(running: &mut Running, plan: Plan) -> Result<Self> {
        let to = running.child.stdin.take().context("asked once")?;
        let from = running.said.take().context("asked once")?;
        Ok(Self { to, from, plan })
    }

    fn look(&mut self) -> Result<Found> {
        let Plan { files, seed, .. } = self.plan;
        writeln!(self.to, "look {files} {SURGE_ZIPF} {seed}")?;
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }

    /// Looks until told that it is over.
    fn look_on(mut self, is_over: &Receiver<()>) -> Result<Vec<Found>> {
        let start = Instant::now();
        let mut series = Vec::new();
        loop {
            let next = BETWEEN_LOOKS * (series.len() as u32 + 1);
            match is_over.recv_timeout(next.saturating_sub(start.elapsed())) {
                Err(RecvTimeoutError::Timeout) => series.push(self.look()?),
                _ => return Ok(series),
            }
        }
    }
}

impl Bench {
    /// The Zipf load over the whole run, warm-up included.
    pub(super) fn accuracy(&self) -> Result<()> {
        assert_eq!(SURGE.sizes, Sizes::Surge);
        let root = self.root("surge", &SURGE)?;
        let (warm_up, time) = (self.warm_up, self.warm_up + self.time);
        println!(
            "\nAccuracy: 12,000 files of SURGE-like sizes, Zipf {SURGE_ZIPF}, {CLIENTS} clients, {time:?}, all beliefs against cachestat once a second"
        );
        let order = Order::MirrorVerify;
        let kernel = |order, bytes| Rival::Own {
            order,
            guess: Guess::Kernel(bytes),
            age_cap: super::AGE_CAP,
            overtake: "own",
        };
        let rivals = [
            (Rival::own(order), BAR),
            (kernel(order, CACHE_BYTES * 4 / 5), BAR_OF_GUESSES),
            (kernel(Order::Mirror, CACHE_BYTES), BAR_OF_GUESSES),
        ];
        for (rival, share) in rivals {
            let mut running = self.start(rival, &root, true, 2, None)?;
            let looker = Looker::new(&mut running, SURGE)?;
            let load = Load {
                address: running.address,
                time,
                ..self.load(&SURGE, SURGE_ZIPF, Pace::Closed { clients: CLIENTS })
            };
            let (report, series) = std::thread::scope(|scope| {
                let (over, is_over) = channel::<()>();
                let looking = scope.spawn(move || looker.look_on(&is_over));
                let report = run(&load);
                drop(over);
                (report, looking.join().expect("a look that fails says why"))
            });
            let (report, series) = (report?, series?);
            let name = rival.name();
            println!("{name}: {:.0} answers/s, {} failed", report.per_second(), report.errors);
            print(&series, warm_up);
            let least =
                |share: fn(&Found) -> f64| after(&series, warm_up).iter().map(share).fold(f64::NAN, f64::min);
            let bar = |what: &str, least| {
                let what = format!("accuracy: {name}, least share of {what} that is believed what it is");
                self.bars.at_least(&what, least, share);
            };
            bar("requests", least(|found| found.requests));
            bar("pages", least(|found| found.pages));
        }
        Ok(())
    }
}

fn after(series: &[Found], warm_up: Duration) -> &[Found] {
    &series[series.len().min((warm_up.as_secs_f64() / BETWEEN_LOOKS.as_secs_f64()) as usize)..]
}

fn print(series: &[Found], warm_up: Duration) {
    for (what, share) in [
        ("requests", (|found| found.requests) as fn(&Found) -> f64),
        ("pages", |found| found.pages),
        ("pages that are cached or believed so", |found| found.overlap),
    ] {
        println!("  {what}, %:");
        for (line, part) in series.chunks(IN_LINE).enumerate() {
            let shares: String = part.iter().map(|found| format!("{:>7.2}", 100.0 * share(found))).collect();
            println!("{:>6} s{shares}", line * IN_LINE + 1);
        }
        let after: Vec<f64> = after(series, warm_up).iter().map(share).collect();
        let mean = after.iter().sum::<f64>() / after.len().max(1) as f64;
        let least = after.iter().copied().fold(f64::NAN, f64::min);
        println!("    after {warm_up:?}: least {:.2}, mean {:.2}", 100.0 * least, 100.0 * mean);
    }
    let last = series.last().map_or(f64::NAN, |found| found.megabytes);
    let longest = series.iter().map(|found| found.seconds).fold(f64::NAN, f64::max);
    println!("  model ended at {last:.1} MB; a look took {:.0} ms at most", 1000.0 * longest);
}
