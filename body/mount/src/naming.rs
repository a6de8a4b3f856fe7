//! Names: looking up, creating, linking, renaming, removing and listing.

use std::ffi::OsStr;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fuser::{FileHandle, Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus, Request};
use pantler_origin::{Attributes, Entry, Kind, Node, OpenMode};

use crate::attributes::file_type;
use crate::core::Core;
use crate::handles::Listing;
use crate::inodes::Inode;

/// An inode that the kernel is about to know.
pub(crate) type Entered = (Arc<Inode>, Attributes);

impl Core {
    pub(crate) fn lookup(&self, request: &Request, parent: u64, name: &OsStr) -> io::Result<Entered> {
        let parent = self.inodes.get(parent)?;
        let directory = parent.node()?;
        let node = {
            let _acting = self.act(request, 0)?;
            directory.lookup(name)?
        };
        self.enter((&parent, name), node, || self.descriptors.take_for_name(request.uid()))
    }

    /// Makes something by name in a directory and enters it.
    pub(crate) fn make(
        &self,
        request: &Request,
        (parent, name): (u64, &OsStr),
        umask: u32,
        make: impl FnOnce(&Node) -> io::Result<Node>,
    ) -> io::Result<Entered> {
        self.may_change()?;
        let parent = self.inodes.get(parent)?;
        let directory = parent.node()?;
        let node = {
            let _acting = self.act(request, umask)?;
            make(&directory)?
        };
        self.enter((&parent, name), node, || self.descriptors.take_for_name(request.uid()))
    }

    pub(crate) fn create(
        &self,
        request: &Request,
        parent: u64,
        name: &OsStr,
        (permissions, umask): (u32, u32),
        flags: i32,
    ) -> io::Result<(Entered, FileHandle)> {
        self.may_change()?;
        let parent = self.inodes.get(parent)?;
        let mode = OpenMode::from_flags(flags);
        let is_exclusive = flags & libc::O_EXCL != 0;
        let directory = parent.node()?;
        let create = || {
            let _acting = self.act(request, umask)?;
            directory.create(name, permissions, mode, is_exclusive)
        };
        // The loser of a race for the name opens, and perhaps cuts, a file that is cached already.
        // Then the cut looks like a change behind the mount, which costs its blocks and nothing
        // else.
        // First, because what is made cannot be unmade for want of a descriptor.
        let charge = || self.descriptors.take(request.uid());
        let (of_file, mut of_inode) = (charge()?, Some(charge()?));
        let (node, file) = create()?;
        let (inode, attributes) = self.enter((&parent, name), node, || of_inode.take())?;
        let paid = || Ok(of_inode.take().expect("an inode that has a descriptor needs no second"));
        let charges = (of_file, inode.open(paid)?.1);
        let handle = self.keep((inode.number, Arc::clone(inode.content()?)), file, flags, None, charges);
        Ok(((inode, attributes), handle))
    }

    pub(crate) fn link(
        &self,
        request: &Request,
        number: u64,
        parent: u64,
        name: &OsStr,
    ) -> io::Result<Entered> {
        self.may_change()?;
        let (inode, parent) = (self.inodes.get(number)?, self.inodes.get(parent)?);
        let (node, directory) = (inode.node()?, parent.node()?);
        let link = || {
            let _acting = self.act(request, 0)?;
            node.local()?.link(directory.local()?, name)
        };
        match inode.content() {
            Ok(content) => {
                content.change(&self.shelf, || node.attributes(), link, |_, _, _, _| ())?;
            }
            Err(_) => link()?,
        }
        let charge = || self.descriptors.take_for_name(request.uid());
        self.enter((&parent, name), directory.lookup(name)?, charge)
    }

    pub(crate) fn unlink(&self, request: &Request, parent: u64, name: &OsStr) -> io::Result<()> {
        self.may_change()?;
        let directory = self.inodes.get(parent)?.node()?;
        self.change_named(&directory, name, || {
            let _acting = self.act(request, 0)?;
            directory.local()?.unlink(name)
        })
    }

    pub(crate) fn remove_directory(&self, request: &Request, parent: u64, name: &OsStr) -> io::Result<()> {
        self.may_change()?;
        let directory = self.inodes.get(parent)?.node()?;
        let _acting = self.act(request, 0)?;
        directory.local()?.remove_directory(name)
    }

