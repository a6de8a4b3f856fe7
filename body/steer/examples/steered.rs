//! Runs a program under a budget, steered or by the kernel alone, and prints what it cost as one
//! line of JSON.
//!
//! ```text
//! cargo run --release -p pantler-steer --example steered -- [--kernel] [--budget BYTES]
//!     [--total BYTES] [--policy NAME] [--throttle MAJOR:MINOR] [--no-others] [--heed-advice]
//!     [--alone] -- PROGRAM ARGUMENTS
//! ```
//!
//! `--kernel` gives the kernel the same group with a hard limit of the budget (or total). `--alone`
//! does nothing at all but measure.

use std::process::Command;
use std::time::Instant;

use pantler_control::Profile;
use pantler_kernel::group::{self, RunGroup, Throttle};
use pantler_steer::{Steer, SteerOptions};

type Failure = Box<dyn std::error::Error>;

#[derive(Default)]
struct Arguments {
    kernel: bool,
    alone: bool,
    budget: u64,
    total: Option<u64>,
    policy: Option<String>,
    throttle: Option<(u32, u32)>,
    no_others: bool,
    heed_advice: bool,
    program: Vec<String>,
}

fn parse() -> Result<Arguments, Failure> {
    let mut arguments = Arguments { budget: 64 << 20, ..Arguments::default() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or("a value is missing");
        match word.as_str() {
            "--kernel" => arguments.kernel = true,
            "--alone" => arguments.alone = true,
            "--no-others" => arguments.no_others = true,
            "--heed-advice" => arguments.heed_advice = true,
            "--budget" => arguments.budget = value()?.parse()?,
            "--total" => arguments.total = Some(value()?.parse()?),
            "--policy" => arguments.policy = Some(value()?),
            "--throttle" => {
                let value = value()?;
                let (major, minor) = value.split_once(':').ok_or("MAJOR:MINOR")?;
                arguments.throttle = Some((major.parse()?, minor.parse()?));
            }
            "--" => {
                arguments.program = words.collect();
                return Ok(arguments);
            }
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    Err("no program".into())
}

fn throttle(group: &dyn RunGroup, device: Option<(u32, u32)>) -> Result<(), Failure> {
    if let Some((major, minor)) = device {
        group.throttle(Throttle { major, minor, reads_per_s: 3000, read_bytes_per_s: 125_000_000 })?;
    }
    Ok(())
}

/// CPU seconds of this process so far, user and system, all threads.
fn cpu_s() -> f64 {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 * 1e-9
}

fn main() -> Result<(), Failure> {
    let arguments = parse()?;
    let mut command = Command::new(&arguments.program[0]);
    command.args(&arguments.program[1..]).stdout(std::process::Stdio::null());
    if arguments.alone {
        let begin = Instant::now();
        command.status()?;
        println!("{{\"name\":\"alone\",\"elapsed_s\":{:.4}}}", begin.elapsed().as_secs_f64());
        return Ok(());
    }
    if arguments.kernel {
        return kernel(&arguments, command);
    }
    pantler_kernel::heap::hold_little(1);
    let mut options = SteerOptions::new("example", arguments.budget);
    options.total_bytes = arguments.total;
    options.watch_others = !arguments.no_others;
    options.heeds_advice = arguments.heed_advice;
    if let Some(policy) = &arguments.policy {
        options.profile = Some(Profile::parse("example", &format!("[policies]\n0 = \"{policy}\"\n"))?);
    }
    let steer = Steer::start(options)?;
    throttle(steer.group(), arguments.throttle)?;
    steer.enter(&mut command)?;
    let (begin, cpu) = (Instant::now(), cpu_s());
    command.status()?;
    let elapsed = begin.elapsed().as_secs_f64();
    let cpu = cpu_s() - cpu;
    let read = steer.group().device_read_bytes().unwrap_or(0);
    let peak = steer.group().peak().unwrap_or(0);
    let usage = steer.group().usage()?;
    let totals = steer.totals();
    let counters = steer.stop()?;
    let named: Vec<String> = counters.named().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    println!(
        "{{\"name\":\"steer\",\"elapsed_s\":{elapsed:.4},\"cpu_s\":{cpu:.4},\"device_read_bytes\":{read},\"memory_peak_bytes\":{peak},\"other_bytes\":{},\"hit_ratio\":{:.4},\"overrules\":{},\"mistakes\":{},\"revocations\":{},{}}}",
        usage.other,
        counters.hit_ratio(),
        totals.overrules,
        totals.mistakes,
        totals.revocations,
        named.join(",")
    );
    Ok(())
}

fn kernel(arguments: &Arguments, mut command: Command) -> Result<(), Failure> {
    use std::os::unix::process::CommandExt;
    let name = pantler_kernel::names::run_name("kernel");
    let group = group::create(&name, false)?;
    group.hard_limit(Some(arguments.total.unwrap_or(arguments.budget)))?;
    throttle(&*group, arguments.throttle)?;
    let files = group.program_files();
    // SAFETY: the hook writes one byte to each file; the example is single-threaded, so allocating
    // is safe too.
    unsafe {
        command.pre_exec(move || {
            for file in &files {
                std::fs::write(file, "0")?;
            }
            Ok(())
        })
    };
    let begin = Instant::now();
    command.status()?;
    let elapsed = begin.elapsed().as_secs_f64();
    let read = group.device_read_bytes().unwrap_or(0);
    let peak = group.peak().unwrap_or(0);
    println!(
        "{{\"name\":\"kernel\",\"elapsed_s\":{elapsed:.4},\"device_read_bytes\":{read},\"memory_peak_bytes\":{peak}}}"
    );
    group.remove()?;
    Ok(())
}
