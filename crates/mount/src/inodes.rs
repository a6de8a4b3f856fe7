//! Inodes that the kernel knows, and contents that outlive them.
//!
//! N1  An inode is in the table as long as the kernel has looked it up more often than forgotten it.
//! N2  It holds a handle on the origin's inode, so the origin cannot give its number to another file meanwhile.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, RwLock};

use pantler_origin::{Attributes, Kind, Node, Time};

use crate::content::{Content, Shelf};

/// The root's number, fixed by the protocol.
pub(crate) const ROOT: u64 = 1;
/// Where numbers for inodes begin whose own number is taken: those of other file systems below the origin.
const FOREIGN_FIRST: u64 = 1 << 63;
/// Contents without cached blocks that are kept, beyond one per live inode.
const IDLE_CONTENTS_MAX: usize = 16_384;

/// One inode.
pub(crate) struct Inode {
    pub(crate) number: u64,
    pub(crate) node: Node,
    /// Device and inode in the origin.
    key: (u64, u64),
    /// For regular files.
    content: Option<Arc<Content>>,
}

impl Inode {
    /// The content of a regular file; `EINVAL` for anything else.
    pub(crate) fn content(&self) -> io::Result<&Arc<Content>> {
        self.content.as_ref().ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))
    }
}

/// All inodes.
pub(crate) struct Inodes {
    /// By number, with the number of times the kernel looked it up.
    table: RwLock<HashMap<u64, (Arc<Inode>, u64)>>,
    /// By device and inode of the origin. Also the lock for coming and going.
    keys: Mutex<Keys>,
    device: u64,
}

/// A file of the origin. Numbers of inodes are used again; the birth tells the file that has one now from the one that had.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FileKey {
    device: u64,
    inode: u64,
    born: Option<Time>,
}

impl From<&Attributes> for FileKey {
    fn from(attributes: &Attributes) -> Self {
        Self { device: attributes.device, inode: attributes.inode, born: attributes.born }
    }
}

#[derive(Default)]
struct Keys {
    /// By device and inode: a live inode keeps its number (N2).
    numbers: HashMap<(u64, u64), u64>,
    contents: HashMap<FileKey, Arc<Content>>,
    foreign: u64,
}

impl Inodes {
    pub(crate) fn new(root: Node) -> io::Result<Self> {
        let attributes = root.attributes()?;
        let key = (attributes.device, attributes.inode);
        let inode = Arc::new(Inode { number: ROOT, node: root, key, content: None });
        let keys = Keys { numbers: HashMap::from([(key, ROOT)]), ..Keys::default() };
        // The root is never forgotten.
        let table = HashMap::from([(ROOT, (inode, 1))]);
        Ok(Self { table: RwLock::new(table), keys: Mutex::new(keys), device: attributes.device })
    }

    /// The inode of that number; `ESTALE` when the kernel should not know it.
    pub(crate) fn get(&self, number: u64) -> io::Result<Arc<Inode>> {
        let table = self.table.read().expect("the table is in order");
        let found = table.get(&number).map(|(inode, _)| Arc::clone(inode));
        found.ok_or_else(|| io::Error::from_raw_os_error(libc::ESTALE))
    }

    /// Counts one lookup of the inode that `node` names, which is new or known.
    pub(crate) fn enter(&self, shelf: &Shelf, node: Node, attributes: &Attributes) -> Arc<Inode> {
        let key = (attributes.device, attributes.inode);
        let mut keys = self.keys.lock().expect("the table is in order");
        let mut table = self.table.write().expect("the table is in order");
        if let Some((inode, lookups)) = keys.numbers.get(&key).and_then(|number| table.get_mut(number)) {
            *lookups += 1;
            return Arc::clone(inode);
        }
        let number = self.number(&mut keys, attributes);
        let is_regular = attributes.kind == Kind::Regular;
        let content = is_regular.then(|| content_of(&mut keys, shelf, attributes.into()));
        let inode = Arc::new(Inode { number, node, key, content });
        keys.numbers.insert(key, number);
        table.insert(number, (Arc::clone(&inode), 1));
        inode
    }

    /// Takes back `count` lookups.
    pub(crate) fn forget(&self, number: u64, count: u64) {
        if number == ROOT {
            return;
        }
        let mut keys = self.keys.lock().expect("the table is in order");
        let mut table = self.table.write().expect("the table is in order");
        let Some((inode, lookups)) = table.get_mut(&number) else { return };
        *lookups = lookups.saturating_sub(count);
        if *lookups == 0 {
            keys.numbers.remove(&inode.key);
            table.remove(&number);
        }
    }

    /// The content of a file of the origin, if there is any.
    pub(crate) fn content(&self, file: FileKey) -> Option<Arc<Content>> {
        self.keys.lock().expect("the table is in order").contents.get(&file).cloned()
    }

    /// The content behind a descriptor that somebody opened, on this mount (whose device is `mounted`) or in the origin.
    pub(crate) fn content_of_opened(&self, file: FileKey, mounted: u64) -> Option<Arc<Content>> {
        if file.device == mounted {
            return self.get(file.inode).ok()?.content().ok().cloned();
        }
        self.content(file)
    }

    /// Live regular files.
    pub(crate) fn files(&self) -> Vec<Arc<Inode>> {
        let table = self.table.read().expect("the table is in order");
        let files = table.values().map(|(inode, _)| inode);
        files.filter(|inode| inode.content.is_some()).cloned().collect()
    }

    /// The number shown for an entry whose inode need not be known.
    pub(crate) fn shown(&self, inode: u64) -> u64 {
        if inode == 0 { FOREIGN_FIRST } else { inode }
    }

    fn number(&self, keys: &mut Keys, attributes: &Attributes) -> u64 {
        let own = attributes.inode;
        if attributes.device == self.device && own > ROOT && own < FOREIGN_FIRST {
            return own;
        }
        keys.foreign += 1;
        FOREIGN_FIRST + keys.foreign
    }
}

fn content_of(keys: &mut Keys, shelf: &Shelf, key: FileKey) -> Arc<Content> {
    if keys.contents.len() > 2 * keys.numbers.len() + IDLE_CONTENTS_MAX {
        let is_cached =
            |content: &Content| shelf.cache.with_steward(|s| s.cached(content.file()).next().is_some());
        keys.contents.retain(|_, content| Arc::strong_count(content) > 1 || is_cached(content));
    }
    Arc::clone(keys.contents.entry(key).or_insert_with(|| Arc::new(Content::new(shelf))))
}
