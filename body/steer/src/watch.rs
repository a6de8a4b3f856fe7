//! The watching thread: keeps the group within its bounds, and other programs' costs down.
//!
//! It switches the tracepoints of references on when the engine wants them, and keeps the filter of
//! the instance that watches other programs as narrow as it can be. While no run goes on, all
//! tracepoints of pages are off:
//!
//! ```text
//!   on --no run for REST_LOOKS--> off --a run begins--> on, and every belief is checked
//! ```
//!
//! Why: docs/decisions/0132-nothing-is-watched-while-no-run-goes-on.md.
//!
//! Every event costs the program it happens in about 0.3 us, so other programs shall pay only when
//! they use files of the run. The filter begins open, is narrowed to the run's devices, and to
//! single files once no new file has come for a while; a new file opens it to the devices again.
//! Changing a filter waits for all CPUs (tens of milliseconds), so a thread of its own does it.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pantler_pagecache::FileKey;

use crate::bounds;
use crate::error::SteerError;
use crate::shared::Shared;
use pantler_watch::Kind;

/// Single files in a filter; with more of them it names devices only.
const FILES_IN_FILTER: usize = 32;
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(50);
/// Looks without a new file before the filter names single files.
const CALM_LOOKS: u32 = 20;

/// Looks between two looks at the group's bounds.
const LOOKS_PER_BOUND: u32 = 2;

/// Looks between two times at which free memory is given back, where a limit counts it: tables that
/// grow leave some behind.
const LOOKS_PER_GIVING: u32 = 20;

/// Looks without a run before the tracepoints are switched off: programs that a shell starts one
/// after the other find them on.
const REST_LOOKS: u32 = 20;

/// Runs until the run stops.
pub(crate) fn run(shared: &Shared) {
    let _ = shared.watcher.set(std::thread::current());
    calm_down(shared);
    let mut set = String::new();
    let mut calm = 0;
    let mut looks = 0u32;
    let (mut idle, mut begun) = (0, 0);
    while !shared.stopping.load(Ordering::Acquire) {
        if looks.is_multiple_of(LOOKS_PER_BOUND) {
            bounds::keep(shared);
        }
        if looks.is_multiple_of(LOOKS_PER_GIVING) && shared.limits().least().is_some() {
            pantler_kernel::heap::give_back();
        }
        looks = looks.wrapping_add(1);
        std::thread::park_timeout(LOOK);
        watch_hits(shared);
        {
            let owners = &shared.steering().owners;
            // Some begin and end between two looks.
            let is_idle = !owners.have_runs() && begun == owners.begun();
            (idle, begun) = (if is_idle { idle + 1 } else { 0 }, owners.begun());
        }
        if idle >= REST_LOOKS {
            rest(shared);
        }
        let Some(instance) = &shared.others else { continue };
        let filter = {
            let engine = &mut shared.steering().engine;
            calm = if engine.take_new_files() { 0 } else { calm + 1 };
            let read =
                || engine.files().iter().filter(|(_, file)| file.brought_in > 0).map(|(_, file)| file.key);
            let few: BTreeSet<FileKey> = read().take(FILES_IN_FILTER + 1).collect();
            match calm >= CALM_LOOKS && few.len() <= FILES_IN_FILTER {
                true => of_files(&few),
                false => of_devices(&read().map(|file| file.dev).collect()),
            }
        };
        if filter != set {
            for kind in Kind::ALL {
                if let Err(error) = instance.filter(kind, &filter) {
                    tracing::warn!(%error, filter, "the filter of other programs' events stays as it was");
                }
            }
            set = filter;
        }
    }
}

/// Switches the tracepoints of references off that were tried out, while the program runs: the
/// kernel waits for all processors for each of them.
fn calm_down(shared: &Shared) {
    for kind in Kind::REFERENCES {
        let rests = shared.rests();
        let ends = shared.stopping.load(Ordering::Acquire);
        if *rests || ends || !shared.steering().engine.is_calm() {
            return;
        }
        if let Err(error) = shared.run.enable(kind, false) {
            tracing::warn!(%error, "the program goes on paying for events that nothing needs");
        }
    }
}

