//! One run of the queries: by the kernel alone, steered, or through a mount.

use anyhow::{Context, Result, bail};
use pantler_kernel::devices::Device;
use pantler_kernel::group::Throttle;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use std::cell::OnceCell;
use std::fmt;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::Interrupt;
use super::groups::Group;
use super::source::Source;

/// An ordinary cloud volume.
const SLOW: (u64, u64) = (3000, 125_000_000);
/// What the program itself, the daemon and the kernel's bookkeeping take of the budget before the
/// mount's frames. With half a megabyte less the limit killed the daemon in some runs.
const MOUNT_RESERVE_BYTES: u64 = 24 << 18;
/// A run that takes longer is broken.
const RUN_MAX: Duration = Duration::from_secs(60);
/// How long an interrupted run may take to clean up behind itself.
const STOP_MAX: Duration = Duration::from_secs(3);
/// How long a mount may take to be ready or to go.
const MOUNT_MAX: Duration = Duration::from_secs(10);

/// How the cache is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The kernel's page cache, nothing else.
    Kernel,
    /// The kernel's page cache, steered.
    Steer,
    /// The mount, by global LRU.
    MountLru,
    /// The mount, under the program's control.
    Mount,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Kernel, Kind::Steer, Kind::MountLru, Kind::Mount];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Kernel => "kernel",
            Kind::Steer => "steer",
            Kind::MountLru => "mount-lru",
            Kind::Mount => "mount",
        })
    }
}

/// On which disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disk {
    /// As it is.
    Raw,
    /// Slowed down to an ordinary cloud volume.
    Throttled,
}

impl fmt::Display for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Disk::Raw => "raw",
            Disk::Throttled => "throttled",
        })
    }
}

/// What one run measured.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    /// Read from devices by program and daemon.
    pub device_read_bytes: u64,
    /// From the first query's start to the last one's end.
    pub elapsed_s: f64,
    /// The whole command, setting up and tearing down included.
    pub command_s: f64,
    /// The most memory the control group ever held.
    pub memory_peak_bytes: u64,
}

/// Everything the runs have in common.
pub struct Scene {
    pub source: Source,
    budget_bytes: u64,
    interrupt: Interrupt,
    folder: PathBuf,
    pantler: PathBuf,
    own: PathBuf,
    device: Device,
    expected: OnceCell<Vec<u8>>,
}

impl Scene {
    pub fn new(folder: &Path, source: Source, budget_bytes: u64, interrupt: Interrupt) -> Result<Scene> {
        // Limits are for whole disks only.
        let device = Device::of(source.identity.0).disk();
        let pantler = Path::new("target/demo/pantler").canonicalize().context("pantler is not built")?;
        let own = std::env::current_exe()?;
        let folder = folder.to_owned();
        let scene = Scene {
            source,
            budget_bytes,
            interrupt,
            folder,
            pantler,
            own,
            device,
            expected: OnceCell::new(),
        };
        // An earlier demo may have been killed.
        scene.unmount();
        Ok(scene)
    }

