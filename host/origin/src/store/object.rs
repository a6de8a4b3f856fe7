//! What a store is asked, and what it answers.

use std::io::{self, IoSliceMut};

use crate::Time;
use crate::version::Tag;

/// One version of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Object {
    /// Bytes.
    pub size: u64,
    /// Last change. Of object stores in whole seconds: listings and single answers of one server
    /// differ in the rest.
    pub modified: Time,
    /// The entity tag as the server writes it, where it gives one.
    pub tag: Option<String>,
}

impl Object {
    /// Names this version of what is at `path`.
    pub(crate) fn version(&self, path: &str) -> Tag {
        let (tag, size) = (self.tag.as_deref().map(plain_tag), self.size.to_le_bytes());
        let time = self.modified.seconds.to_le_bytes();
        match tag {
            Some(tag) => name(&[b"tagged", path.as_bytes(), tag.as_bytes(), &size]),
            None => name(&[b"dated", path.as_bytes(), &time, &size]),
        }
    }
}

/// A tag without what only says how it is written.
pub(crate) fn plain_tag(tag: &str) -> &str {
    tag.trim_matches('"')
}

/// A hash over parts that are told apart by their lengths.
pub(crate) fn name(parts: &[&[u8]]) -> Tag {
    let mut hasher = blake3::Hasher::new_derive_key("pantler 2026 version of an object");
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let mut hash = [0; 16];
    hash.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    Tag(hash)
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// An object.
    Object(Object),
    /// What keys of objects begin with.
    Directory,
}

/// The server side of a store. Calls wait for the answer, for a bounded time; paths are relative to
/// the origin, without slashes at their ends. What is not there is `ENOENT`, what is not spoken
/// `EOPNOTSUPP`.
pub(crate) trait Objects: Send + Sync {
    /// The object at `path`.
    fn object(&self, path: &str) -> io::Result<Object>;

    /// What a path stands for. An object hides what is below its name.
    fn find(&self, path: &str) -> io::Result<Found> {
        let missing = match self.object(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => error,
            answer => return answer.map(Found::Object),
        };
        match self.has_below(path) {
            Ok(true) => Ok(Found::Directory),
            Ok(false) => Err(missing),
            // A store that cannot list has no directories.
            Err(refused) if refused.raw_os_error() == Some(libc::EOPNOTSUPP) => Err(missing),
            Err(failed) => Err(failed),
        }
    }

    /// What is at `path` or directly below, by name; everything, in any order.
    fn list(&self, path: &str) -> io::Result<Vec<(String, Found)>>;

    /// How often keys were left out of listings because they are no paths.
    fn left_out(&self) -> u64 {
        0
    }

    /// Whether anything is below `path`.
    fn has_below(&self, path: &str) -> io::Result<bool>;

    /// Fills `buffers` with what is from `offset` on, up to the end of that version.
    ///
    /// # Errors
    /// `ESTALE` when there is another version by now, or none.
    fn read(
        &self,
        path: &str,
        object: &Object,
        offset: u64,
        buffers: &mut [IoSliceMut<'_>],
    ) -> io::Result<usize>;
}