/// Switches the tracepoints of references on, once they are wanted and a run goes on.
pub(crate) fn watch_hits(shared: &Shared) {
    let rests = shared.rests();
    if *rests || !shared.steering().engine.wants_hits() {
        return;
    }
    for kind in Kind::REFERENCES {
        if let Err(error) = shared.run.enable(kind, true) {
            tracing::error!(%error, "references are not seen: the run goes on as if everything were read once");
            return;
        }
    }
    shared.steering().engine.watch_hits();
}

/// Switches the tracepoints of pages off, unless a run goes on. The kernel waits for all processors
/// for each of them: a run that begins meanwhile waits for the one that is being switched.
fn rest(shared: &Shared) {
    {
        let mut rests = shared.rests();
        if *rests || shared.steering().owners.have_runs() {
            return;
        }
        *rests = true;
    }
    for instance in shared.instances() {
        for kind in Kind::ALL {
            // A run that has begun shall have the lock next.
            let is_over = shared.steering().owners.have_runs() || shared.stopping.load(Ordering::Acquire);
            let rests = shared.rests();
            if is_over || !*rests {
                return;
            }
            if let Err(error) = instance.enable(kind, false) {
                tracing::warn!(%error, "programs outside of all runs go on paying for events");
            }
        }
    }
    let rests = shared.rests();
    if *rests && let Err(error) = shared.run.heed(false) {
        tracing::warn!(%error, "programs outside of all runs go on paying for events");
    }
}

/// Switches the tracepoints on again, for a run that began. What happened meanwhile was not told:
/// every belief is checked.
///
/// # Errors
/// The control file that refused.
pub(crate) fn wake(shared: &Shared) -> Result<(), SteerError> {
    let mut rests = shared.rests();
    if !*rests {
        return Ok(());
    }
    let is_calm = shared.steering().engine.is_calm();
    let wanted = |kind, of_run: bool| !(is_calm && of_run && Kind::REFERENCES.contains(&kind));
    shared.run.heed(true)?;
    for kind in Kind::ALL {
        let on = shared.others.as_ref().map_or(Ok(()), |others| others.enable(kind, true));
        let on = on.and_then(|()| shared.run.enable(kind, wanted(kind, true)));
        if let Err(error) = on {
            for instance in shared.instances() {
                Kind::ALL.iter().for_each(|&kind| drop(instance.enable(kind, false)));
                let _ = instance.heed(false);
            }
            return Err(error.into());
        }
    }
    *rests = false;
    let mut steering = shared.steering();
    if !is_calm {
        steering.engine.watch_hits();
    }
    // The reading thread asks: there may be much to ask about.
    steering.engine.lost(0);
    drop(steering);
    shared.wake_reader();
    Ok(())
}

/// The filter for files of these devices. `0` lets everything through.
fn of_devices(devices: &BTreeSet<u32>) -> String {
    any(devices.iter().map(|device| format!("s_dev == {device}")))
}

/// The filter for these files. `0` lets everything through.
fn of_files(files: &BTreeSet<FileKey>) -> String {
    let files: Vec<FileKey> = files.iter().copied().collect();
    let of_device = |files: &[FileKey]| {
        let inodes = any(files.iter().map(|file| format!("i_ino == {}", file.ino)));
        format!("s_dev == {} && ({inodes})", files[0].dev)
    };
    any(files.chunk_by(|one, next| one.dev == next.dev).map(of_device))
}

fn any(alternatives: impl Iterator<Item = String>) -> String {
    let all = alternatives.collect::<Vec<String>>().join(" || ");
    if all.is_empty() { "0".to_owned() } else { all }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_written_in_the_kernel_s_language() {
        let files: BTreeSet<FileKey> =
            [(1, 5), (1, 9), (2, 5)].into_iter().map(|(dev, ino)| FileKey { dev, ino }).collect();
        let devices = files.iter().map(|file| file.dev).collect();
        assert_eq!(of_devices(&devices), "s_dev == 1 || s_dev == 2");
        assert_eq!(
            of_files(&files),
            "s_dev == 1 && (i_ino == 5 || i_ino == 9) || s_dev == 2 && (i_ino == 5)"
        );
        assert_eq!([of_devices(&BTreeSet::new()), of_files(&BTreeSet::new())], ["0", "0"]);
    }
}