    /// Runs the queries once.
    pub fn run(&self, kind: Kind, disk: Disk) -> Result<Measured> {
        let throttle = (disk == Disk::Throttled).then_some(Throttle {
            major: self.device.major,
            minor: self.device.minor,
            reads_per_s: SLOW.0,
            read_bytes_per_s: SLOW.1,
        });
        let group = Group::new(&format!("demo {kind}"), throttle)?;
        self.drop_database()?;
        let mount = match kind {
            Kind::MountLru => Some(self.mount(&group, "global-lru")?),
            Kind::Mount => Some(self.mount(&group, "lru-sp")?),
            Kind::Kernel | Kind::Steer => None,
        };
        // After the mount: it refuses a limit that leaves its host less than 24 MiB, which is for
        // hosts with more threads that run for longer.
        group.limit(self.budget_bytes)?;
        let result = self.folder.join("result");
        let answers = self.folder.join(format!("answers-{kind}"));
        let _ = fs::remove_file(&result);
        let mut command = self.inside(&group, self.steering(kind));
        command
            .arg(&self.own)
            .arg("demo-clock")
            .arg(&result)
            .arg(group.io_folder()?)
            .arg(self.throttle_text(throttle));
        command.args(["--", "sh"]).arg(&self.source.script).arg(&answers);
        command.current_dir(if mount.is_some() { self.mount_point() } else { self.source.tree.clone() });
        let start = Instant::now();
        let status = self.wait(command.spawn().context("cannot start a run")?, RUN_MAX)?;
        let command_s = start.elapsed().as_secs_f64();
        if !status.success() {
            let said = mount.as_ref().and_then(|_| fs::read_to_string(self.folder.join("mount.log")).ok());
            bail!("the {kind} run ended with {status}; the mount said: {}", said.unwrap_or_default().trim());
        }
        let text = fs::read_to_string(&result).context("the run left no result")?;
        let (read, seconds) = text.split_once(' ').context("the run left half a result")?;
        let measured = Measured {
            device_read_bytes: read.parse()?,
            elapsed_s: seconds.trim().parse()?,
            command_s,
            memory_peak_bytes: group.peak_bytes()?,
        };
        drop(mount);
        self.compare(&answers)?;
        Ok(measured)
    }

    /// How many blocks the last run had, which was steered.
    pub fn steered_blocks(&self) -> Result<u64> {
        let report = fs::read_to_string(self.steer_report()).context("the steered run left no report")?;
        let report: Value = serde_json::from_str(report.lines().next().unwrap_or_default())?;
        let count =
            |part: &str, name: &str| report[part][name].as_u64().with_context(|| format!("no {name}"));
        // At the end there may be room for more than there ever was: what the program held is free.
        Ok(count("body", "capacity_blocks")?.min(count("body_counters", "resident_peak")?))
    }

