//! What programs say about their own blocks, through attributes and ioctl on the mount.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use fuser::Request;
use pantler_steward::{HintError, OwnerId, PolicyName};

use crate::content::Content;
use crate::core::Core;
use crate::inodes::Inode;

mod call;
pub use call::{Call, CallError};

/// Hints that a user gave for all its owners.
#[derive(Default)]
pub(crate) struct Wishes {
    defaults: Mutex<HashMap<u32, Defaults>>,
}

/// The owner that a hint is about.
pub(crate) enum Meant {
    Owner(OwnerId),
    /// All owners of a user, present and future.
    User(u32),
}

/// Files a user may give a default priority for.
const DEFAULT_FILES_MAX: usize = 4096;
/// Priorities a user may give a default policy for.
const DEFAULT_POLICIES_MAX: usize = 64;

#[derive(Default, Clone)]
struct Defaults {
    policies: Vec<(i32, PolicyName)>,
    /// Priorities by number of the inode's content in the origin.
    files: Vec<(Weak<Content>, i32)>,
}

/// The prefix of attributes that are not stored but said.
const OURS: &str = "user.pantler.";
/// The prefix of attributes that only root sees.
const TRUSTED: &str = "trusted.";

impl Wishes {
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Defaults>> {
        self.defaults.lock().expect("wishes are in order")
    }

    /// Tells the steward a new owner's wishes, if its user has any.
    pub(crate) fn apply_defaults(&self, core: &Core, uid: u32, owner: OwnerId) {
        let defaults = self.lock().get(&uid).cloned();
        let Some(defaults) = defaults else { return };
        for (priority, policy) in defaults.policies {
            // Bounds hold for defaults as for anything else; a wish past them has no effect.
            let _ = core.set_policy(owner, priority, policy);
        }
        for (content, priority) in defaults.files {
            if let Some(content) = content.upgrade() {
                let _ = core.set_priority(owner, &content, priority);
            }
        }
    }

    pub(crate) fn add_policy(&self, uid: u32, priority: i32, policy: PolicyName) -> Result<(), HintError> {
        let mut all = self.lock();
        let policies = &mut all.entry(uid).or_default().policies;
        policies.retain(|&(other, _)| other != priority);
        if policies.len() >= DEFAULT_POLICIES_MAX {
            return Err(HintError::TooManyPriorities { limit: DEFAULT_POLICIES_MAX as u32 });
        }
        policies.push((priority, policy));
        Ok(())
    }

    pub(crate) fn add_priority(
        &self,
        uid: u32,
        content: &Arc<Content>,
        priority: i32,
    ) -> Result<(), HintError> {
        let mut all = self.lock();
        let files = &mut all.entry(uid).or_default().files;
        files.retain(|(other, _)| other.upgrade().is_some_and(|other| !Arc::ptr_eq(&other, content)));
        if files.len() >= DEFAULT_FILES_MAX {
            return Err(HintError::TooManyFiles { limit: DEFAULT_FILES_MAX as u32 });
        }
        files.push((Arc::downgrade(content), priority));
        Ok(())
    }

    fn remove_policy(&self, uid: u32, priority: i32) {
        let mut all = self.lock();
        if let Some(defaults) = all.get_mut(&uid) {
            defaults.policies.retain(|&(other, _)| other != priority);
        }
    }

    fn remove_priority(&self, uid: u32, content: &Arc<Content>) {
        let mut all = self.lock();
        if let Some(defaults) = all.get_mut(&uid) {
            let is_other = |other: Arc<Content>| !Arc::ptr_eq(&other, content);
            defaults.files.retain(|(other, _)| other.upgrade().is_some_and(is_other));
        }
    }

    pub(crate) fn clear(&self, uid: u32) {
        self.lock().remove(&uid);
    }

    pub(crate) fn policy(&self, uid: u32, priority: i32) -> Option<PolicyName> {
        let all = self.lock();
        all.get(&uid)?.policies.iter().find(|&&(p, _)| p == priority).map(|&(_, policy)| policy)
    }

    pub(crate) fn priority(&self, uid: u32, content: &Arc<Content>) -> Option<i32> {
        let all = self.lock();
        let mut files = all.get(&uid)?.files.iter();
        files.find_map(|(other, p)| Arc::ptr_eq(&other.upgrade()?, content).then_some(*p))
    }
}

impl Core {
    pub(crate) fn set_policy(
        &self,
        owner: OwnerId,
        priority: i32,
        policy: PolicyName,
    ) -> Result<(), HintError> {
        self.cache().with_steward(|steward| steward.set_policy(owner, priority, policy))
    }

    pub(crate) fn set_priority(
        &self,
        owner: OwnerId,
        content: &Content,
        priority: i32,
    ) -> Result<(), HintError> {
        self.cache().with_steward(|steward| steward.set_priority(owner, content.file(), priority))
    }

    /// The value of an attribute: ours are answered here, the others are the origin's.
    pub(crate) fn xattr(&self, request: &Request, number: u64, name: &OsStr) -> io::Result<Vec<u8>> {
        let inode = self.inodes.get(number)?;
        match ours(name) {
            Some(word) => self.say(request, &inode, word),
            None => {
                let _acting = self.act(request, 0)?;
                inode.node.xattr(name)
            }
        }
    }

