//! TOCS'96: caching, prefetching and disk scheduling together (ACFS).

use anyhow::Result;
use pantler_sim::Watch;
use pantler_sim::processes::{CONFIGURATIONS, Configuration, MachineOptions, Scene, run_processes};
use pantler_steward::lists::Prefetching;

use crate::outcome::{Outcome, Table, change};
use crate::paper::Number::Figure;
use crate::paper::{Paper, elsewhere, here, not, quick};
use crate::virtual_time::{Experiment, Ran};

pub(crate) const PAPER: Paper = Paper {
    name: "tocs96",
    source: "Cao, Felten, Karlin, Li: Implementation and Performance of Integrated Application-Controlled File \
             Caching, Prefetching, and Disk Scheduling (TOCS 1996)",
    about: "The six file systems in virtual time, with the steward and the scheduler of the bodies, on models of the \
            paper's disks. \
            The paper prints its results as pictures only: what its text says of them is tried below each table. \
            Its second and third file system take lists for prefetching only; here a list always names victims, too.",
    parts: &[
        quick(Figure(&[1]), "Prefetching that hurts", &[], figure_1),
        not(Figure(&[2, 3]), "LRU-SP, and the modules", "they are pictures", "docs/RULES.md"),
        here(Figure(&[4, 5]), "Programs alone", &[], programs_alone),
        here(Figure(&[6, 7]), "Size of a batch", &[], batches),
        here(Figure(&[8, 9]), "Programs at once", &[], programs_at_once),
        here(Figure(&[10, 11]), "An oblivious neighbour", &[], andrew),
        elsewhere(
            Figure(&[4, 5, 8, 9]),
            "Real programs on real, throttled and modelled disks",
            "cargo bench -p pantler-mount --bench prefetching",
            "benchmarks/prefetching-real.md",
        ),
    ],
};

const SMALL: u32 = 819;
const LARGE: u32 = 1536;

fn figure_1() -> Result<Outcome> {
    let scene = Scene::of_workloads(&["figure-1"], crate::SEED)?;
    let mut table =
        Table::new("A B C A, with A and B cached in two frames", 1, &["prefetching", "time units", "paper"]);
    let disk = "figure-1".parse().map_err(|()| anyhow::anyhow!("no disk of figure 1"))?;
    let none = Prefetching { threshold: u32::MAX, ..Prefetching::default() };
    let idle = Prefetching { threshold: 1, batch: 1, when_idle: true, ..Prefetching::default() };
    for (name, system, prefetching, printed) in [
        ("none, the list names victims", "ac+prefetch", Some(none), "8"),
        ("whenever the disk is idle", "ac+prefetch", Some(idle), "10"),
        ("as mounts do", "ac+prefetch+scheduling", None, ""),
        ("none, LRU", "lru+obl", None, ""),
    ] {
        let configuration: Configuration =
            system.parse().map_err(|()| anyhow::anyhow!("no file system {system}"))?;
        let mut options = MachineOptions::new(configuration, 2, disk);
        options.prefetching = prefetching;
        let outcome = run_processes(&scene, &options, &Watch::default())?;
        table.row(false, [name.to_owned(), (outcome.elapsed_ns / 1_000_000).to_string(), printed.to_owned()]);
    }
    Ok(Outcome::of([table]))
}

/// Under each of the six.
fn six(programs: &[&str], frames: u32) -> Result<Vec<Ran>> {
    CONFIGURATIONS.iter().map(|system| Experiment::new(programs, system.as_str(), frames)?.run()).collect()
}

fn columns() -> Vec<&'static str> {
    ["programs", "what"].into_iter().chain(CONFIGURATIONS.iter().map(Configuration::as_str)).collect()
}

/// Scenes under the six file systems, seconds and reads. Also the times by scene, as parts of that
/// of the first one.
fn systems(title: &str, scenes: &[&[&str]], frames: u32) -> Result<(Table, Vec<Vec<f64>>)> {
    let mut table = Table::new(title, 2, &columns());
    let mut times = Vec::new();
    for programs in scenes {
        let ran = six(programs, frames)?;
        let first = ran[0].seconds;
        let seconds = ran.iter().enumerate().map(|(at, ran)| match at {
            0 => format!("{first:.1}"),
            _ => format!("{:.1}, {}", ran.seconds, change(first, ran.seconds)),
        });
        let name = programs.join("+");
        let is_behind = ran[5].seconds > 1.001 * first;
        table.row(is_behind, [name.clone(), "seconds".into()].into_iter().chain(seconds).collect::<Vec<_>>());
        let reads = ran.iter().map(|ran| ran.reads.to_string());
        table.row(false, [name, "reads".into()].into_iter().chain(reads).collect::<Vec<_>>());
        times.push(ran.iter().map(|ran| ran.seconds / first).collect());
    }
    let mean = |system: usize| {
        let sum: f64 = times.iter().map(|row: &Vec<f64>| row[system]).sum();
        change(1.0, sum / times.len() as f64)
    };
    let names = ["mean".to_owned(), "seconds".to_owned(), String::new()].into_iter();
    table.row(false, names.chain((1..6).map(mean)).collect::<Vec<_>>());
    Ok((table, times))
}

/// Mean change of time by the last file system, whether it is that for all, and the range.
fn means(times: &[Vec<f64>]) -> (f64, bool, String) {
    let last: Vec<f64> = times.iter().map(|row| row[5] - 1.0).collect();
    let mean = last.iter().sum::<f64>() / last.len() as f64;
    let (least, most) =
        last.iter().fold((0.0_f64, -1.0_f64), |(least, most), &one| (least.min(one), most.max(one)));
    let found = format!("{:+.0} % on average, {:+.0} to {:+.0} %", 100.0 * mean, 100.0 * most, 100.0 * least);
    (mean, most < 0.0, found)
}