    /// What the model of a steered run reads of recorded references, which are lines for the
    /// simulator: the same engine over a model of the kernel, with that many blocks.
    pub fn modelled_read_bytes(&self, recorded: &str, blocks: u64) -> Result<u64> {
        let references = self.folder.join("references.csv");
        fs::write(&references, recorded).context("cannot write the references")?;
        let mut command = Command::new(&self.pantler);
        command.args(["sim", "--body", "steer", "--policy", "mru", "--json", "--size", &blocks.to_string()]);
        let output = command.arg(&references).output().context("cannot start the simulator")?;
        if !output.status.success() {
            bail!("the simulator: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let record: Value = serde_json::from_slice(&output.stdout)?;
        Ok(record["device_reads"].as_u64().context("the simulator counts no reads")? * 4096)
    }

    fn steer_report(&self) -> PathBuf {
        self.folder.join("steer.json")
    }

    /// A command that starts inside the group; `words` go before the program.
    fn inside(&self, group: &Group, words: Vec<String>) -> Command {
        let mut command = group.command(&self.own, &words, &self.folder);
        // A group of its own: Ctrl-C reaches the demo alone, which ends one thing after the other.
        command.process_group(0);
        command
    }

    fn steering(&self, kind: Kind) -> Vec<String> {
        let pantler = self.pantler.display().to_string();
        let budget = self.budget_bytes.to_string();
        let report = self.steer_report().display().to_string();
        let words: &[&str] = match kind {
            Kind::Kernel => return Vec::new(),
            Kind::Steer => &[
                &pantler,
                "run",
                "--memory",
                &budget,
                "--total",
                &budget,
                "--report",
                &report,
                "--profile",
                "cscope",
                "--",
            ],
            // On a mount the run is one owner too. The profile is the same; global LRU has no use
            // for it.
            Kind::MountLru | Kind::Mount => &[&pantler, "run", "--profile", "cscope", "--"],
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn throttle_text(&self, throttle: Option<Throttle>) -> String {
        let Some(throttle) = throttle else { return "none".to_owned() };
        let Throttle { major, minor, reads_per_s, read_bytes_per_s } = throttle;
        format!("{major}:{minor} {reads_per_s}/{major}:{minor} {read_bytes_per_s}")
    }

    /// Waits for a child, looking out for Ctrl-C, and never for ever.
    fn wait(&self, mut child: Child, at_most: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + at_most;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            let interrupted = self.interrupt.check();
            if interrupted.is_err() || Instant::now() > deadline {
                // The program's children too: they would go on reading.
                let group = Pid::from_child(&child);
                let _ = kill_process_group(group, Signal::TERM);
                let patience = Instant::now() + STOP_MAX;
                while child.try_wait()?.is_none() && Instant::now() < patience {
                    std::thread::sleep(Duration::from_millis(5));
                }
                let _ = kill_process_group(group, Signal::KILL);
                child.wait()?;
                interrupted?;
                bail!("a run took more than {} s", at_most.as_secs());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn mount_point(&self) -> PathBuf {
        self.folder.join("mnt")
    }

    /// Mounts the tree inside the group, so that the daemon's memory and reads count.
    fn mount(&self, group: &Group, allocation: &str) -> Result<Mounted<'_>> {
        let point = self.mount_point();
        fs::create_dir_all(&point).context("cannot make a mount point")?;
        let pantler = self.pantler.display().to_string();
        let mut command = self.inside(group, vec![pantler, "mount".into(), "--foreground".into()]);
        let cache = self.budget_bytes.saturating_sub(MOUNT_RESERVE_BYTES);
        command.arg(&self.source.tree).arg(&point).args([
            "--cache",
            &cache.to_string(),
            "--allocation",
            allocation,
            // What is compared is replacement, in memory that the budget counts.
            "--frames",
            "own",
            "--lookahead",
            "none",
            "--prefetchers",
            "0",
            // One program reads at a time: further threads would take their buffers from the
            // budget, and wake each other.
            "--threads",
            "1",
        ]);
        let (log, ready) = (self.folder.join("mount.log"), self.folder.join("mount.ready"));
        command.stdout(fs::File::create(&ready)?).stderr(fs::File::create(&log)?);
        let mut mounted = Mounted { scene: self, child: command.spawn().context("cannot start the mount")? };
        let deadline = Instant::now() + MOUNT_MAX;
        // It says so when the program can speak to it, which is after the kernel shows it.
        while ready.metadata()?.len() == 0 {
            self.interrupt.check()?;
            if let Some(status) = mounted.child.try_wait()? {
                let said = fs::read_to_string(&log).unwrap_or_default();
                bail!("the mount ended with {status}: {}", said.lines().last().unwrap_or("it said nothing"));
            }
            if Instant::now() > deadline {
                bail!("the mount is not ready within {} s", MOUNT_MAX.as_secs());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(mounted)
    }

    fn unmount(&self) {
        let point = self.mount_point();
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        if mounts.split_whitespace().any(|word| Path::new(word) == point) {
            let quiet = Command::new("umount").arg(&point).stderr(Stdio::null()).status();
            if !quiet.is_ok_and(|status| status.success()) {
                let _ = Command::new("umount").arg("--lazy").arg(&point).status();
            }
        }
    }

    /// The run starts with nothing of the database in memory.
    fn drop_database(&self) -> Result<()> {
        let file = fs::File::open(&self.source.database)?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).context("cannot drop the database")
    }

    /// All runs must give the same answers, byte for byte: those of the very first one, by the
    /// kernel alone.
    fn compare(&self, answers: &Path) -> Result<()> {
        let found = fs::read(answers).context("the queries left no answers")?;
        if found.is_empty() {
            bail!("the queries found nothing");
        }
        if *self.expected.get_or_init(|| found.clone()) != found {
            let text = format!("the answers in {} are not the kernel's", answers.display());
            return Err(WrongAnswers(text).into());
        }
        Ok(())
    }
}

/// Nothing that a busy or poor machine could excuse.
#[derive(Debug)]
pub struct WrongAnswers(String);

impl fmt::Display for WrongAnswers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongAnswers {}

/// A mount of the demo, gone when it goes out of scope.
struct Mounted<'a> {
    scene: &'a Scene,
    child: Child,
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        self.scene.unmount();
        let deadline = Instant::now() + MOUNT_MAX;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
