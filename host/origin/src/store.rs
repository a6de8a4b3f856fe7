//! An object store as origin, read only: S3 and what is compatible, Google Cloud Storage, Azure,
//! HTTP.
//!
//! ```text
//!   names    object("a/b") or has_below("a/b") --> recent (at most `refresh` old)
//!                --> node: one version, for ever
//!   bytes    read(version, range) --> GET with If-Match --> bytes of that version, or ESTALE
//! ```
//!
//! Why so: docs/decisions/0045-object-stores.md.

#[cfg_attr(not(feature = "network"), path = "store/no_client.rs")]
mod client;
#[cfg(feature = "network")]
mod listing;
mod node;
mod object;

use lru::LruCache;
use rustix::io::Errno;
use std::io::{self, IoSliceMut};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use node::{StoreEntries, StoreFile, StoreNode};

use crate::attributes::{Attributes, Kind};
use crate::place::{Scheme, StoreAddress, StoreOptions};
use crate::version::COARSE_TICK;
use crate::{Look, OriginError, Time};
use object::{Found, Object, Objects};

/// Longest name of a file: what FUSE takes.
const NAME_BYTES_MAX: usize = 1024;
/// Names that are remembered.
const NAMES_MAX: usize = 1 << 17;
/// What a program should read at once.
const READ_BYTES: u32 = 1 << 20;

/// An object store.
#[derive(derive_more::Debug)]
#[debug("Store({name})")]
pub struct Store {
    objects: Box<dyn Objects>,
    name: String,
    identity: [u8; 16],
    /// Whether a tag may stay the same when an object changes twice within a moment.
    tags_tick: bool,
    /// What was found out recently about names, and when it was asked for.
    recent: Mutex<LruCache<String, (Instant, Found)>>,
    /// How old that may be.
    age_max: Duration,
    opened: Time,
    uid: u32,
    gid: u32,
    /// The errno of the last answer: what goes wrong is logged once.
    last: AtomicI32,
}

impl Store {
    /// Connects to a store, and asks for something: what is missing is known at once.
    ///
    /// # Errors
    /// [`OriginError`]: wrong settings, missing credentials, an unknown bucket, or a server that
    /// does not answer in time.
    pub fn open(address: &StoreAddress, options: &StoreOptions) -> Result<Self, OriginError> {
        let place = address.to_string();
        let refuse = |reason| OriginError::Store { place: place.clone(), reason };
        let (objects, server) = client::connect(address, options).map_err(refuse)?;
        let tags_tick = matches!(address.scheme, Scheme::Http | Scheme::Https);
        Ok(Self::new(objects, &place, &server, tags_tick, options.refresh))
    }

    fn new(objects: Box<dyn Objects>, name: &str, server: &str, tags_tick: bool, refresh: Duration) -> Self {
        Self {
            objects,
            name: name.to_owned(),
            identity: object::name(&[b"store", name.as_bytes(), server.as_bytes()]).0,
            tags_tick,
            // Without a bound of its own: with one it takes memory for all names at once.
            recent: Mutex::new(LruCache::unbounded()),
            // The kernel remembers for as long again.
            age_max: refresh / 2,
            opened: Time::now(),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            last: AtomicI32::new(0),
        }
    }

    /// Its address.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same value for all users of this store, and another for every other store.
    pub fn identity(&self) -> [u8; 16] {
        self.identity
    }

    /// How often keys were left out of listings because they are no paths, such as `a//b`.
    pub fn left_out(&self) -> u64 {
        self.objects.left_out()
    }

    /// The directory at the top.
    pub fn root(store: &Arc<Self>) -> StoreNode {
        StoreNode::new(Arc::clone(store), String::new(), Found::Directory)
    }

    /// Judges what was found. Without a tag a change may leave no trace.
    pub(crate) fn look(&self, attributes: &Attributes) -> Look {
        // HTTP servers make tags of times in whole seconds.
        let is_old = || attributes.modified.plus(COARSE_TICK) < Time::now();
        let settled = attributes.tag.is_some() && (!self.tags_tick || is_old());
        Look { version: attributes.version(), settled }
    }

    fn attributes(&self, path: &str, found: &Found) -> Attributes {
        match found {
            Found::Object(object) => self.version_attributes(path, object),
            Found::Directory => Attributes {
                kind: Kind::Directory,
                permissions: 0o555,
                size: 0,
                ..self.common(node::split(object::name(&[b"directory", path.as_bytes()]).0), self.opened)
            },
        }
    }

    fn version_attributes(&self, path: &str, object: &Object) -> Attributes {
        let version = object.version(path);
        Attributes {
            permissions: 0o444,
            size: object.size,
            blocks: object.size.div_ceil(512),
            tag: object.tag.as_ref().map(|_| version),
            ..self.common(node::split(version.0), object.modified)
        }
    }

    fn common(&self, (device, inode): (u64, u64), time: Time) -> Attributes {
        Attributes {
            device,
            inode,
            uid: self.uid,
            gid: self.gid,
            links: 1,
            block_bytes: READ_BYTES,
            accessed: time,
            modified: time,
            changed: time,
            ..Attributes::default()
        }
    }

