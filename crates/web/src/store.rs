//! Where the bytes lie while they are served: in the kernel's page cache, or in a Pantler cache of our own.

use bytes::Bytes;
use pantler_cache::{Cache, Request};
use pantler_origin::Source;
use pantler_steward::{FileId, OwnerId};
use std::io;
use std::sync::Arc;

use crate::WebError;
use crate::buffers::{Buffers, CHUNK_BYTES};
use crate::opened::Opened;
use crate::options::StoreKind;
use crate::scheduler::Wish;

/// All requests of a server are one owner.
const OWNER: OwnerId = OwnerId(1);

/// See the head of this file.
pub enum Store {
    /// The kernel decides what stays; it is asked, or a model of it.
    Files,
    /// The steward decides, and says exactly what is there.
    Cache(Box<Cache>),
}

impl Store {
    /// As chosen.
    ///
    /// # Errors
    /// When the cache does not fit into its size, or into memory.
    pub fn new(kind: StoreKind, threads: u32) -> Result<Self, WebError> {
        let StoreKind::Cache(cache_bytes) = kind else { return Ok(Self::Files) };
        // A buffer for each who may copy from a block while it is replaced.
        let options =
            pantler_cache::Options { cache_bytes, spare: threads, ..pantler_cache::Options::default() };
        Ok(Self::Cache(Box::new(Cache::new(options)?)))
    }

    /// Whether all of a piece is there: exactly, or `None` where that is not known.
    pub fn holds(&self, file: &Opened, wish: Wish) -> Option<bool> {
        match self {
            Self::Files => file.is_cached(wish.start, wish.end),
            Self::Cache(cache) => {
                let held = cache.held(FileId(wish.file), wish.start, wish.end);
                Some(held == wish.end - wish.start)
            }
        }
    }

    /// The beginning of a piece, if it is there: `None` if not, empty where the file ends.
    ///
    /// # Errors
    /// The system's.
    pub fn look(&self, file: &Arc<Opened>, wish: Wish, buffers: &Arc<Buffers>) -> io::Result<Option<Bytes>> {
        let length = ((wish.end - wish.start) as usize).min(buffers.chunk_bytes());
        let wish = Wish { end: wish.start + length as u64, ..wish };
        if let Self::Cache(cache) = self {
            if self.holds(file, wish) != Some(true) {
                return Ok(None);
            }
            return copy(cache, file, wish, buffers).map(Some);
        }
        let mut buffer = buffers.take(length);
        let count = file.read_now(buffer.space(), wish.start)?;
        Ok(count.map(|count| buffer.freeze(count)))
    }

    /// Reads a piece, waiting for the disk. What comes is short where the file ends. With `keep`, the bytes are returned; else
    /// they are only brought in.
    ///
    /// # Errors
    /// The system's.
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
            let bytes = match self {
                Self::Cache(cache) => copy(cache, file, Wish { start: at, end, ..wish }, buffers)?,
                Self::Files => {
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
