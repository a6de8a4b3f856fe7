//! Known owners, processes and runs: owners by what makes them, processes by number, runs by
//! leader.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use pantler_steward::OwnerId;

use super::commands::Commands;
use super::key::Key;
use crate::descent::{Descent, Fallen, answers};
use crate::descriptors::Charge;
use pantler_kernel::process::{ANCESTORS_MAX, command_of, status_numbers};

/// Owners of ended runs that are kept for each user, to be continued by name.
const KEPT_MAX: usize = 64;
/// Processes of one user that are owners of their own at a time. Later ones are one owner together:
/// the steward has room for this number of owners, and one user shall not take it all.
pub(super) const OWNERS_PER_USER_MAX: u32 = 1024;

/// What is known of an owner.
#[derive(Debug, Clone)]
pub(crate) struct Owner {
    pub(crate) id: OwnerId,
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) pid: Option<u32>,
    pub(crate) live: bool,
    /// What it runs, and shares with all that run the same: what it reads is learnt for that.
    pub(crate) program: Option<OwnerId>,
}

/// All that the owners of a mount are found by.
#[derive(Default)]
pub(super) struct Registry {
    pub(super) keys: HashMap<Key, OwnerId>,
    pub(super) owners: HashMap<OwnerId, Owner>,
    /// Owners by user.
    counts: HashMap<u32, u32>,
    /// Watched processes.
    pub(super) processes: HashMap<u32, Process>,
    pub(super) runs: Vec<Run>,
    /// Owners that lost control.
    pub(super) fallen: Fallen,
    pub(super) commands: Commands,
    next: u64,
}

/// A process that asked something of the mount.
#[derive(Clone, Copy)]
pub(super) struct Process {
    pub(super) start: u64,
    /// The owner that it belonged to at its last request.
    pub(super) owner: OwnerId,
    /// Whether it hinted for itself.
    pub(super) is_apart: bool,
}

/// A process with an end that must be watched for.
pub(crate) struct Watch {
    pub(crate) pid: u32,
    /// Tells it from an earlier process of that number.
    pub(crate) start: u64,
    pub(crate) descriptor: OwnedFd,
    #[expect(dead_code, reason = "its end is what counts")]
    pub(crate) charge: Charge,
}

/// A process and its descendants that are one owner.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) leader: u32,
    pub(super) uid: u32,
    pub(super) owner: OwnerId,
}

impl Run {
    /// Whether a process of that user can belong to the run. One of another user, started by a
    /// set-id program, is that user's: the run's hints must not reach its blocks (C8).
    fn may_hold(&self, uid: u32) -> bool {
        self.uid == 0 || self.uid == uid
    }
}

/// The name of an owner that is a process.
fn name_of(process: u32, command: &str) -> String {
    format!("{command}({process})")
}

/// The command in the name of an owner: names of processes, and of runs that were given none, end
/// with a number that the next one has not.
fn command_in(name: &str, process: Option<u32>) -> String {
    let numbered = process.and_then(|process| {
        let of_process = name.strip_suffix(&format!("({process})"));
        of_process.or_else(|| name.strip_suffix(&format!("-{process}")))
    });
    numbered.unwrap_or(name).to_owned()
}

impl Registry {
    pub(super) fn owner(&mut self, key: Key, uid: u32, process: u32) -> (OwnerId, bool) {
        if let Some(&id) = self.keys.get(&key) {
            return (id, false);
        }
        let is_full = self.counts.get(&uid).is_some_and(|&count| count >= OWNERS_PER_USER_MAX);
        if is_full && matches!(key, Key::Process(..)) {
            return self.owner(Key::User(uid), uid, process);
        }
        *self.counts.entry(uid).or_default() += 1;
        self.next += 1;
        let id = OwnerId(self.next);
        let (name, pid) = match &key {
            Key::Process(pid, _) => (name_of(*pid, &command_of(*pid)), Some(*pid)),
            Key::Cgroup(path) => (path.clone(), None),
            Key::User(uid) => (format!("user-{uid}"), None),
            Key::Name(_, name) => (name.clone(), Some(process)),
        };
        self.keys.insert(key, id);
        self.owners.insert(id, Owner { id, name, uid, pid, live: true, program: None });
        self.find_program(id);
        (id, true)
    }

