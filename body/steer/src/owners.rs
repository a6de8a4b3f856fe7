//! The owners of references, and what the profile says about the files.
//!
//! Normally the whole run is one owner, however many processes come and go. By option every process
//! is one.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use foldhash::fast::FixedState;
use pantler_control::Profile;
use pantler_kernel::process::{lineage, process_of};
use pantler_steward::{FileId, HintError, OwnerId, Steward};

use crate::error::SteerError;
use crate::options::SteerOptions;

/// Threads with a remembered process, in runs with an owner per process.
const THREADS_MAX: usize = 4096;

/// The owners of a run.
#[derive(Debug)]
pub struct RunOwners {
    run: OwnerId,
    outside: OwnerId,
    per_process: bool,
    name: String,
    uid: u32,
    profile: Option<Profile>,
    processes: HashMap<u32, OwnerId, FixedState>,
    known: HashSet<OwnerId, FixedState>,
    /// By slot, for owners that come later: bounded as the table of files is.
    priorities: HashMap<u32, (FileId, i32), FixedState>,
}

impl RunOwners {
    /// The owners of a new run; gives the run's owner its profile's policies.
    ///
    /// # Errors
    /// The profile names more than the steward's bounds allow.
    pub fn new(options: &SteerOptions, steward: &mut Steward) -> Result<RunOwners, SteerError> {
        let mut owners = RunOwners {
            run: OwnerId(0),
            outside: OwnerId(u64::MAX),
            per_process: options.owner_per_process,
            name: options.owner_name.clone().unwrap_or_else(|| options.name.clone()),
            uid: options.uid,
            profile: options.profile.clone(),
            processes: HashMap::default(),
            known: HashSet::default(),
            priorities: HashMap::default(),
        };
        let run = owners.run;
        owners.begin(steward, run).map_err(|error| SteerError::Options(error.to_string()))?;
        Ok(owners)
    }

    /// What people call an owner.
    pub fn name(&self, owner: OwnerId) -> String {
        if owner == self.run { self.name.clone() } else { format!("process({})", owner.0) }
    }

    /// The user of these owners.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// The owner of the run as a whole.
    pub fn run(&self) -> OwnerId {
        self.run
    }

    /// All processes outside of the run.
    pub fn outside(&self) -> OwnerId {
        self.outside
    }

    /// The owner of a thread.
    pub fn of(&mut self, tid: u32) -> OwnerId {
        if !self.per_process {
            return self.run;
        }
        if let Some(&owner) = self.processes.get(&tid) {
            return owner;
        }
        let owner = OwnerId(u64::from(process_of(tid).unwrap_or(tid)));
        if self.processes.len() >= THREADS_MAX {
            self.processes.clear();
        }
        self.processes.insert(tid, owner);
        owner
    }

    /// Gives an owner that is new what the profile says, and the standing of the owner that it
    /// comes from (L7). Called before its first reference.
    ///
    /// # Errors
    /// A bound of the steward.
    pub fn begin(&mut self, steward: &mut Steward, owner: OwnerId) -> Result<(), HintError> {
        if !self.known.insert(owner) {
            return Ok(());
        }
        if self.per_process && owner != self.run {
            let parents = lineage(owner.0 as u32).into_iter().skip(1);
            let mut parents = parents.map(|member| OwnerId(member.pid.into()));
            if let Some(parent) = parents.find(|parent| *parent != self.run && self.known.contains(parent)) {
                steward.born(owner, parent);
            }
        }
        if let Some(profile) = &self.profile {
            profile.begin(steward, owner)?;
        }
        for &(file, priority) in self.priorities.values() {
            steward.set_priority(owner, file, priority)?;
        }
        Ok(())
    }

    /// Applies the profile's rule for a file; its path is known now. Returns the priority of its
    /// blocks that are done with, if the rule says so.
    pub fn apply_profile(
        &mut self,
        steward: &mut Steward,
        slot: u32,
        file: FileId,
        path: Option<&Path>,
    ) -> Option<i32> {
        self.priorities.remove(&slot);
        let (profile, path) = (self.profile.as_ref()?, path?);
        if self.per_process
            && let Some(rule) = profile.rule(path)
            && rule.priority != 0
        {
            self.priorities.insert(slot, (file, rule.priority));
        }
        profile.apply(steward, self.known.iter().copied(), file, path).done_with
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slot is used again for file after file: what is remembered for owners to come must not
    /// grow with them.
    #[test]
    fn what_is_remembered_of_files_is_bounded_by_their_slots() {
        let mut options = SteerOptions::new("test", 1 << 20);
        options.profile = Profile::parse("test", "[[file]]\nglob = \"*\"\npriority = 1\n").ok();
        for per_process in [false, true] {
            options.owner_per_process = per_process;
            let mut steward = Steward::new(pantler_steward::Options::new(100)).expect("options");
            let mut owners = RunOwners::new(&options, &mut steward).expect("owners");
            for version in 0..1000u64 {
                let (slot, file) = ((version % 7) as u32, FileId(version));
                let path = Some(Path::new("/some/file"));
                owners.apply_profile(&mut steward, slot, file, path);
                steward.set_priority(owners.run(), file, 0).expect("cleared");
            }
            assert_eq!(owners.priorities.len(), if per_process { 7 } else { 0 });
        }
    }
}
