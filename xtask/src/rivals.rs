//! `make rivals`: real programs that read more than their budget, by what else keeps files in
//! memory, and by Pantler: on one machine, from one disk, with one budget.
//!
//! A rival that does not keep itself to a budget runs with its program in a control group. Its
//! limit is the budget, and what both hold besides files in a run without a limit. `pantler run`
//! and `pantler mount` get the budget as option. Reads are those of the device, by any process.

use anyhow::{Context, Result, bail, ensure};
use std::cell::OnceCell;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::demo::groups::Group;
use crate::demo::{self, source};
use crate::limits::disk::Disk;
use crate::limits::looks;
use crate::packages;
use crate::shell::{self, say};
use crate::wanted::Wanted;

mod arms;
mod paired;
pub mod postgres;
mod report;
mod rows;
mod store;

use arms::{Beside, Locked, Rival};
use report::{Report, Section, Took};
use rows::Row;
use store::Store;

/// As a user builds it.
const BUILD: &str = "cargo build --release --package pantler-cli";
/// The image of the file system, and what runs leave.
const FOLDER: &str = "target/rivals";
/// Of the image, and what must be free for it.
const SIZE: &str = "1500M";
const FREE_BYTES: u64 = 2000 << 20;
/// How often each row is measured with each rival.
const REPEATS: usize = 5;
/// What a run from a cold cache reads of its data at least, in percent.
const COLD_PERCENT: u64 = 95;
/// What a budget may be passed by, in percent: blocks that were read ahead, or are on their way
/// out.
const PASSED_PERCENT: u64 = 5;
/// What `pantler mount` holds besides its frames: itself, its threads, its tables.
const MOUNT_BYTES: u64 = 32 << 20;

/// Measures, and prints the tables.
pub fn rivals(arguments: &[&str]) -> Result<()> {
    let is_quick = arguments.contains(&"--quick");
    let rest: Vec<&str> = arguments.iter().copied().filter(|word| *word != "--quick").collect();
    let names = Rival::ALL.map(Rival::name);
    let all = [&rows::NAMES[..], &names].concat();
    let wanted = Wanted::of("rivals --quick", &all, if is_quick { 1 } else { REPEATS }, &rest)?;
    if !shell::is_root()? {
        bail!("rivals needs root, for control groups, mounts and tracepoints: sudo make rivals");
    }
    packages::ensure(packages::RIVALS)?;
    shell::run(&shell::words(BUILD))?;
    let bench = Bench::new()?;
    let mut report = Report::new(bench.environment()?, wanted.repeats);
    for row in bench.rows()?.iter().filter(|row| wanted.has_of(&rows::NAMES, row.name)) {
        let rivals: Vec<Rival> =
            Rival::ALL.into_iter().filter(|rival| wanted.has_of(&names, rival.name())).collect();
        report.add(bench.section(row, &rivals, wanted.repeats)?);
    }
    print!("{}", report.text());
    Ok(())
}

/// What all runs have in common.
struct Bench {
    disk: Disk,
    interrupt: demo::Interrupt,
    own: PathBuf,
    pantler: PathBuf,
    folder: PathBuf,
    store: OnceCell<Store>,
    /// Why reads by `RWF_DONTCACHE` cannot be measured here, if so.
    no_dontcache: Option<String>,
}

impl Bench {
    fn new() -> Result<Bench> {
        let interrupt = demo::Interrupt::catch()?;
        fs::create_dir_all(demo::FOLDER)?;
        fs::create_dir_all(FOLDER)?;
        let folder = Path::new(FOLDER).canonicalize()?;
        let stat = rustix::fs::statvfs(&folder)?;
        let free = stat.f_bavail * stat.f_frsize;
        if free < FREE_BYTES && !folder.join("image").exists() {
            bail!("{FOLDER} has {} MB free, and the files take {}", free >> 20, FREE_BYTES >> 20);
        }
        fs::create_dir_all(folder.join("through"))?;
        fs::write(folder.join("reader.py"), Row::READER)?;
        arms::unmount(&folder.join("through"));
        let source = source::prepare(&Path::new(demo::FOLDER).canonicalize()?, &interrupt)?;
        let sockets = folder.join("sockets");
        fs::create_dir_all(&sockets)?;
        postgres::give(&sockets)?;
        let disk = Disk::new(&folder, SIZE, |point| rows::write(point, &source, &sockets))?;
        let mut bench = Bench {
            disk,
            interrupt,
            own: std::env::current_exe().context("cannot find the own program")?,
            pantler: Path::new("target/release/pantler").canonicalize().context("pantler is not built")?,
            folder,
            store: OnceCell::new(),
            no_dontcache: None,
        };
        bench.no_dontcache = bench.lacks_dontcache()?;
        Ok(bench)
    }

