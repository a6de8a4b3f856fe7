//! Where the bytes lie while they are served: in the kernel's page cache, or in a Pantler cache of
//! our own.

use bytes::Bytes;
use pantler_cache::{Cache, Request};
use pantler_origin::Source;
use pantler_steward::{FileId, OwnerId};
use prometheus_client::metrics::counter::Counter;
use std::io;
use std::sync::Arc;

use crate::buffers::{Buffers, CHUNK_BYTES};
use crate::error::WebError;
use crate::opened::{Below, Now, Opened};
use crate::options::StoreKind;
use crate::scheduler::Wish;

/// All requests of a server are one owner.
const OWNER: OwnerId = OwnerId(1);

/// See the head of this file.
pub struct Store {
    /// The cache of our own. Its steward decides what stays. Files that are not settled pass it
    /// by.
    cache: Option<Box<Cache>>,
    /// Questions to the kernel, a mount or our own cache what is there.
    asked: Counter,
}

impl Store {
    /// As chosen.
    ///
    /// # Errors
    /// When the cache does not fit into its size, or into memory.
    pub fn new(kind: StoreKind, threads: u32, asked: Counter) -> Result<Self, WebError> {
        let StoreKind::Cache(cache_bytes) = kind else { return Ok(Self { cache: None, asked }) };
        // One buffer for each thread that may copy from a block while it is replaced.
        let options =
            pantler_cache::Options { cache_bytes, spare: threads, ..pantler_cache::Options::default() };
        Ok(Self { cache: Some(Box::new(Cache::new(options)?)), asked })
    }

    /// Whether all of a piece is there; `None` where that is not told.
    pub fn holds(&self, file: &Opened, wish: Wish) -> Option<bool> {
        self.asked.inc();
        match self.cache(file) {
            None => file.holds(wish.start, wish.end),
            Some(cache) => Some(cache.held(FileId(wish.file), wish.start, wish.end) >= wish.length()),
        }
    }

    /// The cache of our own, if it may hold this file. A file that could change again without
    /// showing it would stay there for ever.
    fn cache(&self, file: &Opened) -> Option<&Cache> {
        self.cache.as_deref().filter(|_| file.is_settled)
    }

    /// Whether a steward says what is there. Reads of what it holds return at once.
    pub fn has_steward(&self, file: &Opened) -> bool {
        self.cache(file).is_some() || file.below() == Below::Mount
    }

    /// The beginning of a piece, if it is there; empty where the file ends. The kernel is asked by
    /// reading: it gives what lies before the first missing page. A steward is asked first, unless
    /// it said just now that it holds all (`is_known`): what leaves in between is read again.
    pub fn look(
        &self,
        file: &Arc<Opened>,
        wish: Wish,
        is_known: bool,
        buffers: &Arc<Buffers>,
    ) -> io::Result<Option<Bytes>> {
        let has_steward = self.has_steward(file);
        if has_steward && !is_known && self.holds(file, wish) != Some(true) {
            return Ok(None);
        }
        let length = (wish.length() as usize).min(buffers.chunk_bytes());
        let wish = Wish { end: wish.start + length as u64, ..wish };
        if let Some(cache) = self.cache(file) {
            return copy(cache, file, wish, buffers).map(Some);
        }
        let mut buffer = buffers.take(length);
        if has_steward {
            let count = file.read_waiting(buffer.space(), wish.start)?;
            return Ok(Some(buffer.freeze(count)));
        }
        Ok(match file.read_now(buffer.space(), wish.start)? {
            Now::Read(count) => Some(buffer.freeze(count)),
            Now::Missing | Now::Unknown => None,
        })
    }

    /// Reads a piece, waiting for the disk. The result is short where the file ends. With `keep`
    /// the bytes are returned, else they are only brought into the cache.
    pub fn read(
        &self,
        file: &Arc<Opened>,
        wish: Wish,
        keep: bool,
        buffers: &Arc<Buffers>,
    ) -> io::Result<Vec<Bytes>> {
        let mut chunks = Vec::new();
        let mut at = wish.start;
        while at < wish.end {
            let end = wish.end.min(at + CHUNK_BYTES as u64);
            let bytes = match self.cache(file) {
                Some(cache) => copy(cache, file, Wish { start: at, end, ..wish }, buffers)?,
                None => {
                    let mut buffer = buffers.take((end - at) as usize);
                    let count = file.read_waiting(buffer.space(), at)?;
                    buffer.freeze(count)
                }
            };
            if bytes.is_empty() {
                break;
            }
            at += bytes.len() as u64;
            if keep {
                chunks.push(bytes);
            }
        }
        Ok(chunks)
    }
}

fn copy(cache: &Cache, file: &Arc<Opened>, wish: Wish, buffers: &Arc<Buffers>) -> io::Result<Bytes> {
    let length = (wish.end - wish.start) as usize;
    let source: Arc<dyn Source> = file.clone();
    let request = Request {
        owner: OWNER,
        file: FileId(wish.file),
        offset: wish.start,
        length,
        size: file.size(),
        source: &source,
    };
    let mut buffer = buffers.take(length);
    let count = cache.read(&request, |bytes| {
        buffer.space()[..bytes.len()].copy_from_slice(bytes);
        bytes.len()
    })?;
    Ok(buffer.freeze(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::Validators;
    use pantler_origin::{Attributes, Look, Time};
    use std::fs::File;
    use std::os::fd::AsFd;

    /// The same version each time it is opened, as when a clock has not ticked between two changes.
    fn open(path: &std::path::Path, settled: bool) -> Arc<Opened> {
        let file = File::open(path).unwrap();
        let attributes = Attributes::of(file.as_fd()).unwrap();
        let mut version = attributes.version();
        (version.modified, version.changed) = (Time::default(), Time::default());
        let validators = Validators { etag: String::new(), modified: Some(std::time::UNIX_EPOCH) };
        let look = (Look { version, settled }, attributes.links);
        Arc::new(Opened::new(file.into(), look, validators, Below::PageCache))
    }

    #[test]
    fn what_could_change_without_showing_it_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let store = Store::new(StoreKind::Cache(8 << 20), 1, Counter::default()).unwrap();
        let buffers = Buffers::new(1 << 20);
        let wish = Wish { file: 1, start: 0, end: 9000 };
        let read = |file: &Arc<Opened>| store.read(file, wish, true, &buffers).unwrap().concat();
        std::fs::write(&path, [1; 9000]).unwrap();
        let young = open(&path, false);
        assert!(read(&young) == [1; 9000]);
        // In place, at the same size, within the same tick.
        std::fs::write(&path, [2; 9000]).unwrap();
        assert!(read(&young) == [2; 9000]);
        let settled = open(&path, true);
        assert_eq!((settled.version, store.holds(&settled, wish)), (young.version, Some(false)));
        assert!(read(&settled) == [2; 9000], "bytes of before the second change");
        assert_eq!(store.holds(&settled, wish), Some(true), "now it is kept");
        let seen = store.look(&settled, wish, false, &buffers).unwrap();
        assert!(seen.is_some_and(|bytes| bytes[..] == [2; 9000]));
    }
}
