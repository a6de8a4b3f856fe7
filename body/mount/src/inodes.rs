//! Inodes that the kernel knows, and contents that outlive them.
//!
//! N1  An inode is in the table as long as the kernel has looked it up more often than forgotten
//!     it.
//! N2  It holds a descriptor of the origin's inode, so that the origin cannot give its number to
//!     another file meanwhile; or it is *named*: known by how it was found last, and looked up
//!     there when it is needed. Then what is found counts only if it is the same file, by device,
//!     number and birth; else it is stale, and the kernel looks it up anew.
//! N3  A file that is open holds one, for as long as it is open.
//! N4  Numbers are the origin's, so a file that is forgotten comes back under the same number. What
//!     is done about a number that is free is done under the lock for coming and going.
//!
//! Why so: docs/decisions/0109-names-without-descriptors.md.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, RwLock, Weak};

use pantler_origin::{Attributes, Kind, Node, Time};
use rustix::io::Errno;

use crate::content::{Content, Shelf};
use crate::descriptors::Charge;

/// The root's number, fixed by the protocol.
pub(crate) const ROOT: u64 = 1;
/// Where numbers begin for inodes with a number that is taken: those of other file systems below
/// the origin.
const FOREIGN_FIRST: u64 = 1 << 63;
/// Contents without cached blocks and defaults of users that are kept, beyond one per
/// live inode.
const IDLE_CONTENTS_MAX: usize = if cfg!(test) { 16 } else { 16_384 };

/// Directories without a descriptor that are opened one after the other to find a name.
const NAMED_IN_A_ROW_MAX: usize = 256;

pub(crate) struct Inode {
    pub(crate) number: u64,
    key: FileKey,
    /// Its descriptor, unless it is named.
    held: Option<Arc<Node>>,
    /// The user that made it known is charged for it. The root is charged to none.
    #[expect(dead_code, reason = "its end is what counts")]
    charge: Option<Charge>,
    named: Mutex<Named>,
    /// For regular files.
    content: Option<Arc<Content>>,
}

/// How to come by an inode that is named (N2).
#[derive(Default)]
struct Named {
    /// The directory where it was found last, and its name there.
    found: Option<(Arc<Inode>, OsString)>,
    /// The descriptor of an open file (N3).
    open: Weak<HeldNode>,
}

/// A descriptor that open files hold.
pub(crate) struct HeldNode {
    node: Arc<Node>,
    #[expect(dead_code, reason = "its end is what counts")]
    charge: Charge,
}

impl Inode {
    /// The inode of the origin. With the rights of the host: not while acting for a user.
    ///
    /// # Errors
    /// `ESTALE` for one that is named and is not there any more.
    pub(crate) fn node(&self) -> io::Result<Arc<Node>> {
        let (mut names, mut next) = (Vec::new(), None::<Arc<Inode>>);
        let mut node = loop {
            let at = next.as_deref().unwrap_or(self);
            if let Some(node) = at.at_hand() {
                break node;
            }
            if names.len() == NAMED_IN_A_ROW_MAX {
                return Err(Errno::NFILE.into());
            }
            let (directory, name) = at.named().found.clone().ok_or(Errno::STALE)?;
            names.push((at.key, name));
            next = Some(directory);
        };
        for (key, name) in names.into_iter().rev() {
            let found = node.lookup(&name).map_err(|error| match Errno::from_io_error(&error) {
                Some(Errno::NOENT | Errno::NOTDIR) => Errno::STALE.into(),
                _ => error,
            })?;
            if FileKey::from(&found.attributes()?) != key {
                return Err(Errno::STALE.into());
            }
            node = Arc::new(found);
        }
        Ok(node)
    }

    /// What the file is like now.
    pub(crate) fn attributes(&self) -> io::Result<Attributes> {
        self.node()?.attributes()
    }