    /// On what this runs.
    fn environment(&self) -> Result<Vec<String>> {
        self.disk.fresh()?;
        let line = crate::machine::environment::line(Some(self.disk.point()));
        let under = crate::machine::environment::line(Some(&self.folder));
        let under = under.split(", ").find(|part| part.contains(" on ")).unwrap_or("an unknown one");
        let commit = shell::output(&["git", "describe", "--always", "--dirty", "--exclude", "*"])?;
        let mut lines = vec![
            format!("{line}, commit {}", commit.trim()),
            format!("The device is a loop with direct I/O over a file of {under}."),
        ];
        if !Path::new("/run/systemd/system").exists() {
            lines.push(
                "systemd does not run here, and is not needed: `systemd-run -p MemoryMax` sets the limit that `kernel` has."
                    .to_owned(),
            );
        }
        Ok(lines)
    }

    fn rows(&self) -> Result<Vec<Row>> {
        self.disk.fresh()?;
        Row::all(self.disk.point()).with_context(|| format!("no whole disk: remove {FOLDER}/image"))
    }

    /// What the kernel says of a read by that flag.
    fn lacks_dontcache(&self) -> Result<Option<String>> {
        self.disk.fresh()?;
        let mut command = Command::new("/usr/bin/python3");
        command.arg(self.folder.join("reader.py")).arg("read").arg(self.disk.point().join("files/0"));
        let output = command.env("DONTCACHE", "1").stdin(Stdio::null()).output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let last = said.lines().last().unwrap_or("it failed").to_owned();
        Ok((!output.status.success()).then_some(last))
    }

    /// Measures a row with all rivals, in turns.
    fn section(&self, row: &Row, rivals: &[Rival], repeats: usize) -> Result<Section> {
        if row.is_of_objects() && self.store.get().is_none() {
            let store = Store::open(&self.folder.join("store"), &self.interrupt)?;
            let _ = self.store.set(store);
        }
        let mut section = Section::new(row, rivals);
        let mut besides = Vec::new();
        // Folders and inodes are in the page cache, too, and in no budget for blocks of files.
        let folders_bytes = if row.is_of_objects() {
            0
        } else {
            self.run(row, Rival::Kernel, None, 0)?.held.file.saturating_sub(row.bytes)
        };
        for rival in rivals {
            let is_there = match (*rival, &self.no_dontcache) {
                (Rival::DontCache, Some(said)) => Err(format!("not in this kernel or file system: {said}")),
                _ => row.is_for(*rival).map_err(str::to_owned),
            };
            let besides_bytes = is_there.and_then(|()| self.besides(row, *rival));
            self.interrupt.check()?;
            besides.push(besides_bytes.unwrap_or_else(|why| {
                say(format_args!("{} {}: {why}", row.name, rival.name()));
                section.give_up(*rival, why);
                0
            }));
        }
        for repeat in 1..=repeats {
            for (rival, besides_bytes) in rivals.iter().zip(&besides) {
                if section.is_given_up(*rival) {
                    continue;
                }
                match self.run(row, *rival, Some(row.budget + besides_bytes), folders_bytes) {
                    Ok(took) => {
                        say(format_args!("{} {}, {repeat} of {repeats}: {took}", row.name, rival.name()));
                        section.add(*rival, took);
                    }
                    Err(error) => {
                        self.interrupt.check()?;
                        say(format_args!("{} {}: {error:#}", row.name, rival.name()));
                        section.give_up(*rival, format!("refused: {error:#}"));
                    }
                }
            }
        }
        Ok(section)
    }

    /// What program and rival hold besides files, in a run without a limit.
    fn besides(&self, row: &Row, rival: Rival) -> Result<u64, String> {
        if !row.is_limited(rival) {
            return Ok(0);
        }
        let took = self.run(row, rival, None, 0).map_err(|error| format!("{error:#}"))?;
        Ok((took.held.anonymous + took.held.kernel) / 4096 * 4096)
    }

