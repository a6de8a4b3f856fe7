//! The directory that is served: opening what lies below it, and nothing else.
//!
//! The kernel checks that no step leads out (`RESOLVE_BENEATH`), be it by `..`, by an absolute link
//! or by one of /proc.

use foldhash::quality::FixedState;
use pantler_origin::{Attributes, Directory, Kind, LocalNode, has_writers};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::hash::BuildHasher;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::conditions::Validators;
use crate::error::WebError;
use crate::opened::{Below, Opened};
use crate::path::Names;

/// How long to wait until a path that cannot be opened now is tried again: twice as long each time.
const PAUSE_MIN: Duration = Duration::from_micros(50);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// See the head of this file.
#[derive(Debug)]
pub struct Root {
    directory: Directory,
    node: LocalNode,
    /// Another file system mounted below it is taken for the same.
    below: Below,
}

/// What lies at a path.
#[derive(Debug)]
pub enum Found {
    /// A file.
    File(Opened),
    /// A directory.
    Directory,
}

impl Root {
    /// Opens the root.
    ///
    /// # Errors
    /// When it is no directory that we may look into.
    pub fn open(path: &Path) -> Result<Self, WebError> {
        let fail = |error| WebError::Root { path: path.to_owned(), error };
        let directory = match Directory::open(path) {
            Ok(directory) => directory,
            Err(pantler_origin::OriginError::Open { error, .. }) => return Err(fail(error)),
            Err(error) => return Err(fail(io::Error::other(error))),
        };
        let node = directory.root().map_err(fail)?;
        // Only an open directory answers calls.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(node.as_fd(), c".", flags, Mode::empty());
        let opened = opened.map_err(|error| fail(error.into()))?;
        let is_mount = pantler_kernel::held::is_held(opened.as_fd(), 0, 0).is_ok();
        let below = if is_mount { Below::Mount } else { Below::PageCache };
        Ok(Self { directory, node, below })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Opens what lies at a path without waiting for the disk; `None` if that cannot be.
    pub fn open_now(&self, names: &Names) -> io::Result<Option<Found>> {
        match self.resolve(names, ResolveFlags::CACHED) {
            Err(Errno::AGAIN | Errno::INVAL) => Ok(None),
            result => self.found(result?).map(Some),
        }
    }

    /// Opens what lies at a path, waiting for the disk if need be, and for others no longer than
    /// `patience`.
    pub fn open_waiting(&self, names: &Names, patience: Duration) -> io::Result<Found> {
        let start = Instant::now();
        let mut pause = PAUSE_MIN;
        loop {
            // EAGAIN: a rename elsewhere raced with the check that the path stays beneath, which is
            // over at once; or a program has a lease on the file, which may take the kernel most of
            // a minute to break.
            match self.resolve(names, ResolveFlags::empty()) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if start.elapsed() + pause < patience => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                Err(Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
                result => return self.found(result?),
            }
        }
    }

    fn resolve(&self, names: &Names, more: ResolveFlags) -> Result<OwnedFd, Errno> {
        // Without NONBLOCK opening a pipe would wait for a writer.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | more;
        let path: &[u8] = if names.joined.is_empty() { b"." } else { &names.joined };
        rustix::fs::openat2(self.node.as_fd(), path, flags, Mode::empty(), resolve)
    }

    fn found(&self, descriptor: OwnedFd) -> io::Result<Found> {
        let attributes = Attributes::of(descriptor.as_fd())?;
        match attributes.kind {
            Kind::Directory => Ok(Found::Directory),
            Kind::Regular => {
                let again = || Ok(Attributes::of(descriptor.as_fd())?.version());
                let look = self.directory.look(&attributes);
                let look = look.doubted(|| has_writers(descriptor.as_fd()), again)?;
                let validators = validators(&attributes, look.settled, SystemTime::now());
                let look = (look, attributes.links);
                Ok(Found::File(Opened::new(descriptor, look, validators, self.below)))
            }
            // Pipes, sockets and devices are nothing to be served.
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// A file that could change again without showing it, because its stamps are young or a program may
/// be writing to it, has a weak tag, a new one each time, and no date: a client is never told that
/// its bytes are still the same.
///
/// Programs can set the time of modification, and all files of a reproducible build have the same;
/// the time of change is the kernel's, but two files may have the same. So the tag has both, and
/// which file it is: as a hash, because numbers of inodes are private.
fn validators(attributes: &Attributes, is_settled: bool, now: SystemTime) -> Validators {
    let Attributes { size, modified, .. } = attributes;
    let nanoseconds = i128::from(modified.seconds) * 1_000_000_000 + i128::from(modified.nanoseconds);
    let which = FixedState::default().hash_one((attributes.inode, attributes.born, attributes.changed));
    let inside = format!("{size:x}-{:x}-{which:x}", nanoseconds as u128);
    if !is_settled {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        return Validators { etag: format!("W/\"{inside}-{now:x}\""), modified: None };
    }
    let seconds = u64::try_from(modified.seconds).unwrap_or(0);
    // A date of the future would never be reached by a client's clock (RFC 9110, section 8.8.2.1).
    let is_over = now.duration_since(UNIX_EPOCH).is_ok_and(|now| now.as_secs() > seconds);
    let modified = is_over.then(|| UNIX_EPOCH + Duration::from_secs(seconds));
    Validators { etag: format!("\"{inside}\""), modified }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantler_origin::Time;
    use std::fs;
    use std::os::unix::fs::symlink;

    const LONG: Duration = Duration::from_secs(60);

    fn names(path: &str) -> Names {
        Names { joined: path.into(), is_directory: false }
    }

    fn error(root: &Root, path: &str) -> Option<i32> {
        root.open_waiting(&names(path), LONG).err().and_then(|error| error.raw_os_error())
    }

    #[test]
    fn links_lead_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::NamedTempFile::new().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("d")).unwrap();
        fs::write(at("d/f"), "text").unwrap();
        symlink("d/f", at("inside")).unwrap();
        symlink(outside.path(), at("outside")).unwrap();
        symlink("../../../../etc/passwd", at("up")).unwrap();
        symlink("/proc/self/root/etc/passwd", at("magic")).unwrap();
        symlink("loop", at("loop")).unwrap();
        let root = Root::open(folder.path()).unwrap();
        assert!(matches!(root.open_waiting(&names("inside"), LONG), Ok(Found::File(_))));
        assert!(matches!(root.open_waiting(&names("d"), LONG), Ok(Found::Directory)));
        assert!(matches!(root.open_now(&names("d/f")), Ok(Some(Found::File(_)))));
        for path in ["outside", "up", "magic", "d/../../x"] {
            assert_eq!(error(&root, path), Some(Errno::XDEV.raw_os_error()), "{path}");
        }
        assert_eq!(error(&root, "loop"), Some(Errno::LOOP.raw_os_error()));
        assert_eq!(error(&root, "nothing"), Some(Errno::NOENT.raw_os_error()));
    }

    #[test]
    fn a_date_is_told_once_its_second_is_over_and_a_tag_tells_every_change() {
        let time = |seconds, nanoseconds| Time { seconds, nanoseconds };
        let attributes =
            |modified, changed| Attributes { size: 5, modified, changed, ..Attributes::default() };
        let at = |millis| UNIX_EPOCH + Duration::from_millis(millis);
        let file = attributes(time(100, 300_000_000), time(100, 300_000_000));
        assert_eq!(validators(&file, true, at(100_999)).modified, None);
        assert_eq!(validators(&file, true, at(101_000)).modified, Some(at(100_000)));
        assert_eq!(validators(&file, false, at(500_000)).modified, None, "somebody may be writing");
        assert_eq!(validators(&file, true, at(1000)).modified, None, "it comes from the future");
        let old = attributes(time(-5, 0), time(100, 0));
        assert_eq!(validators(&old, true, at(200_000)).modified, Some(UNIX_EPOCH));
        let tag = |file, is_settled| validators(&file, is_settled, at(200_000)).etag;
        // Written anew, and the time of modification set back.
        let again = attributes(time(100, 300_000_000), time(150, 0));
        let other = Attributes { inode: 7, ..file };
        assert!(tag(file, true).starts_with('"'));
        assert!(tag(file, true) != tag(again, true) && tag(file, true) != tag(other, true));
        assert!(tag(file, false).starts_with("W/\""));
    }

    #[test]
    fn a_pipe_is_not_served_and_nobody_waits_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let (path, kind) = (folder.path().join("p"), rustix::fs::FileType::Fifo);
        rustix::fs::mknodat(rustix::fs::CWD, path, kind, Mode::RUSR, 0).unwrap();
        let root = Root::open(folder.path()).unwrap();
        assert_eq!(root.open_waiting(&names("p"), LONG).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