    /// The inode of the origin for a file that is opened. What comes with it is to be kept for as
    /// long (N3); `charge` answers for it.
    pub(crate) fn open(
        &self,
        charge: impl FnOnce() -> io::Result<Charge>,
    ) -> io::Result<(Arc<Node>, Option<Arc<HeldNode>>)> {
        let open = self.named().open.upgrade();
        match (&self.held, open) {
            (Some(node), _) => Ok((Arc::clone(node), None)),
            (None, Some(open)) => Ok((Arc::clone(&open.node), Some(open))),
            (None, None) => {
                let (charge, node) = (charge()?, self.node()?);
                let open = Arc::new(HeldNode { node: Arc::clone(&node), charge });
                self.named().open = Arc::downgrade(&open);
                Ok((node, Some(open)))
            }
        }
    }

    fn at_hand(&self) -> Option<Arc<Node>> {
        let open = || Some(Arc::clone(&self.named().open.upgrade()?.node));
        self.held.clone().or_else(open)
    }

    /// It was found there last, if it needs a name.
    fn take_name(&self, directory: &Arc<Inode>, name: &OsStr) {
        if self.held.is_none() {
            self.named().found = Some((Arc::clone(directory), name.to_owned()));
        }
    }

    fn named(&self) -> MutexGuard<'_, Named> {
        self.named.lock().expect("nothing panics under it")
    }

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
    /// Whether numbers of the origin are hashes, so that any may be taken that is free.
    are_hashes: bool,
}

/// A file of the origin. Numbers of inodes are used again; the birth tells the file that has one
/// now from the one that had.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FileKey {
    device: u64,
    inode: u64,
    born: Option<Time>,
}

impl FileKey {
    fn id(&self) -> (u64, u64) {
        (self.device, self.inode)
    }
}

impl From<&Attributes> for FileKey {
    fn from(attributes: &Attributes) -> Self {
        Self { device: attributes.device, inode: attributes.inode, born: attributes.born }
    }
}

#[derive(Default)]
struct Keys {
    /// By device and inode: a live inode keeps its number, as long as it is the same file (N2).
    numbers: HashMap<(u64, u64), u64>,
    contents: HashMap<FileKey, Arc<Content>>,
    /// Contents of them that a user's default keeps, when last counted.
    with_defaults: usize,
    foreign: u64,
}

