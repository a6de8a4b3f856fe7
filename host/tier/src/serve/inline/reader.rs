//! Reads blocks of the origin, and is sure that they are of the version that was asked for.

use std::ffi::OsStr;
use std::io::{self, IoSliceMut};
use std::os::unix::ffi::OsStrExt;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use pantler_origin::{Node, OpenFile, OpenMode, Source};

use super::{Hall, Until};
use crate::Key;
use crate::error::is_gone;

/// How long a file stays open that is not asked for.
const IDLE: Duration = Duration::from_secs(1);
/// What reads past the page cache have to be aligned to.
const ALIGNMENT: usize = 4096;

/// What a reader keeps from one block to the next.
#[derive(Default)]
struct Reader {
    /// The file that it read last: blocks are asked for in order.
    last: Option<([u8; 16], OpenFile)>,
    buffer: Vec<u8>,
    sealed: Vec<u8>,
}

/// What a reader's thread does.
pub(super) fn serve(hall: &Hall) {
    let mut reader = Reader::default();
    while let Some((key, until)) = next(hall, &mut reader) {
        // All requests for it have been answered otherwise.
        let sealed = if until.is_over() { None } else { reader.bring(hall, &key) };
        hall.hand_over(key, sealed);
    }
}

/// What to read next; `None` at the end.
fn next(hall: &Hall, reader: &mut Reader) -> Option<(Key, Until)> {
    let mut queue = hall.queue();
    loop {
        if hall.stopped() {
            return None;
        }
        if let Some(first) = queue.pop_front() {
            return Some(first);
        }
        let (woken, idle) = hall.queued.wait_timeout(queue, IDLE).unwrap_or_else(PoisonError::into_inner);
        queue = woken;
        if idle.timed_out() {
            *reader = Reader::default();
        }
    }
}

impl Reader {
    fn bring(&mut self, hall: &Hall, key: &Key) -> Option<Bytes> {
        let counts = &hall.counts;
        match self.read(hall, key) {
            Ok(Some(length)) => {
                counts.reads.fetch_add(1, Ordering::Relaxed);
                counts.read_bytes.fetch_add(length as u64, Ordering::Relaxed);
                return Some(Bytes::from(std::mem::take(&mut self.sealed)));
            }
            Ok(None) => drop(counts.absent.fetch_add(1, Ordering::Relaxed)),
            Err(error) if is_gone(&error) => {
                counts.absent.fetch_add(1, Ordering::Relaxed);
                self.not_there(hall, key);
            }
            Err(error) => hall.failed("to be read", &error),
        }
        self.last = None;
        None
    }

    /// Seals the block if it is of the version that the key names; says how many bytes it has.
    fn read(&mut self, hall: &Hall, key: &Key) -> io::Result<Option<usize>> {
        let size = key.stem.block_bytes() as usize;
        let Some(offset) = key.index.checked_mul(size as u64) else { return Ok(None) };
        let version = key.stem.hash;
        let file = match self.last.take().filter(|(last, _)| *last == version) {
            Some((_, file)) => file,
            None => match open(hall, &version)? {
                Some(file) => file,
                None => return Ok(None),
            },
        };
        // I1: before, and after.
        let Some(end) = self.size_of_version(hall, key, &file)? else { return Ok(None) };
        let wanted = end.saturating_sub(offset).min(size as u64) as usize;
        if wanted == 0 {
            return Ok(None);
        }
        self.buffer.resize(size + ALIGNMENT, 0);
        let start = self.buffer.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        let count = file.read_at(offset, &mut [IoSliceMut::new(&mut self.buffer[start..start + size])])?;
        if count < wanted || self.size_of_version(hall, key, &file)?.is_none() {
            return Ok(None);
        }
        hall.seal.seal(key, &self.buffer[start..start + wanted], &mut self.sealed);
        self.last = Some((version, file));
        Ok(Some(wanted))
    }

    /// How long the file is if it has the version that the key names.
    fn size_of_version(&self, hall: &Hall, key: &Key, file: &OpenFile) -> io::Result<Option<u64>> {
        let attributes = file.attributes()?;
        let again = || Ok(file.attributes()?.version());
        let look = hall.origin.look(&attributes).doubted(|| file.has_writers(), again)?;
        let stem = hall.stems.sized(&look, key.stem.block_bytes());
        if stem == Some(key.stem) {
            return Ok(Some(attributes.size));
        }
        self.not_there(hall, key);
        Ok(None)
    }

    fn not_there(&self, hall: &Hall, key: &Key) {
        hall.write_index().forget(&key.stem.hash);
        hall.renew();
    }
}

/// The file where the version was last seen. I2.
fn open(hall: &Hall, version: &[u8; 16]) -> io::Result<Option<OpenFile>> {
    let Some(path) = hall.read_index().path(version).map(Vec::from) else { return Ok(None) };
    let mut node: Node = hall.origin.root()?;
    for name in path.split(|&byte| byte == b'/') {
        node = node.lookup(OsStr::from_bytes(name))?;
    }
    node.open(OpenMode::READ).map(Some)
}