    /// Runs a program once, with its files and their inodes on the disk only.
    fn run(&self, row: &Row, rival: Rival, limit: Option<u64>, folders_bytes: u64) -> Result<Took> {
        self.disk.fresh()?;
        let group = Group::new("rivals", None)?;
        if let Some(bytes) = limit.filter(|_| row.is_limited(rival)) {
            group.limit(bytes)?;
        }
        let through = self.folder.join("through");
        let before = self.read_bytes(row)?;
        let mut start = Instant::now();
        let beside = self.beside(row, rival, &group, &through)?;
        if rival != Rival::Vmtouch {
            // A mount is there already; what is locked is loaded for the program.
            start = Instant::now();
        }
        let root = if rival.is_mount() { through.as_path() } else { self.disk.point() };
        let pantler = self.pantler.display().to_string();
        let said = self.folder.join("said");
        for path in [said.clone(), said.with_extension("warm")] {
            let _ = fs::remove_file(path);
        }
        let mut words = row.around(rival, &pantler);
        words.extend(["sh", "-c", &row.script].map(str::to_owned));
        let mut command = self.inside(&group, &words);
        command.current_dir(root.join(row.folder)).stdout(Stdio::null());
        command.env("READER", format!("/usr/bin/python3 {}", self.folder.join("reader.py").display()));
        command.env("BACKUP", row.before_backup(rival, &pantler)).env("SAID", &said);
        command.env("SOCKETS", self.folder.join("sockets"));
        if rival == Rival::DontCache {
            command.env("DONTCACHE", "1");
        }
        let looks = looks::watch(&mut command, &group, &self.interrupt)?;
        let seconds = start.elapsed().as_secs_f64();
        let read_bytes = self.read_bytes(row)? - before;
        drop(beside);
        let took = Took {
            read_bytes: read_bytes as f64,
            seconds,
            held: looks::steady(&looks),
            said: fs::read_to_string(&said).ok().and_then(|text| report::Said::of(&text)),
        };
        self.check(row, rival, &took, folders_bytes)?;
        Ok(took)
    }

    /// What was read of the device, or from the object store, so far.
    fn read_bytes(&self, row: &Row) -> Result<u64> {
        if row.is_of_objects() { self.store()?.read_bytes() } else { self.disk.read_bytes() }
    }

    fn store(&self) -> Result<&Store> {
        self.store.get().context("the object store is not open")
    }

    /// Whether a run was what it is taken for.
    fn check(&self, row: &Row, rival: Rival, took: &Took, folders_bytes: u64) -> Result<()> {
        let (least, read) = (row.bytes * COLD_PERCENT / 100, took.read_bytes as u64);
        ensure!(read >= least, "{read} bytes were read of data of {}: the cache was not cold", row.bytes);
        let passed = row.budget * (100 + PASSED_PERCENT) / 100 + folders_bytes;
        let kept = match rival {
            _ if row.is_limited(rival) => return Ok(()),
            _ if rival.is_our_mount() => (took.held.file + took.held.anonymous).saturating_sub(MOUNT_BYTES),
            _ => took.held.file,
        };
        let [kept_mb, read_mb, budget_mb] =
            [kept, read, row.budget].map(|bytes| format!("{:.1} MB", bytes as f64 / 1e6));
        ensure!(kept <= passed, "it held {kept_mb} of a budget of {budget_mb}, and read {read_mb}");
        Ok(())
    }

    /// What the rival has going on beside the program.
    fn beside(&self, row: &Row, rival: Rival, group: &Group, through: &Path) -> Result<Option<Beside>> {
        let path = |path: &Path| path.display().to_string();
        let point = path(self.disk.point());
        let words = match rival {
            Rival::Vmtouch => {
                let sizes = row.locked.iter().map(|path| Ok((path.clone(), fs::metadata(path)?.size())));
                let locked = Locked::of(&sizes.collect::<Result<Vec<_>>>()?, row.budget);
                let words = locked.words(&self.folder.join("locked"))?;
                return Beside::lock(self.inside(group, &words), &locked, &self.interrupt).map(Some);
            }
            _ if rival.joins() => {
                let words =
                    [&path(&self.pantler), "daemon", "--memory", &row.budget.to_string()].map(str::to_owned);
                let said = self.folder.join("listens");
                return Beside::listen(self.inside(group, &words), &said, &self.interrupt).map(Some);
            }
            _ if row.is_of_objects() => self.store()?.mounting(row, rival, &self.pantler, through)?,
            Rival::Bindfs => ["bindfs", "-f", &point, &path(through)].map(str::to_owned).to_vec(),
            _ if rival.is_our_mount() => {
                let (pantler, budget) = (path(&self.pantler), row.budget.to_string());
                let words = [
                    &pantler,
                    "mount",
                    "--foreground",
                    "--allow-other",
                    &point,
                    &path(through),
                    "--cache",
                    &budget,
                ];
                words.into_iter().chain(row.mounting(rival)).map(str::to_owned).collect()
            }
            _ => return Ok(None),
        };
        // Pantler says so when programs can speak to it, which is after the kernel shows the mount.
        let said = rival.is_our_mount().then(|| self.folder.join("mounted"));
        let command = self.inside(group, &words);
        Beside::mount(command, through, said.as_deref(), &self.interrupt).map(Some)
    }

    /// A command that starts inside the group.
    fn inside(&self, group: &Group, words: &[String]) -> Command {
        let doors: Vec<String> = group.doors().iter().map(|door| door.display().to_string()).collect();
        let mut command = Command::new(&self.own);
        command.args(["demo-enter", &doors.join(","), "--"]).args(words).stdin(Stdio::null());
        command.env("PANTLER_RUNTIME_DIR", self.folder.join("run"));
        command.env_remove("SUDO_UID").env_remove("SUDO_GID");
        command
    }
}