    pub(crate) fn xattr_names(&self, request: &Request, number: u64) -> io::Result<Vec<u8>> {
        let inode = self.inodes.get(number)?;
        let names = {
            let _acting = self.act(request, 0)?;
            inode.node.xattr_names()?
        };
        // One of ours that was stored there behind the mount is not shown: here the name means
        // something else. Those of root are listed for us, whichever user we act for: the privilege
        // to see them is not bound to the user for file operations.
        let is_trusted = |name: &&[u8]| request.uid() != 0 && name.starts_with(TRUSTED.as_bytes());
        let is_shown = |name: &&[u8]| !name.starts_with(OURS.as_bytes()) && !is_trusted(name);
        let shown = names.split_inclusive(|&byte| byte == 0).filter(is_shown);
        Ok(shown.flatten().copied().collect())
    }

    pub(crate) fn set_xattr(
        &self,
        request: &Request,
        number: u64,
        name: &OsStr,
        value: &[u8],
        flags: u32,
    ) -> io::Result<()> {
        let inode = self.inodes.get(number)?;
        match ours(name) {
            Some(word) => self.hear(request, &inode, word, Some(value)),
            None => self.change_attribute(request, &inode, |inode| inode.node.set_xattr(name, value, flags)),
        }
    }

    pub(crate) fn remove_xattr(&self, request: &Request, number: u64, name: &OsStr) -> io::Result<()> {
        let inode = self.inodes.get(number)?;
        match ours(name) {
            Some(word) => self.hear(request, &inode, word, None),
            None => self.change_attribute(request, &inode, |inode| inode.node.remove_xattr(name)),
        }
    }

    fn change_attribute(
        &self,
        request: &Request,
        inode: &Inode,
        change: impl FnOnce(&Inode) -> io::Result<()>,
    ) -> io::Result<()> {
        self.may_change()?;
        let change = || {
            let _acting = self.act(request, 0)?;
            change(inode)
        };
        match inode.content() {
            Ok(content) => content.change(&self.shelf, || inode.node.attributes(), change, |_, _, _, _| ()),
            Err(_) => change(),
        }
    }

    fn say(&self, request: &Request, inode: &Inode, word: &str) -> io::Result<Vec<u8>> {
        let content = inode.content().map_err(|_| io::Error::from_raw_os_error(libc::ENODATA))?;
        let owner = self.owner(request);
        let file = content.file();
        let text = match word {
            "priority" => self.cache().with_steward(|steward| steward.priority(owner, file)).to_string(),
            "policy" => {
                let policy = self.cache().with_steward(|s| s.policy(owner, s.priority(owner, file)));
                policy.to_string()
            }
            "control" => {
                let known = self.cache().with_steward(|steward| steward.owner(owner));
                let word = match known {
                    Some(stat) if stat.revoked => "revoked",
                    Some(stat) if stat.in_control => "yes",
                    _ => "no",
                };
                word.to_owned()
            }
            "stat" => {
                let blocks = content.size().div_ceil(self.cache().block_bytes() as u64);
                let cached = self.cache().with_steward(|steward| steward.cached(file).count());
                format!("cached {cached} of {blocks} blocks of {} bytes", self.cache().block_bytes())
            }
            _ => return Err(io::Error::from_raw_os_error(libc::ENODATA)),
        };
        Ok(text.into_bytes())
    }

    /// An attribute was set, or removed if there is no value. Attributes are mostly set by a
    /// command that ends at once, so they speak for its user, if not for its run.
    fn hear(&self, request: &Request, inode: &Inode, word: &str, value: Option<&[u8]>) -> io::Result<()> {
        let invalid = || io::Error::from_raw_os_error(libc::EINVAL);
        let content = inode.content()?;
        let owner = self.owner(request);
        let meant = if self.runs.holds(owner) { Meant::Owner(owner) } else { Meant::User(request.uid()) };
        let text = match value {
            Some(value) => Some(std::str::from_utf8(value).map_err(|_| invalid())?.trim()),
            None => None,
        };
        let result = match word {
            "priority" => {
                let priority = text.map(str::parse).transpose().map_err(|_| invalid())?;
                if priority.is_some_and(|priority| !call::PRIORITIES.contains(&priority)) {
                    return Err(invalid());
                }
                self.wish_priority(meant, content, priority)
            }
            "policy" => {
                let policy = text.map(str::parse).transpose().map_err(|_| invalid())?;
                let priority = self.cache().with_steward(|s| s.priority(owner, content.file()));
                self.wish_policy(meant, priority, policy)
            }
            _ => return Err(io::Error::from_raw_os_error(libc::EPERM)),
        };
        result.map_err(refused)
    }

