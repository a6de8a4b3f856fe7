//! `make kernels`: the command on the kernels that distributions ship, each booted under QEMU.
//!
//! ```text
//!   packages (apt, checked by its signed lists) --> kernel, modules --\
//!   mmdebstrap --> root file system with systemd and v2 ---------------+--> guest --> results
//!   this tree --> the command, and the job that tries it -------------/
//! ```
//!
//! No hardware virtualisation is needed: QEMU translates (TCG). Times in a guest mean nothing;
//! counts and exit statuses do. One kernel boots once more with a clock that counts instructions,
//! for what a hot read costs. Guests and packages are kept outside of the clone.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

mod arm64;
mod guest;
mod image;
mod inside;
mod results;
mod store;

use crate::packages;
use crate::shell::{self, say};
use crate::suites::{self, Suite};
use guest::{Clock, Disks};
pub use results::Results;
use store::{Kernel, Store};

/// What it needs on this machine.
const PACKAGES: &[&str] = &[
    "busybox-static",
    "cpio",
    "cscope",
    "debian-archive-keyring",
    "e2fsprogs",
    "kmod",
    "mmdebstrap",
    "qemu-system-x86",
    "xz-utils",
];

/// Instructions are counted on this one: it has tracepoints, and can do without.
const COUNTED: &str = "6.12";

/// How much is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// What is promised of the command, as far as minutes allow.
    Quick,
    /// All of it, the suites that meet the kernel, and what a hot read costs.
    Everything,
}

/// What a guest tries.
pub struct Job<'a> {
    command: &'a Path,
    suites: &'a [Suite],
    extent: Extent,
    clock: Clock,
}

/// Kernels, and what guests boot besides.
pub struct Guests {
    store: Store,
    root: PathBuf,
    kernels: Vec<(&'static str, Kernel)>,
}

/// Boots each kernel of `names` (all of [`store::KERNELS`] without any) and tries the command
/// there. [`arm64::NAME`] is tried only if it is named.
///
/// # Errors
/// What could not be had or booted; all promises that were not kept, by kernel.
pub fn kernels(names: &[&str], extent: Extent) -> Result<()> {
    if names.contains(&arm64::NAME) {
        check_root()?;
        arm64::tests()?;
        let others: Vec<&str> = names.iter().copied().filter(|&name| name != arm64::NAME).collect();
        return if others.is_empty() { Ok(()) } else { kernels(&others, extent) };
    }
    let guests = Guests::prepare(names)?;
    // What users run: a scope's limit counts the command's memory, and a debug build's is larger.
    shell::run(&["cargo", "build", "--release", "--package", "pantler-cli"])?;
    let suites = match extent {
        Extent::Quick => Vec::new(),
        Extent::Everything => suites::build()?.named(&inside::SUITES)?,
    };
    guests.tried(Path::new("target/release/pantler"), &suites, extent)
}

impl Guests {
    /// Fetches what is not there yet of these kernels, all of them without names.
    ///
    /// # Errors
    /// What could not be had.
    pub fn prepare(names: &[&str]) -> Result<Guests> {
        check_root()?;
        if let Some(name) = names.iter().find(|name| !store::KERNELS.iter().any(|it| it.name == **name)) {
            bail!("no kernel {name:?}; there are {}", store::names());
        }
        packages::ensure(PACKAGES)?;
        let store = Store::open()?;
        let root = image::root(&store)?;
        let wanted = store::KERNELS.iter().filter(|it| names.is_empty() || names.contains(&it.name));
        let kernels = wanted.map(|it| Ok((it.name, store.kernel(it)?))).collect::<Result<_>>()?;
        image::database(&store)?;
        Ok(Guests { store, root, kernels })
    }

    /// Tries a command in the quick way.
    ///
    /// # Errors
    /// As [`kernels`].
    pub fn quick(&self, command: &str) -> Result<()> {
        self.tried(Path::new(command), &[], Extent::Quick)
    }

    /// Tries a command on each kernel, and prints a table.
    fn tried(&self, command: &Path, suites: &[Suite], extent: Extent) -> Result<()> {
        let mut broken = Vec::new();
        let mut tables = Vec::new();
        for (name, kernel) in &self.kernels {
            let start = Instant::now();
            let boot = |job: &Job| self.boot(kernel, job).with_context(|| kernel.version.clone());
            let mut results = boot(&Job { command, suites, extent, clock: Clock::Emulator })?;
            if extent == Extent::Everything && *name == COUNTED {
                results.add(boot(&Job { command, suites: &[], extent, clock: Clock::Instructions })?);
            }
            say(format_args!("{} tried in {:.0} s", kernel.version, start.elapsed().as_secs_f64()));
            let suites = suites.iter().map(|suite| suite.name.as_str());
            broken.extend(
                results
                    .broken(extent, suites)
                    .into_iter()
                    .map(|promise| format!("{}: {promise}", kernel.version)),
            );
            tables.push((kernel.version.clone(), results));
        }
        print!("{}", results::table(&tables));
        if !broken.is_empty() {
            bail!("promises that were not kept:\n  {}", broken.join("\n  "));
        }
        Ok(())
    }

    fn boot(&self, kernel: &Kernel, job: &Job) -> Result<Results> {
        let disk = image::job(&self.store, kernel, job)?;
        let limit = if job.suites.is_empty() { guest::TIME_QUICK } else { guest::TIME };
        self.boot_disk(kernel, &disk, job.clock, limit)
    }

    fn boot_disk(&self, kernel: &Kernel, job: &Path, clock: Clock, limit: Duration) -> Result<Results> {
        let initial = &image::initial(&self.store, kernel)?;
        let disks = Disks { initial, root: &self.root, job };
        Results::parse(&guest::run(kernel, disks, clock, limit)?)
    }

    /// Boots the first kernel with a job of its own, which finds `files` beside it.
    ///
    /// # Errors
    /// What could not be booted; the job did not come to its end.
    pub fn boot_files(&self, words: &str, files: &[PathBuf]) -> Result<Results> {
        let (_, kernel) = self.kernels.first().context("a kernel was asked for")?;
        let disk = image::files(&self.store, kernel, words, files)?;
        self.boot_disk(kernel, &disk, Clock::Emulator, guest::TIME)
    }
}

fn check_root() -> Result<()> {
    if !shell::is_root()? {
        bail!("file systems of guests are made as root: run it with sudo");
    }
    Ok(())
}
