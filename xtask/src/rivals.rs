//! `make rivals`: real programs that read more than their budget, by what else keeps files in
//! memory, and by Pantler: on one machine, from one disk, with one budget.
//!
//! A rival that does not keep itself to a budget runs with its program in a control group. Its
//! limit is the budget, what both hold besides files in a run without a limit, and folders.
//! `pantler run` and `pantler mount` get the budget as option. Reads are those of the device, by
//! any process.

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
pub mod beside;
mod build;
mod guest;
mod kept;
mod paired;
pub mod postgres;
mod report;
mod rows;
mod store;
mod tier;
mod web;

use arms::{Family, Locked, Rival};
use beside::Beside;
use kept::{Kept, Origin};
use report::{Cell, Report, Section, Took};
use rows::Row;
use store::Store;
use web::Site;

/// As a user builds it.
const BUILD: &str = "cargo build --release --package pantler-cli";
/// The image of the file system, and what runs leave.
const FOLDER: &str = "target/rivals";
/// Of the image, and what must be free for it.
const SIZE: &str = "1800M";
const FREE_BYTES: u64 = 2300 << 20;
/// How often each row is measured with each rival.
const REPEATS: usize = 5;
/// What a run from a cold cache reads of its data at least, in percent.
const COLD_PERCENT: u64 = 95;
/// What a budget may be passed by, in percent: blocks that were read ahead, or are on their way
/// out.
const PASSED_PERCENT: u64 = 5;

/// Measures, and prints the tables.
pub fn rivals(arguments: &[&str]) -> Result<()> {
    let (options, rest): (Vec<&str>, Vec<&str>) =
        arguments.iter().copied().partition(|word| ["--quick", "--resume", "--list"].contains(word));
    let has = |option| options.contains(&option);
    let names = Rival::ALL.map(Rival::name);
    let parts = [&rows::NAMES[..], &[guest::NAME]].concat();
    if has("--list") {
        println!("rows: {}\nrivals: {}", parts.join(" "), names.join(" "));
        return Ok(());
    }
    let all = [&parts[..], &names].concat();
    let command = "rivals --quick --resume --list";
    let wanted = Wanted::of(command, &all, if has("--quick") { 1 } else { REPEATS }, &rest)?;
    if !shell::is_root()? {
        bail!("rivals needs root, for control groups, mounts and tracepoints: sudo make rivals");
    }
    packages::ensure(packages::RIVALS)?;
    for build in [BUILD, web::BUILD] {
        shell::run(&shell::words(build))?;
    }
    if wanted.has_of(&parts, rows::OBJECTS) {
        crate::stores::server()?;
    }
    let commit = shell::output(&["git", "describe", "--always", "--dirty", "--exclude", "*"])?;
    let machine = crate::machine::environment::line(None);
    let machine = machine.split(", load ").next().unwrap_or_default().to_owned();
    let origin = Origin { commit: commit.trim().to_owned(), machine };
    let bench = Bench::new(Kept::open(&Path::new(FOLDER).join("kept"), origin, has("--resume"))?)?;
    let mut report = Report::new(bench.environment(commit.trim())?);
    let mut stopped = Ok(());
    for row in bench.rows()?.into_iter().filter(|row| wanted.has_of(&parts, row.name)) {
        let takes_part = |rival: &Rival| rival.is_of(row.family()) && wanted.has_of(&names, rival.name());
        let rivals: Vec<Rival> = Rival::ALL.into_iter().filter(takes_part).collect();
        if rivals.is_empty() {
            continue;
        }
        report.add(bench.kept_or_measured(&row, &rivals, wanted.repeats).unwrap_or_else(|error| {
            say(format_args!("{}: {error:#}", row.name));
            Section::new(&row, &rivals, &Cell::Failed(format!("{error:#}")))
        }));
        stopped = bench.interrupt.check();
        if stopped.is_err() {
            break;
        }
    }
    print!("{}", report.text());
    stopped?;
    if wanted.has_of(&parts, guest::NAME) && wanted.has_of(&names, guest::NAME) {
        let (kept, pantler) = bench.end();
        print!("{}", guest::table(&kept, &pantler)?);
    }
    Ok(())
}