    pub(crate) fn rename(
        &self,
        request: &Request,
        (parent, name): (u64, &OsStr),
        (to_parent, to_name): (u64, &OsStr),
        flags: u32,
    ) -> io::Result<()> {
        self.may_change()?;
        let (parent, to_parent) = (self.inodes.get(parent)?, self.inodes.get(to_parent)?);
        // Only the file that moves is noted: one that is replaced loses a name, which looks like a
        // change behind the mount if it has another, and costs its blocks.
        let (from, to) = (parent.node()?, to_parent.node()?);
        self.change_named(&from, name, || {
            let _acting = self.act(request, 0)?;
            from.local()?.rename(name, to.local()?, to_name, flags)
        })?;
        // Both, as they may have been exchanged.
        for (directory, node, name) in [(&parent, from, name), (&to_parent, to, to_name)] {
            if let Ok(attributes) = node.lookup(name).and_then(|node| node.attributes()) {
                self.inodes.name(&attributes, directory, name);
            }
        }
        Ok(())
    }

    pub(crate) fn open_directory(&self, request: &Request, number: u64) -> io::Result<FileHandle> {
        let directory = self.inodes.get(number)?;
        let node = directory.node()?;
        let entries = {
            let _acting = self.act(request, 0)?;
            node.entries()?
        };
        let charge = self.descriptors.take_for_name(request.uid());
        let entries = charge.is_some().then(|| Mutex::new(entries));
        Ok(FileHandle(self.listings.insert(Listing { directory, entries, charge })))
    }

    pub(crate) fn list(&self, handle: u64, from: u64, reply: &mut ReplyDirectory) -> io::Result<()> {
        self.each_entry(handle, from, |entry| {
            let kind = file_type(entry.kind.unwrap_or_default());
            reply.add(INodeNo(self.inodes.shown(entry.inode)), entry.next, kind, &entry.name)
        })
    }

    /// Lists with attributes: each entry counts as looked up. That is done with the host's own
    /// rights, because a user that may list a directory sees its names, and the kernel forbids to
    /// use a name without the right to search.
    pub(crate) fn list_plus(
        &self,
        request: &Request,
        number: u64,
        handle: u64,
        from: u64,
        reply: &mut ReplyDirectoryPlus,
    ) -> io::Result<()> {
        let directory = self.inodes.get(number)?;
        let node = directory.node()?;
        let (mut count, mut refused) = (0, None);
        self.each_entry(handle, from, |entry| {
            count += 1;
            let mut add_unknown = |number| {
                let attributes = Attributes { kind: Kind::Directory, ..Attributes::default() };
                let shown = self.shown(&attributes, number);
                reply.add(shown.ino, entry.next, &entry.name, &Duration::ZERO, &shown, Generation(0))
            };
            if entry.name == "." || entry.name == ".." {
                // The kernel does not count these as looked up, but wants a number to show.
                return add_unknown(self.inodes.shown(entry.inode));
            }
            let charge = || self.descriptors.take_for_name(request.uid());
            let found = (&directory, entry.name.as_os_str());
            let entered = node.lookup(&entry.name).and_then(|node| self.enter(found, node, charge));
            let (inode, attributes) = match entered {
                Ok(entered) => entered,
                // No descriptor: the listing ends before this name, and the next call begins with
                // it.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENFILE | libc::EMFILE)) => {
                    refused = (count == 1).then_some(error);
                    return true;
                }
                // A mount that is not entered is listed. The kernel believes none of its
                // attributes, so that it looks the name up before it uses it, and is refused.
                Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
                    return add_unknown(self.inodes.unused());
                }
                // Entries that went away since they were listed are left out.
                Err(_) => return false,
            };
            let shown = self.shown(&attributes, inode.number);
            let is_full = reply.add(shown.ino, entry.next, &entry.name, &self.ttl(), &shown, Generation(0));
            if is_full {
                self.inodes.forget(inode.number, 1);
            }
            is_full
        })?;
        refused.map_or(Ok(()), Err)
    }

    /// Calls `add` with entries from the point `from` on until it says that there is no more room.
    fn each_entry(&self, handle: u64, mut from: u64, mut add: impl FnMut(&Entry) -> bool) -> io::Result<()> {
        self.listings.get(handle)?.look(|entries| {
            loop {
                let batch = entries.read(from)?;
                if batch.is_empty() {
                    return Ok(());
                }
                for entry in &batch {
                    if add(entry) {
                        return Ok(());
                    }
                    from = entry.next;
                }
            }
        })
    }
}
