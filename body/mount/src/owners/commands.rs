//! What owners run. Those of a user with the same command are one program to the steward: the next
//! process goes on with what the one before it taught.
//!
//! A process is known by the name that the kernel has of it when it first asks something of the
//! mount, and again when it first reads. It may choose that name, and by that share with processes
//! of its own user alone.

use std::collections::HashMap;

use pantler_steward::OwnerId;

/// Programs of one user at a time. The one that ended longest ago makes room; while all of them
/// run, later ones are learnt of together.
const PROGRAMS_PER_USER_MAX: usize = 32;

/// Programs by user and command.
#[derive(Debug, Default)]
pub(super) struct Commands {
    by_user: HashMap<u32, HashMap<String, Program>>,
    /// Programs that are no more, of which the steward has not been told.
    ended: Vec<OwnerId>,
    begun: u64,
}

#[derive(Debug)]
struct Program {
    id: OwnerId,
    /// The owner that ran it last, counted over all.
    last: u64,
}

impl Commands {
    /// The program that a new owner of user `uid` runs. One that is unknown gets the id `new`.
    /// `None` where the user has too many that `is_used` says to be running.
    pub(super) fn program(
        &mut self,
        uid: u32,
        command: String,
        new: OwnerId,
        is_used: impl Fn(OwnerId) -> bool,
    ) -> Option<OwnerId> {
        self.begun += 1;
        let programs = self.by_user.entry(uid).or_default();
        if let Some(known) = programs.get_mut(&command) {
            known.last = self.begun;
            return Some(known.id);
        }
        if programs.len() >= PROGRAMS_PER_USER_MAX {
            let idle = programs.iter().filter(|(_, program)| !is_used(program.id));
            let oldest = idle.min_by_key(|(_, program)| program.last).map(|(command, _)| command.clone())?;
            self.ended.extend(programs.remove(&oldest).map(|program| program.id));
        }
        programs.insert(command, Program { id: new, last: self.begun });
        Some(new)
    }

    /// Programs that ended since the last call.
    pub(super) fn take_ended(&mut self) -> Vec<OwnerId> {
        std::mem::take(&mut self.ended)
    }

    /// All programs, with user and command.
    pub(super) fn all(&self) -> impl Iterator<Item = (OwnerId, u32, &str)> {
        self.by_user.iter().flat_map(|(&uid, programs)| {
            programs.iter().map(move |(command, program)| (program.id, uid, command.as_str()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_a_user_are_bounded_and_the_oldest_that_ended_makes_room() {
        let mut commands = Commands::default();
        let most = PROGRAMS_PER_USER_MAX as u64;
        let mut run = |uid, command: u64, new, used: &[u64]| {
            commands.program(uid, command.to_string(), OwnerId(new), |id| used.contains(&id.0))
        };
        for command in 0..most {
            assert_eq!(run(7, command, command, &[]), Some(OwnerId(command)));
        }
        assert_eq!(run(7, 0, 99, &[]), Some(OwnerId(0)), "known, and the last that ran");
        assert_eq!(run(8, 0, 98, &[]), Some(OwnerId(98)), "another user's");
        assert_eq!(run(7, 100, 100, &[1]), Some(OwnerId(100)));
        let all: Vec<u64> = (0..=100).collect();
        assert_eq!(run(7, 101, 101, &all), None, "all of them run");
        assert_eq!(run(7, 100, 102, &all), Some(OwnerId(100)));
        assert_eq!(commands.take_ended(), [OwnerId(2)], "1 runs");
        assert_eq!((commands.take_ended().len(), commands.all().count()), (0, PROGRAMS_PER_USER_MAX + 1));
    }
}
