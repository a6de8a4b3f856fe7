//! An origin, whatever it is.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::{Attributes, Directory, Look, Node, OriginError, Place, Store};

/// Where files come from.
#[derive(Debug)]
pub enum Origin {
    /// A directory of this machine.
    Directory(Directory),
    /// An object store.
    Store(Arc<Store>),
}

impl Origin {
    /// Opens what is there, and makes sure that it answers.
    ///
    /// # Errors
    /// [`OriginError`] in one line.
    pub fn open(place: &Place) -> Result<Self, OriginError> {
        Ok(match place {
            Place::Directory(path) => Self::Directory(Directory::open(path)?),
            Place::Store(address, options) => Self::Store(Arc::new(Store::open(address, options)?)),
        })
    }

    /// See [`Directory::avoiding_mounts`]. A store has no mounts in it.
    #[must_use]
    pub fn avoiding_mounts(self) -> Self {
        match self {
            Self::Directory(directory) => Self::Directory(directory.avoiding_mounts()),
            store => store,
        }
    }

    /// Where it is: a path, or what looks like one.
    pub fn path(&self) -> &Path {
        match self {
            Self::Directory(directory) => directory.path(),
            Self::Store(store) => Path::new(store.name()),
        }
    }

    /// The directory at the top.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn root(&self) -> io::Result<Node> {
        Ok(match self {
            Self::Directory(directory) => Node::Local(directory.root()?),
            Self::Store(store) => Node::Stored(Store::root(store)),
        })
    }

    /// Judges attributes that were just read.
    pub fn look(&self, attributes: &Attributes) -> Look {
        match self {
            Self::Directory(directory) => directory.look(attributes),
            Self::Store(store) => store.look(attributes),
        }
    }

    /// The same value for all users of one object store, and another for every other store.
    pub fn identity(&self) -> Option<[u8; 16]> {
        match self {
            Self::Directory(_) => None,
            Self::Store(store) => Some(store.identity()),
        }
    }
}