    /// What a path stands for.
    fn find(&self, path: &str) -> io::Result<Found> {
        let asked = Instant::now();
        if let Some((at, found)) = self.recent().get(path)
            && asked.saturating_duration_since(*at) < self.age_max
        {
            return Ok(found.clone());
        }
        let found = self.noted(self.objects.find(path))?;
        self.remember(path.to_owned(), asked, &found);
        Ok(found)
    }

    /// What is directly below, by name, in order.
    fn list(&self, path: &str) -> io::Result<Vec<(String, Found)>> {
        let asked = Instant::now();
        let mut children = self.noted(self.objects.list(path))?;
        children.retain(|(name, _)| is_name(name));
        // Of an object and a directory of one name the object comes first, and stays.
        children.sort_by(|one, other| {
            (&one.0, one.1 == Found::Directory).cmp(&(&other.0, other.1 == Found::Directory))
        });
        children.dedup_by(|later, first| later.0 == first.0);
        // Some servers give tags for requests by name, and none in listings: a version would have
        // two names.
        let is_whole = |found: &Found| !matches!(found, Found::Object(object) if object.tag.is_none());
        for (name, found) in children.iter().filter(|(_, found)| is_whole(found)) {
            self.remember(node::join(path, name), asked, found);
        }
        Ok(children)
    }

    fn read(
        &self,
        path: &str,
        object: &Object,
        offset: u64,
        buffers: &mut [IoSliceMut<'_>],
    ) -> io::Result<usize> {
        let asked: u64 = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let wanted = object.size.saturating_sub(offset).min(asked);
        if wanted == 0 {
            return Ok(0);
        }
        let result = self.noted(self.objects.read(path, object, offset, buffers));
        match result {
            // Fewer bytes would mean that the file ends there.
            Ok(count) if count as u64 != wanted => Err(Errno::IO.into()),
            Err(error) if error.raw_os_error() == Some(libc::ESTALE) => {
                self.recent().pop(path);
                Err(error)
            }
            result => result,
        }
    }

    /// `asked` is when it was asked for: it may have changed since.
    fn remember(&self, path: String, asked: Instant, found: &Found) {
        let mut recent = self.recent();
        recent.put(path, (asked, found.clone()));
        if recent.len() > NAMES_MAX {
            recent.pop_lru();
        }
    }

    fn recent(&self) -> MutexGuard<'_, LruCache<String, (Instant, Found)>> {
        // Nothing panics with it in between two changes.
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says in the log what goes wrong, when that is something else than last time.
    fn noted<R>(&self, result: io::Result<R>) -> io::Result<R> {
        let code = match &result {
            Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
            Ok(_) => 0,
        };
        // These are answers.
        if !matches!(code, libc::ENOENT | libc::ESTALE | libc::EOPNOTSUPP) {
            let last = self.last.swap(code, Ordering::Relaxed);
            if code != 0 && code != last {
                tracing::warn!(origin = self.name, error = %io::Error::from_raw_os_error(code), "does not answer as it should");
            } else if code == 0 && last != 0 {
                tracing::info!(origin = self.name, "answers again");
            }
        }
        result
    }
}

/// Whether a part of a key can be the name of a file.
fn is_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && name.len() <= NAME_BYTES_MAX && !name.contains(['/', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One object; only requests by its name get its tag, as with s3s-fs.
    struct Reticent;

    fn object(tag: Option<&str>) -> Object {
        Object { size: 9, tag: tag.map(str::to_owned), ..Object::default() }
    }

    impl Objects for Reticent {
        fn object(&self, _: &str) -> io::Result<Object> {
            Ok(object(Some("\"tag\"")))
        }

        fn list(&self, _: &str) -> io::Result<Vec<(String, Found)>> {
            Ok(vec![("f".to_owned(), Found::Object(object(None)))])
        }

        fn has_below(&self, _: &str) -> io::Result<bool> {
            Ok(true)
        }

        fn read(&self, _: &str, _: &Object, _: u64, _: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
            Ok(9)
        }
    }

    #[test]
    fn a_listing_without_tags_makes_no_other_file_of_one_that_has_a_tag() {
        let store =
            Arc::new(Store::new(Box::new(Reticent), "store", "here", false, Duration::from_secs(600)));
        let root = Store::root(&store);
        let found = || root.lookup("f".as_ref()).unwrap().attributes();
        assert_eq!(root.entries().unwrap().read(0).len(), 3, "and two that every directory has");
        let first = found();
        assert!(first.tag.is_some(), "{first:?}");
        assert_eq!(root.entries().unwrap().read(0).len(), 3);
        assert_eq!(found().inode, first.inode);
    }

    #[test]
    fn memory_is_bounded_and_answers_grow_old() {
        let store = Store::new(Box::new(Reticent), "store", "here", false, Duration::from_secs(60));
        let start = Instant::now();
        let directory = |at: usize| store.remember(at.to_string(), start, &Found::Directory);
        (0..NAMES_MAX + 9).for_each(directory);
        assert_eq!(store.recent().len(), NAMES_MAX);
        let find = |path: &str| store.find(path).unwrap();
        assert_eq!(find("9"), Found::Directory, "it is remembered");
        assert_ne!(find("0"), Found::Directory, "it is asked for");
        let old = start.checked_sub(store.age_max).unwrap();
        store.remember("9".to_owned(), old, &Found::Directory);
        assert_ne!(find("9"), Found::Directory, "it is too old");
    }
}
