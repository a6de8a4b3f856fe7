//! What the order of requests is worth, beside nginx, under a memory limit and on a slow disk.
//! Needs root.
//!
//! ```text
//! cargo bench -p pantler-web --bench order                        # everything, about half an hour
//! cargo bench -p pantler-web --bench order -- --quick             # shorter runs
//! cargo bench -p pantler-web --bench order -- files surge memory  # some parts
//! ```
//!
//! Each run gets a fresh control group with a memory limit for everything in it (page cache,
//! buffers, server) and a throttled disk; the server runs inside, the clients outside. All files
//! are dropped from the page cache before. nginx has `aio threads` and `sendfile`, two workers, and
//! no log; in memory `sendfile` alone, and one worker. Rows that lose are printed like the others.
//! Each row has a bar, told as `ok` or `MISS`, and a `MISS` makes the bench fail at its end. So
//! does a rival (nginx, wrk) that cannot be installed, unless `--without-rivals` is given.

use anyhow::{Context, Result, bail};
use pantler_kernel::group::{self, RunGroup, Throttle};
use pantler_web::{Options, Order, Server};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Memory of a group: 80 MB of cache, and what the server itself holds.
const LIMIT_BYTES: u64 = 92 << 20;
const CLIENTS: u32 = 144;
const DISK_BYTES_PER_S: u64 = 20_000_000;
const DISK_READS_PER_S: u64 = 400;
/// Files as of a web site, and how they are asked for.
const SURGE: Plan = Plan { files: 12_000, sizes: Sizes::Surge, seed: 1 };
const SURGE_ZIPF: f64 = 1.0;

#[path = "../../../benches/bars.rs"]
mod bars;
#[allow(dead_code, unused_imports, reason = "its tests run in tests/wrk.rs")]
#[path = "order/load.rs"]
mod load;
#[path = "order/memory.rs"]
mod memory;
#[path = "order/wrk.rs"]
mod wrk;

use bars::Bars;
use load::{Load, Pace, Plan, Report, Sizes, run};

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["serve", root, order, threads] => return serve(root, order, threads),
        ["enter", doors, program, ..] => return enter(doors, program, &words[3..]),
        ["hold", address, count] => return hold(address, count),
        _ => {}
    }
    if !rustix::process::geteuid().is_root() {
        println!("skipped: control groups need root");
        return Ok(());
    }
    let is_quick = words.contains(&"--quick");
    let parts: Vec<&str> = words.iter().copied().filter(|word| !word.starts_with("--")).collect();
    let wants = |part: &str| parts.is_empty() || parts.contains(&part);
    let bench = Bench::new(is_quick, !words.contains(&"--without-rivals"))?;
    bench.environment();
    if wants("files") {
        bench.disk_bound(
            "200 files of 1 MB",
            &Plan { files: 200, sizes: Sizes::Fixed(1_000_000), seed: 1 },
            0.0,
        )?;
    }
    if wants("surge") {
        bench.disk_bound("12,000 files of SURGE-like sizes", &SURGE, SURGE_ZIPF)?;
    }
    if wants("open") {
        bench.open_loop()?;
    }
    if wants("memory") {
        bench.in_memory()?;
    }
    if wants("wrk") {
        bench.wrk()?;
    }
    if wants("idle") {
        bench.idle()?;
    }
    if parts.contains(&"soak") {
        bench.soak()?;
    }
    Ok(bench.bars.end()?)
}

/// Becomes a server until standard input ends.
fn serve(root: &str, order: &str, threads: &str) -> Result<()> {
    let mut options = Options::new(root, "127.0.0.1:0".parse()?);
    options.metrics = Some("127.0.0.1:0".parse()?);
    options.order = order.parse().map_err(anyhow::Error::msg)?;
    options.threads = threads.parse()?;
    // What the server holds comes out of the same memory as what it caches.
    options.buffer_bytes = 16 << 20;
    options.limits.idle_time = Duration::from_secs(600);
    // As the command does.
    options.hold_little();
    let server = Server::start(options)?;
    println!("{} {}", server.address(), server.metrics_address().context("asked for")?);
    std::io::stdin().read_to_end(&mut Vec::new())?;
    server.stop();
    Ok(())
}

/// Enters control groups and becomes a program.
fn enter(doors: &str, program: &str, words: &[&str]) -> Result<()> {
    for door in doors.split(',').filter(|door| !door.is_empty()) {
        fs::write(door, "0").with_context(|| format!("cannot enter {door}"))?;
    }
    Err(Command::new(program).args(words).exec()).with_context(|| format!("cannot run {program}"))
}