/// Bytes that are in no budget for blocks of files.
#[derive(Debug, Clone, Copy, Default)]
struct Beyond {
    /// Folders and inodes, which are in the page cache, too.
    folders: u64,
    /// What programs hold, where it is much.
    programs: u64,
}

/// The budget was passed, and how.
#[derive(Debug)]
struct Passed(String);

impl std::fmt::Display for Passed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "refused: {}", self.0)
    }
}

impl std::error::Error for Passed {}

/// What a cell has instead of runs.
fn why_not(error: anyhow::Error) -> Cell {
    let why = format!("{error:#}");
    if error.is::<Passed>() { Cell::Not(why) } else { Cell::Failed(why) }
}

/// What all runs have in common.
struct Bench {
    disk: Disk,
    interrupt: demo::Interrupt,
    own: PathBuf,
    pantler: PathBuf,
    folder: PathBuf,
    store: OnceCell<Store>,
    kept: Kept,
    clients: PathBuf,
    /// Why reads by `RWF_DONTCACHE` cannot be measured here, if so.
    no_dontcache: Option<String>,
}

impl Bench {
    fn new(kept: Kept) -> Result<Bench> {
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
        beside::unmount(&folder.join("through"));
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
            kept,
            clients: web::clients()?,
            no_dontcache: None,
        };
        bench.no_dontcache = bench.lacks_dontcache()?;
        Ok(bench)
    }

    /// Unmounts the disk and ends the store.
    fn end(self) -> (Kept, PathBuf) {
        // A guest does not look at the interrupt.
        self.interrupt.end();
        (self.kept, self.pantler)
    }

    /// On what this runs.
    fn environment(&self, commit: &str) -> Result<Vec<String>> {
        self.disk.fresh()?;
        let line = crate::machine::environment::line(Some(self.disk.point()));
        let under = crate::machine::environment::line(Some(&self.folder));
        let under = under.split(", ").find(|part| part.contains(" on ")).unwrap_or("an unknown one");
        let mut lines = vec![
            format!("{line}, commit {commit}"),
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

    /// A row as it was kept, or measured now. A row is kept as a whole: runs are paired, so they
    /// must be of one time.
    fn kept_or_measured(&self, row: &Row, rivals: &[Rival], repeats: usize) -> Result<Section> {
        let kept = self.kept.get(row.name).and_then(|cells| Section::kept(row, cells, rivals, repeats));
        if let Some(section) = kept {
            return Ok(section.with(rivals));
        }
        let section = self.section(row, rivals, repeats)?;
        let all = Rival::ALL.into_iter().filter(|rival| rival.is_of(row.family())).count();
        if let Some(cells) = section.whole().filter(|_| rivals.len() == all) {
            let _ = self.kept.keep(row.name, cells).inspect_err(|error| say(format_args!("{error:#}")));
        }
        Ok(section)
    }

    /// Measures a row with all rivals, in turns.
    fn section(&self, row: &Row, rivals: &[Rival], repeats: usize) -> Result<Section> {
        if row.family() == Family::Objects && self.store.get().is_none() {
            let store = Store::open(&self.folder.join("store"), &self.interrupt)?;
            let _ = self.store.set(store);
        }
        let mut section = Section::new(row, rivals, &Cell::Runs(Vec::new()));
        let give_up = |section: &mut Section, rival: Rival, why: Cell| {
            if let Cell::Not(why) | Cell::Failed(why) = &why {
                say(format_args!("{} {}: {why}", row.name, rival.name()));
            }
            section.give_up(rival, why);
        };
        let beyond = if row.family() == Family::Files { self.beyond(row)? } else { Beyond::default() };
        let mut besides = Vec::new();
        for rival in rivals {
            let is_there = match (*rival, &self.no_dontcache) {
                (Rival::DontCache, Some(said)) => Err(format!("not in this kernel or file system: {said}")),
                _ => row.is_for(*rival).map_err(str::to_owned),
            };
            let besides_bytes = match is_there {
                Ok(()) => self.besides(row, *rival).map_err(why_not),
                Err(why) => Err(Cell::Not(why)),
            };
            self.interrupt.check()?;
            besides.push(besides_bytes.unwrap_or_else(|why| {
                give_up(&mut section, *rival, why);
                0
            }));
        }
        for repeat in 1..=repeats {
            for (rival, besides_bytes) in rivals.iter().zip(&besides) {
                if section.has(*rival, repeat) {
                    continue;
                }
                let limit = row.budget + besides_bytes + beyond.folders;
                match self.run(row, *rival, Some(limit), beyond) {
                    Ok(took) => {
                        say(format_args!("{} {}, {repeat} of {repeats}: {took}", row.name, rival.name()));
                        section.add(*rival, took);
                    }
                    Err(error) => {
                        self.interrupt.check()?;
                        give_up(&mut section, *rival, why_not(error));
                    }
                }
            }
        }
        Ok(section)
    }

    /// What is in no budget for blocks of files.
    fn beyond(&self, row: &Row) -> Result<Beyond> {
        let held = self.run(row, Rival::Kernel, None, Beyond::default())?.held;
        let programs = if row.is_uneven() { held.anonymous } else { 0 };
        Ok(Beyond { folders: held.file.saturating_sub(row.bytes), programs })
    }

    /// What program and rival hold besides files, in a run without a limit.
    fn besides(&self, row: &Row, rival: Rival) -> Result<u64> {
        if !row.is_limited(rival) && !row.has_total(rival) {
            return Ok(0);
        }
        let took = self.run(row, rival, None, Beyond::default())?;
        let held = if row.is_uneven() { took.most } else { took.held };
        Ok((held.anonymous + held.kernel) / 4096 * 4096)
    }

    /// Runs a program once, with its files and their inodes on the disk only.
    fn run(&self, row: &Row, rival: Rival, limit: Option<u64>, beyond: Beyond) -> Result<Took> {
        self.disk.fresh()?;
        let group = Group::new("rivals", None)?;
        if let Some(bytes) = limit.filter(|_| row.is_limited(rival)) {
            group.limit(bytes)?;
        }
        let through = self.folder.join("through");
        let before = self.read_bytes(row)?;
        let mut start = Instant::now();
        let besides = self.beside(row, rival, &group, &through)?;
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
        let mut words = row.around(rival, &pantler, limit);
        words.extend(["sh", "-c", &row.script(rival)].map(str::to_owned));
        let mut command = self.inside(&group, &words);
        command.current_dir(root.join(row.folder)).stdout(Stdio::null());
        command.env("READER", format!("/usr/bin/python3 {}", self.folder.join("reader.py").display()));
        command.env("BACKUP", row.before_backup(rival, &pantler)).env("SAID", &said);
        command.env("SOCKETS", self.folder.join("sockets")).env("CLIENTS", &self.clients);
        if rival == Rival::DontCache {
            command.env("DONTCACHE", "1");
        }
        let looks = looks::watch(&mut command, &group, &self.interrupt)?;
        let seconds = start.elapsed().as_secs_f64();
        let read_bytes = self.read_bytes(row)? - before;
        drop(besides);
        let took = Took {
            read_bytes: read_bytes as f64,
            seconds,
            held: looks::steady(&looks),
            most: looks::most(&looks),
            said: fs::read_to_string(&said).ok().and_then(|text| report::Said::of(&text)),
        };
        self.check(row, rival, &took, limit, beyond)?;
        Ok(took)
    }

    /// What was read of the device, or from the object store, so far.
    fn read_bytes(&self, row: &Row) -> Result<u64> {
        if row.family() == Family::Objects { self.store()?.read_bytes() } else { self.disk.read_bytes() }
    }

    fn store(&self) -> Result<&Store> {
        self.store.get().context("the object store is not open")
    }

    /// Whether a run was what it is taken for.
    fn check(&self, row: &Row, rival: Rival, took: &Took, limit: Option<u64>, beyond: Beyond) -> Result<()> {
        let (least, read) = (row.bytes * COLD_PERCENT / 100, took.read_bytes as u64);
        ensure!(read >= least, "{read} bytes were read of data of {}: the cache was not cold", row.bytes);
        // A limit has room for folders, too, which is told apart again.
        let (held, budget) = (took.held, limit.map_or(row.budget, |bytes| bytes - beyond.folders));
        let kept = match rival.own_bytes() {
            _ if row.is_limited(rival) || limit.is_none() => return Ok(()),
            _ if row.has_total(rival) => held.file + held.anonymous + held.kernel,
            // What is served does not come into the page cache; what compiled its rules does.
            Some(own) if rival == Rival::Varnish => held.anonymous.saturating_sub(own),
            Some(own) => (held.file + held.anonymous).saturating_sub(own + beyond.programs),
            None => held.file,
        };
        let kept = if rival.has_page_cache() { kept.max(held.file) } else { kept };
        let passed = budget * (100 + PASSED_PERCENT) / 100 + beyond.folders;
        let [kept_mb, read_mb, budget_mb] =
            [kept, read, budget].map(|bytes| format!("{:.1} MB", bytes as f64 / 1e6));
        if kept > passed {
            let told =
                format!("it held {kept_mb} of a budget of {budget_mb}, and read {read_mb}; in all {held}");
            return Err(Passed(told).into());
        }
        Ok(())
    }

    /// What the rival has going on beside the program; what ends first comes first.
    fn beside(&self, row: &Row, rival: Rival, group: &Group, through: &Path) -> Result<Vec<Beside>> {
        let pantler = self.pantler.display().to_string();
        let mut besides = Vec::new();
        if rival == Rival::Vmtouch {
            let sizes = row.locked.iter().map(|path| Ok((path.clone(), fs::metadata(path)?.size())));
            let locked = Locked::of(&sizes.collect::<Result<Vec<_>>>()?, row.budget);
            let words = locked.words(&self.folder.join("locked"))?;
            besides.push(Beside::lock(self.inside(group, &words), &locked, &self.interrupt)?);
        }
        if rival.joins() {
            let words = [&pantler, "daemon", "--memory", &row.budget.to_string()].map(str::to_owned);
            let said = self.folder.join("listens");
            besides.push(Beside::listen(self.inside(group, &words), &said, &self.interrupt)?);
        }
        for (words, port) in self.servers(row, rival)? {
            besides.insert(0, Beside::serve(self.inside(group, &words), port, &self.interrupt)?);
        }
        if rival.is_mount() {
            let words = self.mounting(row, rival, through)?;
            // Pantler says so when programs can speak to it, which is after the kernel shows the
            // mount.
            let said = rival.is_our_mount().then(|| self.folder.join("mounted"));
            let command = self.inside(group, &words);
            besides.insert(0, Beside::mount(command, through, said.as_deref(), &self.interrupt)?);
        }
        Ok(besides)
    }

    /// Words of the servers of a rival, and their ports.
    fn servers(&self, row: &Row, rival: Rival) -> Result<Vec<(Vec<String>, u16)>> {
        match row.family() {
            Family::Web => {
                let (root, folder) = (self.disk.point().join(row.folder), self.folder.join("web"));
                let site = Site { root: &root, pantler: &self.pantler, folder: &folder, budget: row.budget };
                site.serving(rival)
            }
            Family::Tiers => {
                let words = tier::serving(rival, &self.pantler.display().to_string(), row.budget);
                Ok(vec![(words, tier::PORT)])
            }
            Family::Files | Family::Objects => Ok(Vec::new()),
        }
    }

    /// Words of a mount that stays in the foreground.
    fn mounting(&self, row: &Row, rival: Rival, through: &Path) -> Result<Vec<String>> {
        if row.family() == Family::Objects {
            return self.store()?.mounting(row, rival, &self.pantler, through);
        }
        let path = |path: &Path| path.display().to_string();
        let (point, through) = (path(self.disk.point()), path(through));
        if rival == Rival::Bindfs {
            return Ok(["bindfs", "-f", &point, &through].map(str::to_owned).to_vec());
        }
        let pantler = path(&self.pantler);
        let words = [&pantler, "mount", "--foreground", "--allow-other", &point, &through].map(str::to_owned);
        let memory = if row.family() == Family::Tiers {
            tier::mounting(row.budget).to_vec()
        } else {
            vec!["--cache".to_owned(), row.budget.to_string()]
        };
        let more = row.mounting(rival).into_iter().map(str::to_owned);
        Ok(words.into_iter().chain(memory).chain(more).collect())
    }

    /// A command that starts inside the group.
    fn inside(&self, group: &Group, words: &[String]) -> Command {
        group.command(&self.own, words, &self.folder)
    }
}
