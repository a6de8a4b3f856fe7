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
use std::time::Instant;

mod guest;
mod image;
mod inside;
mod results;
mod store;

use crate::packages;
use crate::shell::{self, say};
use crate::suites::{self, Suite};
use guest::Clock;
use results::Results;
use store::{Kernel, Store};

/// What it needs on this machine.
const PACKAGES: &[&str] = &[
    "busybox-static",
    "cpio",
    "debian-archive-keyring",
    "e2fsprogs",
    "kmod",
    "mmdebstrap",
    "qemu-system-x86",
    "xz-utils",
];

/// Instructions are counted on this one: it has tracepoints, and can do without.
const COUNTED: &str = "6.12";

/// Boots each kernel of `names` (all of [`store::KERNELS`] without any) and tries the command
/// there.
///
/// # Errors
/// What could not be had or booted; all promises that were not kept, by kernel.
pub fn kernels(names: &[&str]) -> Result<()> {
    if shell::output(&["id", "-u"])?.trim() != "0" {
        bail!("file systems of guests are made as root: run it with sudo");
    }
    packages::ensure(PACKAGES)?;
    // What users run: a scope's limit counts the command's memory, and a debug build's is larger.
    shell::run(&["cargo", "build", "--release", "--package", "pantler-cli"])?;
    let suites = suites::build()?.named(&inside::SUITES)?;
    let command = Path::new("target/release/pantler");
    let store = Store::open()?;
    let root = image::root(&store)?;
    let mut broken = Vec::new();
    let mut tables = Vec::new();
    for wanted in store::KERNELS.iter().filter(|it| names.is_empty() || names.contains(&it.name)) {
        let kernel = store.kernel(wanted)?;
        let start = Instant::now();
        let boot = |suites: &[Suite], clock| {
            boot(&store, &root, &kernel, command, suites, clock).with_context(|| kernel.version.clone())
        };
        let mut results = boot(&suites, Clock::Emulator)?;
        if wanted.name == COUNTED {
            results.add(boot(&[], Clock::Instructions)?);
        }
        say(format_args!("{} tried in {:.0} s", kernel.version, start.elapsed().as_secs_f64()));
        broken.extend(results.broken().into_iter().map(|promise| format!("{}: {promise}", kernel.version)));
        tables.push((kernel.version, results));
    }
    if tables.is_empty() {
        bail!("no kernel of these names: {}; there are {}", names.join(" "), store::names());
    }
    print!("{}", results::table(&tables));
    if !broken.is_empty() {
        bail!("promises that were not kept:\n  {}", broken.join("\n  "));
    }
    Ok(())
}

fn boot(
    store: &Store,
    root: &Path,
    kernel: &Kernel,
    command: &Path,
    suites: &[Suite],
    clock: Clock,
) -> Result<Results> {
    let job: PathBuf = image::job(store, kernel, command, suites, clock)?;
    let start = image::initial(store, kernel)?;
    let said = guest::run(kernel, &start, root, &job, clock)?;
    Results::parse(&said)
}