impl Inodes {
    pub(crate) fn new(root: Node, are_hashes: bool) -> io::Result<Self> {
        let attributes = root.attributes()?;
        let (key, held) = (FileKey::from(&attributes), Some(Arc::new(root)));
        let (content, charge, named) = Default::default();
        let inode = Arc::new(Inode { number: ROOT, key, held, charge, named, content });
        let keys = Keys { numbers: HashMap::from([(key.id(), ROOT)]), ..Keys::default() };
        // The root is never forgotten.
        let table = HashMap::from([(ROOT, (inode, 1))]);
        let device = attributes.device;
        Ok(Self { table: RwLock::new(table), keys: Mutex::new(keys), device, are_hashes })
    }

    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().expect("the table is in order")
    }

    /// The inode of that number; `ESTALE` when the kernel should not know it.
    pub(crate) fn get(&self, number: u64) -> io::Result<Arc<Inode>> {
        let table = self.table.read().expect("the table is in order");
        let found = table.get(&number).map(|(inode, _)| Arc::clone(inode));
        found.ok_or_else(|| Errno::STALE.into())
    }

    /// Counts one lookup of the inode that `node` is, which is new or known. It holds the node if
    /// that costs no descriptor, or `charge` answers with one; else it is named.
    pub(crate) fn enter(
        &self,
        shelf: &Shelf,
        (directory, name): (&Arc<Inode>, &OsStr),
        node: Node,
        attributes: &Attributes,
        charge: impl FnOnce() -> Option<Charge>,
    ) -> Arc<Inode> {
        let key = FileKey::from(attributes);
        let mut keys = self.keys();
        let mut table = self.table.write().expect("the table is in order");
        let known = keys.numbers.get(&key.id()).and_then(|number| table.get_mut(number));
        // N2: the number of one that is named can be another file's by now.
        if let Some((inode, lookups)) = known.filter(|(inode, _)| inode.key == key || inode.held.is_some()) {
            *lookups += 1;
            inode.take_name(directory, name);
            return Arc::clone(inode);
        }
        let has_descriptor = node.local().is_ok();
        let charge = if has_descriptor { charge() } else { None };
        let held = (!has_descriptor || charge.is_some()).then(|| Arc::new(node));
        let number = self.number(&mut keys, attributes, !table.contains_key(&attributes.inode));
        let is_regular = attributes.kind == Kind::Regular;
        let content = is_regular.then(|| content_of(&mut keys, shelf, key));
        let inode = Arc::new(Inode { number, key, held, charge, named: Mutex::default(), content });
        inode.take_name(directory, name);
        keys.numbers.insert(key.id(), number);
        table.insert(number, (Arc::clone(&inode), 1));
        inode
    }

    /// What has these attributes has this name now, if it is known and needs it.
    pub(crate) fn name(&self, attributes: &Attributes, directory: &Arc<Inode>, name: &OsStr) {
        let key = FileKey::from(attributes);
        let number = self.keys().numbers.get(&key.id()).copied();
        let known = number.and_then(|number| self.get(number).ok());
        if let Some(inode) = known.filter(|inode| inode.key == key) {
            inode.take_name(directory, name);
        }
    }

    /// Takes back `count` lookups.
    pub(crate) fn forget(&self, number: u64, count: u64) {
        if number == ROOT {
            return;
        }
        let mut keys = self.keys();
        let mut table = self.table.write().expect("the table is in order");
        let Some((inode, lookups)) = table.get_mut(&number) else { return };
        *lookups = lookups.saturating_sub(count);
        if *lookups == 0 {
            let id = inode.key.id();
            if keys.numbers.get(&id) == Some(&number) {
                keys.numbers.remove(&id);
            }
            table.remove(&number);
        }
    }

    /// Does something if no inode has that number, and before one gets it (N4).
    pub(crate) fn if_free(&self, number: u64, what: impl FnOnce()) {
        let _keys = self.keys();
        if self.get(number).is_err() {
            what();
        }
    }

    /// The content of a file of the origin, if there is any.
    pub(crate) fn content(&self, file: FileKey) -> Option<Arc<Content>> {
        self.keys().contents.get(&file).cloned()
    }

    /// The content behind an opened descriptor, on this mount (its device is `mounted`) or in the
    /// origin.
    pub(crate) fn content_of_opened(&self, file: FileKey, mounted: u64) -> Option<Arc<Content>> {
        if file.device == mounted {
            return self.get(file.inode).ok()?.content().ok().cloned();
        }
        self.content(file)
    }

    /// The live inode behind an opened descriptor, on this mount or in the origin.
    pub(crate) fn of_opened(&self, file: FileKey, mounted: u64) -> Option<Arc<Inode>> {
        if file.device == mounted {
            return self.get(file.inode).ok();
        }
        let number = *self.keys().numbers.get(&(file.device, file.inode))?;
        self.get(number).ok()
    }

    /// Live regular files.
    pub(crate) fn files(&self) -> Vec<Arc<Inode>> {
        let table = self.table.read().expect("the table is in order");
        let files = table.values().map(|(inode, _)| inode);
        files.filter(|inode| inode.content.is_some()).cloned().collect()
    }

    /// The number shown for an entry with an inode that need not be known.
    pub(crate) fn shown(&self, inode: u64) -> u64 {
        if inode == 0 { FOREIGN_FIRST } else { inode }
    }

    /// A number that no inode has or gets: requests about it are answered with `ESTALE`.
    pub(crate) fn unused(&self) -> u64 {
        let mut keys = self.keys();
        keys.foreign += 1;
        FOREIGN_FIRST + keys.foreign
    }

    fn number(&self, keys: &mut Keys, attributes: &Attributes, is_free: bool) -> u64 {
        let own = attributes.inode;
        let is_ours = attributes.device == self.device || self.are_hashes;
        if is_free && is_ours && own > ROOT && own < FOREIGN_FIRST {
            return own;
        }
        keys.foreign += 1;
        FOREIGN_FIRST + keys.foreign
    }
}