    /// Sets the priority of a file, or clears it.
    fn wish_priority(
        &self,
        meant: Meant,
        content: &Arc<Content>,
        priority: Option<i32>,
    ) -> Result<(), HintError> {
        let value = priority.unwrap_or(0);
        let uid = match meant {
            Meant::Owner(owner) => return self.set_priority(owner, content, value),
            Meant::User(uid) => uid,
        };
        match priority {
            Some(priority) => self.wishes.add_priority(uid, content, priority)?,
            None => self.wishes.remove_priority(uid, content),
        }
        for owner in self.owners.of_user(uid) {
            // An owner over a bound of its own keeps what it has; the others follow.
            let _ = self.set_priority(owner, content, value);
        }
        Ok(())
    }

    /// Sets the policy of a priority, or clears it.
    fn wish_policy(&self, meant: Meant, priority: i32, policy: Option<PolicyName>) -> Result<(), HintError> {
        let value = policy.unwrap_or_default();
        let uid = match meant {
            Meant::Owner(owner) => return self.set_policy(owner, priority, value),
            Meant::User(uid) => uid,
        };
        match policy {
            Some(policy) => self.wishes.add_policy(uid, priority, policy)?,
            None => self.wishes.remove_policy(uid, priority),
        }
        for owner in self.owners.of_user(uid) {
            let _ = self.set_policy(owner, priority, value);
        }
        Ok(())
    }

    /// The calls that are about no file, if `call` is one.
    fn call_about_lists(&self, owner: OwnerId, call: &Call) -> Option<io::Result<Vec<u8>>> {
        let done = match *call {
            Call::FileListStart { files } => self.start_file_list(owner, files).map(|()| 0),
            Call::FileListEnd => self.end_file_list(owner),
            Call::ForgetList => {
                self.forget_list(owner);
                Ok(0)
            }
            _ => return None,
        };
        Some(done.map(|count| call.clone().answer(count.into())))
    }

    /// A call on an open directory: those that are about no file, and the question what of it is
    /// cached, by which a program finds out what kind of file system it looks at. The others are
    /// unknown there.
    pub(crate) fn ioctl_directory(
        &self,
        request: &Request,
        command: u32,
        data: &[u8],
    ) -> io::Result<Vec<u8>> {
        let unknown = || io::Error::from_raw_os_error(libc::ENOTTY);
        let call = Call::decode(command, data).map_err(|error| match error {
            CallError::Value => io::Error::from_raw_os_error(libc::EINVAL),
            CallError::Unknown | CallError::Reserved => unknown(),
        })?;
        if let Call::Held { .. } = call {
            return Ok(call.answer(0));
        }
        self.call_about_lists(self.owner(request), &call).unwrap_or_else(|| Err(unknown()))
    }

    /// One of the papers' calls on an open file. Unknown ones are not ours: `ENOTTY`.
    pub(crate) fn ioctl(
        &self,
        request: &Request,
        handle: u64,
        command: u32,
        data: &[u8],
    ) -> io::Result<Vec<u8>> {
        let call = Call::decode(command, data).map_err(|error| match error {
            CallError::Unknown => io::Error::from_raw_os_error(libc::ENOTTY),
            CallError::Reserved => io::Error::from_raw_os_error(libc::EOPNOTSUPP),
            CallError::Value => io::Error::from_raw_os_error(libc::EINVAL),
        })?;
        let owner = self.owner(request);
        if let Some(answer) = self.call_about_lists(owner, &call) {
            return answer;
        }
        let handle = self.files.get(handle)?;
        let file = handle.content.file();
        match call {
            Call::SetPriority { priority } => {
                self.set_priority(owner, &handle.content, priority).map_err(refused)?;
                Ok(call.answer(0))
            }
            Call::GetPriority => {
                let priority = self.cache().with_steward(|steward| steward.priority(owner, file));
                Ok(call.answer(i64::from(priority)))
            }
            Call::SetPolicy { priority, policy } => {
                self.set_policy(owner, priority, policy).map_err(refused)?;
                Ok(call.answer(0))
            }
            Call::GetPolicy { priority } => {
                let policy = self.cache().with_steward(|steward| steward.policy(owner, priority));
                Ok(call.answer(call::policy_number(policy)))
            }
            Call::SetTemporaryPriority { first, last, priority } => {
                let marked = self
                    .cache()
                    .with_steward(|steward| {
                        steward.set_temporary_priority(owner, file, first, last, priority)
                    })
                    .map_err(refused)?;
                Ok(call.answer(marked as i64))
            }
            Call::BlockList { ref ranges, append } => {
                self.block_list(request, handle.number, &handle.file, ranges, append)?;
                Ok(call.answer(0))
            }
            Call::Held { start, end } => {
                let held = self.cache().held(file, start, end.min(handle.content.size()));
                Ok(call.answer(held as i64))
            }
            // Answered above, without an open file.
            Call::FileListStart { .. } | Call::FileListEnd | Call::ForgetList => Ok(Vec::new()),
        }
    }
}

/// The word after our prefix.
fn ours(name: &OsStr) -> Option<&str> {
    name.to_str()?.strip_prefix(OURS)
}

/// A hint over a bound (C6) or out of range.
fn refused(error: HintError) -> io::Error {
    tracing::debug!(%error, "hint refused");
    io::Error::from_raw_os_error(libc::ENOSPC)
}
