//! From the thread of an event to its process, that process's name and its control group. Some are
//! gone before they are looked for, or still have the name of their parent then: the kernel
//! remembers the last name of the last few processes that ran.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use foldhash::fast::FixedState;
use pantler_kernel::process::{cgroup_of, command_of, process_of, shown};

/// Threads and processes that are remembered between two reports; of more, nothing but the number
/// is known.
const REMEMBERED_MAX: usize = 16_384;

#[derive(Debug, Clone, Default)]
struct Seen {
    name: String,
    group: Option<String>,
}

/// The processes since the last report.
#[derive(Debug)]
pub(super) struct Processes {
    of_thread: HashMap<u32, u32, FixedState>,
    seen: HashMap<u32, Seen, FixedState>,
    /// Some came since the kernel's list was read.
    has_new: bool,
    /// What the kernel remembers: lines of number and name.
    saved: PathBuf,
}

impl Processes {
    pub(super) fn new(tracefs: &std::path::Path) -> Processes {
        let (of_thread, seen) = (HashMap::default(), HashMap::default());
        Processes { of_thread, seen, has_new: false, saved: tracefs.join("saved_cmdlines") }
    }

    /// The process of a thread; the thread itself when it is gone.
    pub(super) fn of(&mut self, thread: u32) -> u32 {
        if let Some(&process) = self.of_thread.get(&thread) {
            return process;
        }
        let process = process_of(thread).unwrap_or(thread);
        if self.of_thread.len() < REMEMBERED_MAX {
            self.of_thread.insert(thread, process);
            self.seen
                .entry(process)
                .or_insert_with(|| Seen { name: command_of(process), group: cgroup_of(process) });
            self.has_new = true;
        }
        process
    }

    /// Takes the names that the kernel remembers, if processes came: it forgets them soon.
    pub(super) fn name_new(&mut self) {
        if std::mem::take(&mut self.has_new) {
            self.name();
        }
    }

    /// Takes the names that the kernel remembers.
    pub(super) fn name(&mut self) {
        let saved = fs::read(&self.saved).unwrap_or_default();
        for line in String::from_utf8_lossy(&saved).lines() {
            let Some((number, name)) = line.split_once(' ') else { continue };
            if let Some(seen) = number.parse().ok().and_then(|number: u32| self.seen.get_mut(&number)) {
                seen.name = shown(name);
            }
        }
    }

    /// The name and control group of a process, as far as known. The name is that of now: a
    /// process begins with the one of its parent.
    pub(super) fn describe(&self, process: u32) -> (String, Option<String>) {
        let Seen { name, group } = self.seen.get(&process).cloned().unwrap_or_default();
        let now = command_of(process);
        (if now.is_empty() { name } else { now }, group)
    }

    /// Forgets all: numbers may be used again.
    pub(super) fn clear(&mut self) {
        self.of_thread.clear();
        self.seen.clear();
    }
}