fn content_of(keys: &mut Keys, shelf: &Shelf, key: FileKey) -> Arc<Content> {
    if keys.contents.len() > 2 * keys.numbers.len() + IDLE_CONTENTS_MAX + keys.with_defaults {
        forget_idle(keys, shelf);
    }
    Arc::clone(keys.contents.entry(key).or_insert_with(|| Arc::new(Content::new(shelf))))
}

/// Drops unused contents without cached blocks, for which no user has a default (those are
/// bounded by themselves). Hints of single owners end with them.
fn forget_idle(keys: &mut Keys, shelf: &Shelf) {
    let mut gone = HashSet::new();
    keys.with_defaults = 0;
    shelf.cache.with_steward(|steward| {
        keys.contents.retain(|_, content| {
            let has_default = Arc::weak_count(content) > 0;
            keys.with_defaults += usize::from(has_default);
            let is_used = Arc::strong_count(content) > 1 || has_default;
            let is_kept = is_used || steward.cached(content.file()).next().is_some();
            if !is_kept {
                gone.insert(content.file());
            }
            is_kept
        });
        steward.forget_wishes(|file| gone.contains(&file));
    });
    gone.iter().for_each(|file| shelf.unshare(*file));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MountOptions;
    use crate::core::Core;
    use pantler_steward::OwnerId;

    #[test]
    fn what_is_done_about_a_free_number_is_done_before_a_file_gets_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("f"), "x").unwrap();
        let core = Core::new(MountOptions::new(folder.path(), folder.path())).unwrap();
        let root = core.inodes.get(ROOT).unwrap();
        let node = root.node().unwrap().lookup("f".as_ref()).unwrap();
        let (inode, _) = core.enter((&root, "f".as_ref()), node, || None).unwrap();
        core.inodes.if_free(inode.number, || panic!("N4: it is known"));
        core.inodes.forget(inode.number, 1);
        let mut was_done = false;
        core.inodes.if_free(inode.number, || {
            assert!(core.inodes.keys.try_lock().is_err(), "N4: a file may come now");
            was_done = true;
        });
        assert!(was_done);
        core.programs.stop();
    }

    #[test]
    fn hints_for_files_that_are_forgotten_end_and_those_of_users_keep_them() {
        let folder = tempfile::tempdir().unwrap();
        let core = Core::new(MountOptions::new(folder.path(), folder.path())).unwrap();
        let root = core.inodes.get(ROOT).unwrap();
        let owner = OwnerId(7);
        let visit = |name: String| {
            std::fs::write(folder.path().join(&name), "x").unwrap();
            let node = root.node().unwrap().lookup(name.as_ref()).unwrap();
            let (inode, _) =
                core.enter((&root, name.as_ref()), node, || core.descriptors.take_for_name(0)).unwrap();
            let content = Arc::clone(inode.content().unwrap());
            core.inodes.forget(inode.number, 1);
            content
        };
        let of_owner = visit("of-owner".into());
        core.cache().with_steward(|steward| steward.set_priority(owner, of_owner.file(), 3)).unwrap();
        let of_user = visit("of-user".into());
        core.programs.defaults().set_priority(1000, &of_user, Some(4)).unwrap();
        let (owners, users) = (of_owner.file(), of_user.file());
        drop((of_owner, of_user));
        let known = |file| {
            let keys = core.inodes.keys.lock().unwrap();
            keys.contents.values().find(|content| content.file() == file).cloned()
        };
        for number in 0..10 * IDLE_CONTENTS_MAX {
            visit(format!("f{number}"));
        }
        assert_eq!(core.cache().with_steward(|steward| steward.priority(owner, owners)), 0);
        assert!(known(owners).is_none());
        let kept = known(users).expect("a user's default outlives the kernel's interest in the file");
        assert_eq!(core.programs.defaults().priority(1000, &kept), Some(4));
        let count = core.inodes.keys.lock().unwrap().contents.len();
        assert!(count <= 2 * IDLE_CONTENTS_MAX, "{count}");
        // The user takes it back: then it goes as well.
        core.programs.defaults().clear(1000);
        drop(kept);
        (0..10 * IDLE_CONTENTS_MAX).for_each(|number| drop(visit(format!("g{number}"))));
        assert!(known(users).is_none());
        core.programs.stop();
    }
}