/// Holds connections that say nothing until standard input ends.
fn hold(address: &str, count: &str) -> Result<()> {
    let count: usize = count.parse()?;
    let mut held = Vec::with_capacity(count);
    for _ in 0..count {
        held.push(TcpStream::connect(address)?);
    }
    println!("{}", held.len());
    let _ = std::io::stdin().read(&mut [0]);
    Ok(())
}

/// Which server.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Rival {
    Own(Order),
    Nginx { aio: bool },
}

impl Rival {
    const OWN: Rival = Rival::Own(Order::Truth);
    const FIFO: Rival = Rival::Own(Order::Fifo);

    fn name(&self) -> String {
        match self {
            Rival::Nginx { aio: true } => "nginx, aio threads".to_owned(),
            Rival::Nginx { aio: false } => "nginx, sendfile".to_owned(),
            Rival::Own(order) => <&str>::from(order).to_owned(),
        }
    }
}

/// A server in its group. Both end with it.
struct Running {
    child: Child,
    address: SocketAddr,
    metrics: Option<SocketAddr>,
    group: Option<Box<dyn RunGroup>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // The workers of nginx end with it.
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.child),
            rustix::process::Signal::TERM,
        );
        let _ = self.child.wait();
        std::thread::sleep(Duration::from_millis(200));
        if let Some(group) = &self.group
            && let Err(error) = group.remove()
        {
            eprintln!("a control group stays behind: {error}");
        }
    }
}

/// One row of a table.
struct Row {
    name: String,
    report: Report,
    device_bytes: u64,
}

impl Row {
    /// Read from the device for each answer.
    fn disk_kilobytes(&self) -> f64 {
        self.device_bytes as f64 / 1000.0 / self.report.requests.max(1) as f64
    }
}

struct Bench {
    folder: PathBuf,
    own: PathBuf,
    device: (u32, u32),
    time: Duration,
    warm_up: Duration,
    is_quick: bool,
    has_nginx: bool,
    /// Whether there are rivals.
    has_rivals: bool,
    bars: Bars,
}

