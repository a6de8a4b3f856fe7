//! One boot of one kernel.

use anyhow::{Result, bail};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::store::Kernel;
use crate::shell::{self, BEHIND};

/// A guest that takes longer is ended: one that runs suites, and one that does not.
pub const TIME: Duration = Duration::from_secs(3600);
pub const TIME_QUICK: Duration = Duration::from_secs(900);
const MEMORY_MB: &str = "1536";
const LINE: &str = "console=ttyS0 panic=-1 quiet root=/dev/vda systemd.show_status=0 loglevel=3";

/// What systemd says when it cannot start and waits for a person.
const GIVEN_UP: &str = "You are in emergency mode";

/// What the clock of a guest shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The time that QEMU takes, which means nothing.
    Emulator,
    /// A nanosecond for each instruction of its one processor.
    Instructions,
}

impl Clock {
    /// What QEMU is told.
    fn words(self) -> &'static [&'static str] {
        match self {
            Self::Emulator => &["-smp", "2"],
            Self::Instructions => &["-smp", "1", "-icount", "shift=0,sleep=off"],
        }
    }
}

/// The files that a guest boots from.
#[derive(Clone, Copy, Debug)]
pub struct Disks<'a> {
    pub initial: &'a Path,
    pub root: &'a Path,
    pub job: &'a Path,
}

/// Boots a kernel and returns what its job said. Disks are left as they were.
///
/// # Errors
/// QEMU failed, or the guest did not end within `limit`.
pub fn run(kernel: &Kernel, disks: Disks, clock: Clock, limit: Duration) -> Result<String> {
    let drive =
        |image: &Path| format!("file={},if=virtio,format=raw,snapshot=on,cache=unsafe", image.display());
    let mut machine = shell::command(&[&BEHIND[..], &["qemu-system-x86_64"]].concat());
    // With a thread for each processor, one may run code that another is patching: a guest panicked
    // so while tracepoints were switched (int3 in the scheduler).
    machine.args(["-accel", "tcg,thread=single", "-cpu", "max", "-m", MEMORY_MB]).args(clock.words());
    machine.args(["-nographic", "-vga", "none", "-no-reboot", "-nic", "none", "-append", LINE]);
    machine.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(disks.initial);
    machine.args(["-drive", &drive(disks.root), "-drive", &drive(disks.job)]);
    start(machine, &disks.job.with_extension("log"), limit)
}

/// Starts a machine and returns what its guest said once it has ended; `said` is where that is
/// kept.
///
/// # Errors
/// QEMU failed, or the guest gave up or did not end within `limit`.
pub fn start(mut machine: Command, said: &Path, limit: Duration) -> Result<String> {
    let log = fs::File::create(said)?;
    let errors = log.try_clone()?;
    let mut guest = machine.stdin(Stdio::null()).stdout(log).stderr(errors).spawn()?;
    let start = Instant::now();
    let status = loop {
        if let Some(status) = guest.try_wait()? {
            break status;
        }
        let (is_late, has_given_up) = (start.elapsed() > limit, read(said)?.contains(GIVEN_UP));
        if is_late || has_given_up {
            guest.kill()?;
            guest.wait()?;
            let why = if has_given_up { "gave up" } else { "did not end in time" };
            bail!("the guest {why}, after {} s; it said:\n{}", start.elapsed().as_secs(), read(said)?);
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    let said = read(said)?;
    if !status.success() {
        bail!("{}: {status}; it said:\n{said}", machine.get_program().to_string_lossy());
    }
    Ok(said)
}

fn read(path: &Path) -> Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}
