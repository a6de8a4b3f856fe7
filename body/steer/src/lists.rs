//! Access lists as hints give them: what a program of the run will read, in order.
//!
//! A file comes on a list only if the speaker has it open for reading, or may read it. It is opened
//! by its file handle when its blocks are wanted, so that a list keeps no file open where the file
//! system has handles.

use std::os::fd::BorrowedFd;
use std::path::Path;

use pantler_control::{ControlError, ListAnswer, Speaker};
use pantler_steward::OwnerId;
use pantler_steward::lists::Chunk;
use rustix::fs::{FileType, OFlags, Stat};

use crate::steering::Steering;
use pantler_kernel::pages::block_bytes;

/// Access lists of a user other than root.
const LISTS_PER_USER_MAX: usize = 16;

impl Steering {
    /// `owner` will read a file: all of it, or these ranges of bytes.
    pub(crate) fn list_file(
        &mut self,
        owner: OwnerId,
        speaker: &Speaker,
        (path, file): (&Path, BorrowedFd<'_>),
        ranges: &[(i64, i64)],
        append: bool,
        now_ns: u64,
    ) -> Result<ListAnswer, ControlError> {
        self.check_lists(owner)?;
        let meta = look_at_regular(path, file)?;
        if !is_open_to_read(file) && !may_read(speaker, &meta) {
            let reason = format!("file {}: user {} may not read it", path.display(), speaker.uid);
            return Err(ControlError::denied(reason));
        }
        let slot = self.file_on_a_mount(path, file)?;
        let was_found = self.engine.file(slot).is_found();
        if !self.hands.files.accept_opened(slot, file, now_ns) {
            return Err(ControlError::failed(format!("file {}: it cannot be opened again", path.display())));
        }
        if !was_found {
            self.apply_profiles(slot);
            self.engine.set_size(slot, self.hands.files.size_blocks(slot));
        }
        let (id, size) = (self.engine.files().id(slot), meta.st_size);
        let within =
            |&(start, end): &(i64, i64)| Chunk::of_bytes(id, start, end.min(size), block_bytes() as u32).ok();
        let wanted = if ranges.is_empty() { &[(0, i64::MAX)][..] } else { ranges };
        let chunks: Vec<Chunk> = wanted.iter().filter_map(within).collect();
        match append {
            true if chunks.is_empty() => {}
            false if chunks.is_empty() => self.engine.tell(|steward| steward.end_list(owner)),
            true => self.engine.tell(|steward| steward.extend_list(owner, &chunks))?,
            false => self.engine.tell(|steward| steward.give_list(owner, &chunks))?,
        }
        self.obey(now_ns);
        let trimmed = (wanted.len() - chunks.len()) as u64;
        Ok(ListAnswer { trimmed, ..self.list_answer(owner) })
    }

    /// Where runs of several users join, none of them holds all lists.
    fn check_lists(&self, owner: OwnerId) -> Result<(), ControlError> {
        let (owners, steward) = (&self.owners, self.engine.steward());
        let uid = owners.uid(owner).filter(|&uid| uid != 0);
        let others = owners.all().filter(|&other| other != owner && owners.uid(other) == uid);
        let lists = others.filter(|&other| steward.list(other).is_some()).count();
        if uid.is_some() && lists >= LISTS_PER_USER_MAX {
            return Err(ControlError::Bound {
                bound: format!("{LISTS_PER_USER_MAX} access lists of a user"),
            });
        }
        Ok(())
    }

    /// The number of the file of a hint, new if need be.
    pub(crate) fn file_on_a_mount(&mut self, path: &Path, file: BorrowedFd<'_>) -> Result<u32, ControlError> {
        let number = self.file_of_opened(file);
        number.ok_or_else(|| ControlError::not_found(format!("file {} on a mount", path.display())))
    }

    /// What is known of an owner's list.
    pub(crate) fn list_answer(&self, owner: OwnerId) -> ListAnswer {
        self.engine.steward().list(owner).map_or(ListAnswer::default(), |list| ListAnswer {
            ranges: list.ranges.into(),
            blocks_done: list.done,
            blocks_left: list.left,
            in_flight: list.in_flight.into(),
            trimmed: 0,
        })
    }
}

/// What a hint is about, if that is a regular file.
pub(crate) fn look_at_regular(path: &Path, file: BorrowedFd<'_>) -> Result<Stat, ControlError> {
    let meta = rustix::fs::fstat(file).map_err(std::io::Error::from)?;
    if FileType::from_raw_mode(meta.st_mode) != FileType::RegularFile {
        return Err(ControlError::invalid(format!("{}: expected a regular file", path.display())));
    }
    Ok(meta)
}

/// Whether a descriptor itself proves that its file may be read.
fn is_open_to_read(file: BorrowedFd<'_>) -> bool {
    rustix::fs::fcntl_getfl(file)
        .is_ok_and(|flags| !flags.contains(OFlags::PATH) && flags & OFlags::RWMODE != OFlags::WRONLY)
}

/// Whether the mode bits let a speaker read. A process that is let in by an access control list
/// opens the file first.
fn may_read(speaker: &Speaker, meta: &Stat) -> bool {
    let bit = match speaker {
        Speaker { uid: 0, .. } => return true,
        Speaker { uid, .. } if *uid == meta.st_uid => 0o400,
        Speaker { gid, groups, .. } if *gid == meta.st_gid || groups.contains(&meta.st_gid) => 0o040,
        _ => 0o004,
    };
    meta.st_mode & bit != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn who_may_read_is_told_by_the_descriptor_or_by_the_mode() {
        let mut meta = rustix::fs::stat("/proc/self/exe").expect("a file");
        (meta.st_uid, meta.st_gid) = (7, 8);
        let speaker = |uid, gid, groups: &[u32]| Speaker { uid, gid, groups: groups.to_vec(), pid: 1 };
        for (mode, uid, gid, groups, may) in [
            (0o400, 7, 1, &[][..], true),
            (0o044, 7, 8, &[], false),
            (0o040, 1, 8, &[], true),
            (0o040, 1, 1, &[3, 8], true),
            (0o404, 1, 8, &[], false),
            (0o004, 1, 1, &[3], true),
            (0o000, 0, 0, &[], true),
        ] {
            meta.st_mode = 0o100_000 | mode;
            assert_eq!(may_read(&speaker(uid, gid, groups), &meta), may, "{mode:o} {uid} {gid} {groups:?}");
        }
        let open =
            |flags| rustix::fs::open("/proc/self/exe", flags, rustix::fs::Mode::empty()).expect("opened");
        assert!(is_open_to_read(open(OFlags::RDONLY).as_fd()));
        assert!(!is_open_to_read(open(OFlags::PATH).as_fd()));
    }
}