impl Bench {
    fn new(is_quick: bool, has_rivals: bool) -> Result<Bench> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("order");
        fs::create_dir_all(&folder)?;
        let device = rustix::fs::stat(&folder)?.st_dev;
        let device = whole_disk(rustix::fs::major(device), rustix::fs::minor(device));
        let bars = Bars::default();
        let has_nginx = has_rivals && is_there("nginx-light", "/usr/sbin/nginx");
        if has_rivals && !has_nginx {
            bars.missing("nginx");
        }
        let (time, warm_up) = if is_quick { (20, 8) } else { (45, 12) };
        Ok(Bench {
            folder,
            own: std::env::current_exe()?,
            device,
            time: Duration::from_secs(time),
            warm_up: Duration::from_secs(warm_up),
            is_quick,
            has_nginx,
            has_rivals,
            bars,
        })
    }

    fn environment(&self) {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let cpu = text("/proc/cpuinfo");
        let model = cpu
            .lines()
            .find_map(|line| line.strip_prefix("model name"))
            .unwrap_or(": unknown")
            .trim_start_matches(['\t', ' ', ':'])
            .to_owned();
        println!(
            "Linux {}, {} CPUs, {model}, load {}; disk throttled to {} MB/s and {} reads/s, memory limit {} MB",
            text("/proc/sys/kernel/osrelease").trim(),
            std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
            text("/proc/loadavg").trim(),
            DISK_BYTES_PER_S / 1_000_000,
            DISK_READS_PER_S,
            LIMIT_BYTES / 1_000_000,
        );
    }

    /// The files of a plan, made once.
    fn root(&self, name: &str, plan: &Plan) -> Result<PathBuf> {
        let root = self.folder.join(name);
        if !root.join("complete").exists() {
            fs::create_dir_all(&root)?;
            plan.make(&root)?;
            rustix::fs::sync();
            fs::write(root.join("complete"), "yes")?;
        }
        Ok(root)
    }

    fn start(
        &self,
        rival: Rival,
        root: &Path,
        is_limited: bool,
        threads: u32,
        pin: Option<&str>,
    ) -> Result<Running> {
        forget(root)?;
        let group = if is_limited {
            let group = group::create(&pantler_kernel::names::run_name("web-bench"), false)?;
            group.hard_limit(Some(LIMIT_BYTES))?;
            group.throttle(Throttle {
                major: self.device.0,
                minor: self.device.1,
                reads_per_s: DISK_READS_PER_S,
                read_bytes_per_s: DISK_BYTES_PER_S,
            })?;
            Some(group)
        } else {
            None
        };
        let doors = group.as_ref().map(|group| group.program_files()).unwrap_or_default();
        let doors: Vec<String> = doors.iter().map(|door| door.display().to_string()).collect();
        let mut command = Command::new(&self.own);
        command.args(["enter", &doors.join(",")]);
        if let Some(cpu) = pin {
            command.args(["taskset", "-c", cpu]);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        match rival {
            Rival::Own(order) => {
                let root = root.display().to_string();
                command.arg(&self.own).args(["serve", &root, order.into(), &threads.to_string()]);
                let mut child = command.spawn()?;
                let mut line = String::new();
                BufReader::new(child.stdout.take().context("piped")?).read_line(&mut line)?;
                let (address, metrics) = line.trim().split_once(' ').context("the server did not start")?;
                let (address, metrics) = (address.parse()?, Some(metrics.parse()?));
                Ok(Running { child, address, metrics, group })
            }
            Rival::Nginx { aio } => {
                let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
                let config = self.nginx(root, port, threads, aio)?;
                command.args(["/usr/sbin/nginx", "-c", &config.display().to_string()]);
                let child = command.spawn()?;
                let address: SocketAddr = format!("127.0.0.1:{port}").parse()?;
                let limit = Instant::now() + Duration::from_secs(10);
                while TcpStream::connect(address).is_err() {
                    if Instant::now() > limit {
                        bail!("nginx does not answer");
                    }
                    std::thread::sleep(Duration::from_millis(50));
                }
                Ok(Running { child, address, metrics: None, group })
            }
        }
    }

    fn nginx(&self, root: &Path, port: u16, workers: u32, aio: bool) -> Result<PathBuf> {
        let path = self.folder.join("nginx.conf");
        let aio = if aio { "threads" } else { "off" };
        let text = include_str!("order/nginx.conf")
            .replace("WORKERS", &workers.to_string())
            .replace("READS", &format!("sendfile on;\n    aio {aio};"))
            .replace("PORT", &port.to_string())
            .replace("FOLDER", &self.folder.display().to_string())
            .replace("ROOT", &root.display().to_string());
        fs::write(&path, text)?;
        Ok(path)
    }

    fn row(&self, rival: Rival, root: &Path, load: &Load) -> Result<Row> {
        let running = self.start(rival, root, true, 2, None)?;
        let before = self.device_bytes(&running);
        let mut load = load.clone();
        load.address = running.address;
        // The warm-up's reads do not count: it is a load of its own.
        let warm = Load {
            time: self.warm_up,
            warm_up: Duration::ZERO,
            pace: Pace::Closed { clients: CLIENTS },
            seed: 99,
            ..load.clone()
        };
        run(&warm)?;
        let warm = self.device_bytes(&running);
        let report = run(&load)?;
        let device_bytes = self.device_bytes(&running) - warm;
        if warm <= before {
            println!("(device reads are not counted here)");
        }
        Ok(Row { name: rival.name(), report, device_bytes })
    }

    fn device_bytes(&self, running: &Running) -> u64 {
        running.group.as_ref().and_then(|group| group.device_read_bytes()).unwrap_or(0)
    }

    fn load(&self, plan: &Plan, zipf: f64, pace: Pace) -> Load {
        let address = ([127, 0, 0, 1], 0).into();
        Load { address, plan: *plan, zipf, pace, time: self.time, warm_up: Duration::ZERO, seed: 7 }
    }

    fn disk_bound(&self, title: &str, plan: &Plan, zipf: f64) -> Result<()> {
        let root = self.root(if plan.files == 200 { "files" } else { "surge" }, plan)?;
        let total: u64 = plan.sizes().iter().sum();
        println!(
            "\n{title} ({} MB), closed loop, {CLIENTS} clients, {:?} each",
            total / 1_000_000,
            self.time
        );
        let mut rivals = vec![Rival::FIFO];
        if self.has_nginx {
            rivals.push(Rival::Nginx { aio: true });
        }
        rivals.push(Rival::OWN);
        header();
        let mut rows: Vec<(Rival, Row)> = Vec::new();
        for rival in rivals {
            let row = self.row(rival, &root, &self.load(plan, zipf, Pace::Closed { clients: CLIENTS }))?;
            print_row(&row, rows.first().map(|(_, fifo)| fifo));
            rows.push((rival, row));
        }
        self.disk_bars(title, &rows);
        Ok(())
    }

    /// What the default must show against the first row, `fifo`, and against nginx.
    fn disk_bars(&self, title: &str, rows: &[(Rival, Row)]) {
        let rate = |row: &Row| row.report.per_second();
        let fifo = &rows[0].1;
        for (rival, row) in rows {
            let against = |what: &str| format!("{title}: {}, {what}", row.name);
            match rival {
                Rival::Nginx { .. } => {}
                &Rival::OWN => {
                    self.bars.at_least(&against("answers/s against fifo"), rate(row) / rate(fifo), 1.33);
                    if let Some((_, nginx)) =
                        rows.iter().find(|(rival, _)| matches!(rival, Rival::Nginx { .. }))
                    {
                        let gain = rate(row) / rate(nginx);
                        self.bars.at_least(&against("answers/s against nginx, aio threads"), gain, 1.33);
                    }
                    let disk = row.disk_kilobytes() / fifo.disk_kilobytes();
                    self.bars.at_most(&against("device bytes per answer against fifo"), disk, 1.0);
                    let tail = row.report.percentile_ms(99.0) / fifo.report.percentile_ms(99.0);
                    self.bars.at_most(&against("p99 against fifo"), tail, 1.5);
                    self.bars.at_most(&against("answers that failed"), row.report.errors as f64, 0.0);
                }
                Rival::Own(_) => {
                    self.bars.at_most(&against("answers that failed"), row.report.errors as f64, 0.0);
                }
            }
        }
    }

    /// Requests come at a rate that `fifo` can just not serve.
    fn open_loop(&self) -> Result<()> {
        let plan = Plan { files: 200, sizes: Sizes::Fixed(1_000_000), seed: 1 };
        let root = self.root("files", &plan)?;
        for rate in [25.0, 45.0] {
            println!("\n200 files of 1 MB, open loop, {rate} requests/s, {:?} each", self.time);
            header();
            let mut base = None;
            let mut rivals = vec![Rival::FIFO, Rival::OWN];
            if self.has_nginx {
                rivals.insert(1, Rival::Nginx { aio: true });
            }
            for rival in rivals {
                let row = self.row(rival, &root, &self.load(&plan, 0.0, Pace::Open { rate }))?;
                print_row(&row, base.as_ref());
                let what = format!("open loop, {rate} requests/s: {}", row.name);
                let mean = row.report.all.mean();
                match &base {
                    _ if matches!(rival, Rival::Nginx { .. }) => {}
                    None => self.bars.at_most(
                        &format!("{what}, answers that failed"),
                        row.report.errors as f64,
                        0.0,
                    ),
                    // At the higher rate `fifo` falls behind.
                    Some(fifo) => self.bars.at_most(
                        &format!("{what}, mean against fifo"),
                        mean / fifo.report.all.mean(),
                        if rate > 40.0 { 0.5 } else { 1.0 },
                    ),
                }
                base.get_or_insert(row);
            }
        }
        Ok(())
    }

    fn idle(&self) -> Result<()> {
        let plan = Plan { files: 64, sizes: Sizes::Fixed(4096), seed: 3 };
        let root = self.root("memory-4096", &plan)?;
        let running = self.start(Rival::OWN, &root, false, 2, None)?;
        let mut holder = Command::new(&self.own);
        holder
            .args(["hold", &running.address.to_string(), "10000"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut holder = holder.spawn()?;
        let mut line = String::new();
        BufReader::new(holder.stdout.take().context("piped")?).read_line(&mut line)?;
        std::thread::sleep(Duration::from_secs(2));
        let open = metric(running.metrics.context("own")?, "pantler_web_connections")?;
        let held = resident_bytes(running.child.id()) as f64 / 1e6;
        println!(
            "\nIdle connections: {} made, {open} open in the server, which holds {held:.1} MB",
            line.trim()
        );
        self.bars.at_least("idle: connections that are open", open, 10_000.0);
        self.bars.at_most("idle: megabytes of 10,000 connections", held, 300.0);
        drop(holder.stdin.take());
        holder.wait()?;
        Ok(())
    }

    /// The memory of the server must not grow: in the last third of the time at most 2 % more than
    /// in the middle one. In the two minutes of a quick run some files are still requested for the
    /// first time, so there it is only told.
    fn soak(&self) -> Result<()> {
        const LOOKS: u64 = 30;
        let plan = SURGE;
        let root = self.root("surge", &plan)?;
        let running = self.start(Rival::OWN, &root, true, 2, None)?;
        let time = Duration::from_secs(if self.is_quick { 4 } else { 20 });
        let minutes = (time * LOOKS as u32).as_secs() / 60;
        println!(
            "\nSoak: 12,000 files of SURGE-like sizes, {CLIENTS} clients, {minutes} minutes at full load; holds {:.1} MB at first",
            resident_bytes(running.child.id()) as f64 / 1e6
        );
        let mut held = Vec::new();
        for look in 1..=LOOKS {
            let mut load = self.load(&plan, 1.0, Pace::Closed { clients: CLIENTS });
            (load.address, load.time, load.seed) = (running.address, time, look);
            let report = run(&load)?;
            held.push(resident_bytes(running.child.id()) as f64 / 1e6);
            println!(
                "{:>4} s: {:.0} answers/s, {} failed, server holds {:.1} MB",
                look * time.as_secs(),
                report.per_second(),
                report.errors,
                held[held.len() - 1],
            );
        }
        let third = held.len() / 3;
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        let (middle, last) = (mean(&held[third..2 * third]), mean(&held[2 * third..]));
        println!("middle third {middle:.2} MB, last third {last:.2} MB: {:.3}", last / middle);
        if !self.is_quick {
            self.bars.at_most("soak: memory in the last third against the middle one", last / middle, 1.02);
        }
        Ok(())
    }
}

fn header() {
    println!(
        "{:<24}{:>9}{:>8}{:>9}{:>9}{:>9}{:>9}{:>9}{:>8}{:>8}",
        "server", "answers/s", "MB/s", "disk kB", "mean s", "p50 s", "p99 s", "max s", "rate", "p99"
    );
}

/// Rate and 99th percentile against the first row; disk kB are those read per answer.
fn print_row(row: &Row, base: Option<&Row>) {
    let report = &row.report;
    let seconds = |percent| report.percentile_ms(percent) / 1000.0;
    let base = base.unwrap_or(row);
    println!(
        "{:<24}{:>9.1}{:>8.2}{:>9.1}{:>9.3}{:>9.3}{:>9.3}{:>9.3}{:>8.2}{:>8.2}",
        row.name,
        report.per_second(),
        report.megabytes_per_second(),
        row.disk_kilobytes(),
        report.all.mean() / 1e6,
        seconds(50.0),
        seconds(99.0),
        report.all.max() as f64 / 1e6,
        report.per_second() / base.report.per_second(),
        seconds(99.0) / (base.report.percentile_ms(99.0) / 1000.0),
    );
    if report.errors > 0 || report.unanswered > 0 {
        println!(
            "{:24}{} failed ({}), {} had no answer 30 s after the end",
            "",
            report.errors,
            report.first_error.as_deref().unwrap_or(""),
            report.unanswered
        );
    }
}

/// Whether a program is there, which a package of Debian's brings.
fn is_there(package: &str, program: &str) -> bool {
    Path::new(program).exists()
        || Command::new("apt-get")
            .args(["install", "-y", "-qq", "--no-install-recommends", package])
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdout(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
}

/// A metric of the server.
fn metric(address: SocketAddr, name: &str) -> Result<f64> {
    use std::io::Write;
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let value = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    Ok(value.context("no such metric")?.parse()?)
}

/// Takes all files of a folder out of the page cache.
fn forget(root: &Path) -> Result<()> {
    for entry in fs::read_dir(root)? {
        rustix::fs::fadvise(&File::open(entry?.path())?, 0, None, rustix::fs::Advice::DontNeed)?;
    }
    Ok(())
}

/// A partition is throttled by its disk.
fn whole_disk(major: u32, minor: u32) -> (u32, u32) {
    let link = format!("/sys/dev/block/{major}:{minor}");
    let parent = || {
        let path = fs::canonicalize(&link).ok()?;
        path.join("partition").exists().then_some(())?;
        let text = fs::read_to_string(path.parent()?.join("dev")).ok()?;
        let (major, minor) = text.trim().split_once(':')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    };
    parent().unwrap_or((major, minor))
}

fn pin_to_cpu(cpu: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        println!("(not pinned: {error})");
    }
}

fn resident_bytes(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0) << 10
}