fn programs_alone() -> Result<Outcome> {
    const SCENES: [&[&str]; 7] = [&["cs1"], &["cs2"], &["cs3"], &["din"], &["gli"], &["pse1"], &["pse2"]];
    let (four, mut times) = systems("6.4 MB (figure 4)", &SCENES, SMALL)?;
    let (five, more) = systems("12 MB (figure 5)", &SCENES, LARGE)?;
    let slower = times[0][4] > times[0][3];
    times.extend(more);
    let (mean, for_all, found) = means(&times);
    let best = times.iter().filter(|row| row.iter().all(|time| row[5] <= time * 1.005)).count();
    Ok(Outcome::of([four, five])
        .claim("the integrated system takes 26 % less on average, 3 to 49 %", mean <= -0.26 && for_all, found)
        .claim(
            "it is the best of the six for every program",
            best == times.len(),
            format!("in {best} of {}", times.len()),
        )
        .claim(
            "cs1 is slower with control and prefetching than with control alone (6.4 MB)",
            slower,
            "see the row",
        )
        .note("Postgres has its files on the RZ26, all others on the RZ56."))
}

fn batches() -> Result<Outcome> {
    const BATCHES: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
    let names: Vec<String> = BATCHES.iter().map(|batch| format!("B = {batch}")).collect();
    let columns: Vec<&str> =
        ["program", "what"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let mut table = Table::new("Time as a part of that with B = 1, 6.4 MB", 2, &columns);
    let mut falls = 0;
    for program in ["cs2", "cs3", "gli", "pse2"] {
        let mut ran = Vec::new();
        for batch in BATCHES {
            let mut experiment = Experiment::new(&[program], "ac+prefetch+scheduling", SMALL)?;
            experiment.batch = Some(batch);
            ran.push(experiment.run()?);
        }
        let first = ran[0].seconds;
        let name = |of: &str| [program.to_owned(), of.to_owned()].into_iter();
        let times = ran.iter().map(|ran| format!("{:.3}", ran.seconds / first));
        table.row(false, name("time (figure 6)").chain(times).collect::<Vec<_>>());
        let latencies = ran.iter().map(|ran| format!("{:.1}", ran.disk_ms));
        table.row(false, name("ms of a read (figure 7)").chain(latencies).collect::<Vec<_>>());
        falls += usize::from(ran.windows(2).all(|pair| pair[1].disk_ms <= pair[0].disk_ms * 1.01));
    }
    Ok(Outcome::of([table])
        .claim_of("a read takes less time as batches grow", falls, 4)
        .note(
            "The milliseconds are those in which the disk was at work, for each block: the paper's figure 7 also counts \
             the time in its queue, and shows cs3 only. \
             In the paper times rise again for large B in some programs, because a reader waits for the batch; here \
             what a reader waits for goes first within a batch, and they do not.",
        ))
}

fn programs_at_once() -> Result<Outcome> {
    const SCENES: [&[&str]; 8] = [
        &["cs1", "cs3"],
        &["cs3", "gli"],
        &["cs1", "pse2"],
        &["cs3", "pse1"],
        &["din", "andrew"],
        &["cs2", "andrew"],
        &["gli", "andrew"],
        &["pse2", "andrew"],
    ];
    let (eight, mut times) = systems("6.4 MB (figure 8)", &SCENES, SMALL)?;
    let (nine, more) = systems("12 MB (figure 9)", &SCENES, LARGE)?;
    times.extend(more);
    let (mean, for_all, found) = means(&times);
    let won = times.iter().filter(|row| row[5] <= 1.0).count();
    Ok(Outcome::of([eight, nine])
        .claim("the integrated system takes 32 % less on average, 5 to 76 %", mean <= -0.32 && for_all, found)
        .claim_of("both programs together are always done sooner", won, times.len())
        .note("Seconds until both have ended. Pairs with Postgres have two disks, all others one."))
}

fn andrew() -> Result<Outcome> {
    let mut tables = Vec::new();
    let mut worst = (0.0_f64, String::new());
    for (title, frames) in [("6.4 MB (figure 10)", SMALL), ("12 MB (figure 11)", LARGE)] {
        let mut table = Table::new(title, 2, &columns());
        for program in ["din", "cs2", "gli", "pse2"] {
            let ran = six(&[program, "andrew"], frames)?;
            let seconds: Vec<f64> = ran.iter().map(|ran| ran.processes[1].0).collect();
            let longer = seconds[5] / seconds[0] - 1.0;
            if longer > worst.0 {
                worst = (longer, program.to_owned());
            }
            let name = |of: &str| [format!("andrew beside {program}"), of.to_owned()].into_iter();
            let times = seconds.iter().enumerate().map(|(at, time)| match at {
                0 => format!("{time:.1}"),
                _ => format!("{time:.1}, {}", change(seconds[0], *time)),
            });
            table.row(longer > 0.001, name("seconds").chain(times).collect::<Vec<_>>());
            let reads = ran.iter().map(|ran| ran.processes[1].1.to_string());
            table.row(false, name("reads").chain(reads).collect::<Vec<_>>());
        }
        tables.push(table);
    }
    Ok(Outcome::of(tables)
        .claim(
            "all three together change the time of the Andrew benchmark by -25 to +20 %",
            worst.0 <= 0.2,
            format!("at worst {:+.0} %, beside {}", 100.0 * worst.0, worst.1),
        )
        .note(
            "Why it loses: with one processor most of the delay is the processor. A program that prefetches waits less \
             for the disk, and computes more often when Andrew wants to. Its batches are long sweeps, too, and each \
             read of Andrew's waits for the run that is being served.",
        ))
}
