//! The watching thread: keeps the group within its bounds, and other programs' costs down.
//!
//! It switches the tracepoints of references on when the engine wants them, and keeps the filter of
//! the instance that watches other programs as narrow as it can be.
//!
//! Every event costs the program it happens in about 0.3 us, so other programs shall pay only when
//! they use files of the run. The filter begins open, is narrowed to the run's devices, and to
//! single files once no new file has come for a while; a new file opens it to the devices again.
//! Changing a filter waits for all CPUs (tens of milliseconds), so a thread of its own does it.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::bounds;
use crate::shared::Shared;
use crate::trace::Kind;
use pantler_pagecache::FileKey;

/// The filter while no run goes on: no program shall pay for it.
const NO_FILE: &str = "s_dev == 0 && i_ino == 0";
/// Single files in a filter; with more of them it names devices only.
const FILES_IN_FILTER: usize = 32;
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(50);
/// Looks without a new file before the filter names single files.
const CALM_LOOKS: u32 = 20;

/// Looks between two looks at the group's bounds.
const LOOKS_PER_BOUND: u32 = 2;

/// Runs until the run stops.
pub(crate) fn run(shared: &Shared) {
    let mut set = String::new();
    let mut calm = 0;
    let mut looks = 0u32;
    while !shared.stopping.load(Ordering::Acquire) {
        if looks.is_multiple_of(LOOKS_PER_BOUND) {
            bounds::keep(shared);
        }
        looks = looks.wrapping_add(1);
        std::thread::sleep(LOOK);
        watch_hits(shared);
        let Some(instance) = &shared.others else { continue };
        let mut steering = shared.steering();
        let is_idle = !steering.owners.have_runs();
        let files: BTreeSet<FileKey> = {
            let engine = &mut steering.engine;
            calm = if engine.take_new_files() { 0 } else { calm + 1 };
            engine.files().iter().filter(|(_, file)| file.brought_in > 0).map(|(_, file)| file.key).collect()
        };
        drop(steering);
        let single = calm >= CALM_LOOKS && files.len() <= FILES_IN_FILTER;
        let filter = if is_idle { NO_FILE.to_owned() } else { expression(&files, single) };
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

/// Switches the tracepoints of references on, once they are wanted. They stay on.
pub(crate) fn watch_hits(shared: &Shared) {
    if !shared.steering().engine.wants_hits() {
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

/// The filter for these files: by device, or by device and inode. `0` lets everything through.
fn expression(files: &BTreeSet<FileKey>, single: bool) -> String {
    if files.is_empty() {
        return "0".to_owned();
    }
    let any = |alternatives: Vec<String>| alternatives.join(" || ");
    let of_device = |files: &[FileKey]| {
        let device = format!("s_dev == {}", files[0].dev);
        let inodes = || any(files.iter().map(|file| format!("i_ino == {}", file.ino)).collect());
        if single { format!("{device} && ({})", inodes()) } else { device }
    };
    let files: Vec<FileKey> = files.iter().copied().collect();
    any(files.chunk_by(|one, next| one.dev == next.dev).map(of_device).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_written_in_the_kernel_s_language() {
        let files: BTreeSet<FileKey> =
            [(1, 5), (1, 9), (2, 5)].into_iter().map(|(dev, ino)| FileKey { dev, ino }).collect();
        assert_eq!(expression(&files, false), "s_dev == 1 || s_dev == 2");
        assert_eq!(
            expression(&files, true),
            "s_dev == 1 && (i_ino == 5 || i_ino == 9) || s_dev == 2 && (i_ino == 5)"
        );
        assert_eq!(expression(&BTreeSet::new(), true), "0");
    }
}