    /// Finds what an owner runs that begins, or goes on after it was over.
    pub(super) fn find_program(&mut self, id: OwnerId) {
        let Some(owner) = self.owners.get(&id) else { return };
        let command = command_in(&owner.name, owner.pid);
        let new = OwnerId(self.next + 1);
        let owners = &self.owners;
        let is_used = |program| owners.values().any(|owner| owner.live && owner.program == Some(program));
        let program = self.commands.program(owner.uid, command, new, is_used);
        self.next += u64::from(program == Some(new));
        if let Some(owner) = self.owners.get_mut(&id) {
            owner.program = program;
        }
    }

    /// An owner that is a process is named by what that runs now. Says whether it was another.
    pub(super) fn name_again(&mut self, id: OwnerId, process: u32) -> bool {
        let key = self.processes.get(&process).map(|known| Key::Process(process, known.start));
        let is_process = key.is_some_and(|key| self.keys.get(&key) == Some(&id));
        let command = command_of(process);
        let Some(owner) = self.owners.get_mut(&id) else { return false };
        let name = name_of(process, &command);
        // One that is gone has no command.
        if !is_process || command.is_empty() || owner.name == name {
            return false;
        }
        owner.name = name;
        self.find_program(id);
        true
    }

    pub(super) fn remove(&mut self, id: OwnerId) {
        let Some(owner) = self.owners.remove(&id) else { return };
        self.fallen.end(id);
        if let Some(count) = self.counts.get_mut(&owner.uid) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&owner.uid);
            }
        }
    }

    /// Owners of the user of `id` that were kept and are one too many.
    pub(super) fn kept_too_many(&self, id: OwnerId) -> Vec<OwnerId> {
        let Some(uid) = self.owners.get(&id).map(|owner| owner.uid) else { return Vec::new() };
        let kept = self.owners.values().filter(|owner| owner.uid == uid && !owner.live);
        let mut kept: Vec<OwnerId> = kept.map(|owner| owner.id).collect();
        kept.sort_unstable();
        kept.truncate(kept.len().saturating_sub(KEPT_MAX));
        kept
    }

    /// Whether the end of that process will be seen.
    pub(super) fn is_watched(&self, pid: u32, start: u64) -> bool {
        self.processes.get(&pid).is_some_and(|known| known.start == start)
    }

    /// A process belongs to `owner`. One that was unknown is watched from now on, if there is a
    /// descriptor for that.
    pub(super) fn watch(
        &mut self,
        pid: u32,
        start: u64,
        owner: OwnerId,
        charge: Option<Charge>,
    ) -> Option<Watch> {
        if let Some(known) = self.processes.get_mut(&pid).filter(|known| known.start == start) {
            known.owner = owner;
            return None;
        }
        let charge = charge?;
        let raw = rustix::process::Pid::from_raw(pid as i32)?;
        let flags = rustix::process::PidfdFlags::empty();
        let descriptor = rustix::process::pidfd_open(raw, flags).ok()?;
        self.processes.insert(pid, Process { start, owner, is_apart: false });
        Some(Watch { pid, start, descriptor, charge })
    }

    /// Whether that process hinted for itself.
    pub(super) fn is_apart(&self, pid: u32, start: u64) -> bool {
        self.processes.get(&pid).is_some_and(|known| known.start == start && known.is_apart)
    }

    /// Whether a process of the owner is known that has not ended.
    pub(super) fn is_used(&self, id: OwnerId) -> bool {
        self.processes.values().any(|process| process.owner == id)
    }

    pub(super) fn former(&self, pid: u32, start: u64) -> Option<OwnerId> {
        self.processes.get(&pid).filter(|known| known.start == start).map(|known| known.owner)
    }

    /// The descent of a process of user `uid` as a child of that owner.
    pub(super) fn descent(&self, owner: OwnerId, uid: u32) -> Option<Descent> {
        match self.owners.get(&owner) {
            Some(known) => answers(known.uid, uid).then_some(Descent::Of(owner)),
            None => self.fallen.holds(owner, uid).then_some(Descent::OfFallen),
        }
    }

    pub(super) fn run_of(&self, process: u32, uid: u32) -> Option<OwnerId> {
        if self.runs.is_empty() {
            return None;
        }
        let mut at = process;
        for _ in 0..ANCESTORS_MAX {
            if let Some(run) = self.runs.iter().rev().find(|run| run.leader == at && run.may_hold(uid)) {
                return Some(run.owner);
            }
            at = *status_numbers(at, "PPid:").first()?;
            if at == 0 {
                return None;
            }
        }
        None
    }
}
