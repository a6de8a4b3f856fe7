//! The cost of the order where everything is in memory, beside nginx.

use super::load::{Pace, Plan, Sizes, run};
use anyhow::{Result, bail};
use std::fs;
use std::time::Duration;

use super::{Bench, Rival, Running, pin_to_cpu};

impl Bench {
    /// Everything in memory, server and clients pinned to a processor each. All servers run all the
    /// time and are asked in turns, each round beginning with another one, so that other work on
    /// the machine meets all of them alike; each round compares with `fifo` in the same round. A
    /// second `fifo` says how far that can be trusted.
    pub(super) fn in_memory(&self) -> Result<()> {
        const ROUNDS: usize = 9;
        pin_to_cpu(1);
        let time = Duration::from_millis(if self.is_quick { 1000 } else { 2500 });
        for (name, size, clients) in [("4 KiB", 4096, 32), ("64 KiB", 65_536, 32), ("1 MiB", 1 << 20, 16)] {
            let plan = Plan { files: 64, sizes: Sizes::Fixed(size), seed: 3 };
            let root = self.root(&format!("memory-{size}"), &plan)?;
            println!(
                "\nIn memory, 64 files of {name}, {clients} clients, server on CPU 0, clients on CPU 1; medians of {ROUNDS} rounds, ratios of the same round"
            );
            println!(
                "{:<24}{:>12}{:>12}{:>16}{:>10}{:>10}{:>18}",
                "server", "answers/s", "MB/s", "CPU s/million", "rate", "CPU", "CPU: least, most"
            );
            let mut rivals = vec![(Rival::FIFO, "fifo".to_owned())];
            if self.has_nginx {
                let nginx = Rival::Nginx { aio: false };
                rivals.push((nginx, nginx.name()));
            }
            rivals.push((Rival::OWN, Rival::OWN.name()));
            rivals.push((Rival::FIFO, "fifo, again".to_owned()));
            let servers: Vec<Running> = rivals
                .iter()
                .map(|(rival, _)| self.start(*rival, &root, false, 1, Some("0")))
                .collect::<Result<_>>()?;
            let ask = |server: &Running, time: Duration| {
                let mut load = self.load(&plan, 0.0, Pace::Closed { clients });
                (load.address, load.warm_up, load.time) = (server.address, Duration::ZERO, time);
                let before = cpu_seconds(server.child.id());
                let report = run(&load)?;
                if report.errors > 0 {
                    bail!("{:?}", report.first_error);
                }
                let cpu = cpu_seconds(server.child.id()) - before;
                Ok((report.per_second(), cpu * 1e6 / report.requests.max(1) as f64))
            };
            for server in &servers {
                ask(server, Duration::from_millis(700))?;
            }
            let mut runs = vec![Vec::new(); servers.len()];
            for round in 0..ROUNDS {
                for at in (0..servers.len()).map(|at| (at + round) % servers.len()) {
                    runs[at].push(ask(&servers[at], time)?);
                }
            }
            let sorted = |of: &dyn Fn(usize) -> f64| {
                let mut values: Vec<f64> = (0..ROUNDS).map(of).collect();
                values.sort_by(f64::total_cmp);
                values
            };
            let median = |of: &dyn Fn(usize) -> f64| sorted(of)[ROUNDS / 2];
            for ((_, name), own) in rivals.iter().zip(&runs) {
                let (rate, cpu) = (median(&|round| own[round].0), median(&|round| own[round].1));
                let cpus = sorted(&|round| own[round].1 / runs[0][round].1);
                println!(
                    "{name:<24}{rate:>12.0}{:>12.0}{cpu:>16.2}{:>10.3}{:>10.3}{:>18}",
                    rate * size as f64 / 1e6,
                    median(&|round| own[round].0 / runs[0][round].0),
                    cpus[ROUNDS / 2],
                    format!("{:.3}, {:.3}", cpus[0], cpus[ROUNDS - 1]),
                );
            }
            drop(servers);
            self.memory_bars(
                name,
                &rivals.iter().map(|(rival, _)| *rival).collect::<Vec<_>>(),
                |at, other| median(&|round| runs[at][round].0 / runs[other][round].0),
            );
        }
        Ok(())
    }

    /// What the default order must reach of `fifo` and of nginx, by the medians of the ratios of
    /// one round.
    fn memory_bars(&self, name: &str, rivals: &[Rival], ratio: impl Fn(usize, usize) -> f64) {
        let at = |wanted: Rival| rivals.iter().position(|rival| *rival == wanted);
        // At 64 KiB machines differ too much for more.
        let (fifo_bar, nginx_bar) = match name {
            "4 KiB" => (0.95, 0.8),
            "1 MiB" => (0.95, 0.6),
            _ => (0.85, 0.4),
        };
        let (Some(own), Some(fifo)) = (at(Rival::OWN), at(Rival::FIFO)) else { return };
        let bar = |other: &str, ratio, bar| {
            self.bars.at_least(
                &format!("in memory, {name}: the default, answers/s against {other}"),
                ratio,
                bar,
            );
        };
        bar("fifo", ratio(own, fifo), fifo_bar);
        if let Some(nginx) = at(Rival::Nginx { aio: false }) {
            bar("nginx, sendfile", ratio(own, nginx), nginx_bar);
        }
    }
}

/// Of a process and its children, as nginx's workers are: by the scheduler's own count, which is
/// finer than ticks.
fn cpu_seconds(pid: u32) -> f64 {
    let nanoseconds = |pid: u32| -> f64 {
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return 0.0 };
        let of_task = |task: fs::DirEntry| {
            let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<f64>().ok()
        };
        tasks.flatten().filter_map(of_task).sum()
    };
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children: f64 = children.split_whitespace().filter_map(|pid| pid.parse().ok()).map(nanoseconds).sum();
    (nanoseconds(pid) + children) / 1e9
}
