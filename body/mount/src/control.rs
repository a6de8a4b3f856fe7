//! What programs say about their own blocks, through attributes and ioctl on the mount.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;

use fuser::Request;
use pantler_control::{ControlError, Hint, HintAnswer};
use pantler_origin::Node;
use pantler_steward::{OwnerId, PolicyName};
use rustix::io::Errno;

use crate::core::Core;
use crate::inodes::Inode;
use crate::lists::Listing;

mod call;
pub use call::{Call, CallError};

/// The prefix of attributes that are not stored but said.
const OURS: &str = "user.pantler.";
/// The prefix of attributes that only root sees.
const TRUSTED: &str = "trusted.";

impl Core {
    /// The value of an attribute: ours are answered here, the others are the origin's.
    pub(crate) fn xattr(&self, request: &Request, number: u64, name: &OsStr) -> io::Result<Vec<u8>> {
        let inode = self.inodes.get(number)?;
        match ours(name) {
            Some(word) => self.say(request, &inode, word),
            None => {
                let node = inode.node()?;
                let _acting = self.act(request, 0)?;
                node.xattr(name)
            }
        }
    }

    pub(crate) fn xattr_names(&self, request: &Request, number: u64) -> io::Result<Vec<u8>> {
        let inode = self.inodes.get(number)?;
        let names = {
            let node = inode.node()?;
            let _acting = self.act(request, 0)?;
            node.xattr_names()?
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
            None => {
                self.change_attribute(request, &inode, |node| node.local()?.set_xattr(name, value, flags))
            }
        }
    }

    pub(crate) fn remove_xattr(&self, request: &Request, number: u64, name: &OsStr) -> io::Result<()> {
        let inode = self.inodes.get(number)?;
        match ours(name) {
            Some(word) => self.hear(request, &inode, word, None),
            None => self.change_attribute(request, &inode, |node| node.local()?.remove_xattr(name)),
        }
    }

    fn change_attribute(
        &self,
        request: &Request,
        inode: &Inode,
        change: impl FnOnce(&Node) -> io::Result<()>,
    ) -> io::Result<()> {
        self.may_change()?;
        let node = inode.node()?;
        let change = || {
            let _acting = self.act(request, 0)?;
            change(&node)
        };
        match inode.content() {
            Ok(content) => content.change(&self.shelf, || node.attributes(), change, |_, _, _, _| ()),
            Err(_) => change(),
        }
    }

    fn say(&self, request: &Request, inode: &Inode, word: &str) -> io::Result<Vec<u8>> {
        let content = inode.content().map_err(|_| Errno::NODATA)?;
        let owner = self.owner(request);
        let file = content.file();
        let text = match word {
            "priority" => self.cache().with_steward(|steward| steward.priority(owner, file)).to_string(),
            "policy" => self.cache().with_steward(|s| s.policy(owner, s.priority(owner, file))).to_string(),
            "control" => match self.cache().with_steward(|steward| steward.owner(owner)) {
                Some(stat) if stat.revoked => "revoked".to_owned(),
                Some(stat) if stat.in_control => "yes".to_owned(),
                _ => "no".to_owned(),
            },
            "stat" => {
                let blocks = content.size().div_ceil(self.cache().block_bytes() as u64);
                let cached = self.cache().with_steward(|steward| steward.cached(file).count());
                format!("cached {cached} of {blocks} blocks of {} bytes", self.cache().block_bytes())
            }
            _ => return Err(Errno::NODATA.into()),
        };
        Ok(text.into_bytes())
    }

    /// An attribute was set, or removed if there is no value. Attributes are mostly set by a
    /// command that ends at once, so they speak for its user, if not for its run.
    fn hear(&self, request: &Request, inode: &Inode, word: &str, value: Option<&[u8]>) -> io::Result<()> {
        let content = inode.content()?;
        let owner = self.owner(request);
        let text = value.map(std::str::from_utf8).transpose().map_err(|_| Errno::INVAL)?.map(str::trim);
        let hint = match word {
            "priority" => {
                let priority = text.map_or(Ok(0), str::parse).map_err(|_| Errno::INVAL)?;
                Hint::SetPriority { path: PathBuf::new(), priority }
            }
            "policy" => {
                let policy = text.map_or(Ok(PolicyName::default()), str::parse).map_err(|_| Errno::INVAL)?;
                let priority = self.cache().with_steward(|s| s.priority(owner, content.file()));
                Hint::SetPolicy { priority, policy }
            }
            _ => return Err(Errno::PERM.into()),
        };
        hint.check().map_err(|_| Errno::INVAL)?;
        let (programs, uid) = (&self.programs, request.uid());
        if programs.runs().holds(owner) {
            return programs.hint_owner(owner, &hint, Some(content)).map(drop).map_err(refused);
        }
        let done = match value {
            Some(_) => programs.hint_user(uid, &hint, Some(content)).map(drop),
            None => programs.take_default_back(uid, &hint, content),
        };
        done.map_err(refused)
    }

    /// The owner that a call is about.
    fn owner_of_call(&self, request: &Request, call: &Call) -> OwnerId {
        // What it said by its ring before comes first.
        self.catch_up();
        let is_list = matches!(call, Call::FileListStart { .. } | Call::BlockList { .. });
        if is_list || call.hint().is_some_and(|hint| hint.is_wish()) {
            return self.programs.owner_apart(request.pid(), request.uid());
        }
        self.owner(request)
    }

    /// The calls that are about no file, if `call` is one.
    fn call_about_lists(&self, owner: OwnerId, call: &Call) -> Option<io::Result<Vec<u8>>> {
        let done = match *call {
            Call::FileListStart { files } => self.programs.lists().start_file_list(owner, files).map(|()| 0),
            Call::FileListEnd => self.programs.lists().end_file_list(owner),
            Call::ForgetList => {
                self.programs.lists().end(owner);
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
        let call = Call::decode(command, data).map_err(|error| match error {
            CallError::Value => Errno::INVAL,
            CallError::Unknown | CallError::Reserved => Errno::NOTTY,
        })?;
        if let Call::Held { .. } = call {
            return Ok(call.answer(0));
        }
        let answer = self.call_about_lists(self.owner_of_call(request, &call), &call);
        answer.unwrap_or_else(|| Err(Errno::NOTTY.into()))
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
            CallError::Unknown => Errno::NOTTY,
            CallError::Reserved => Errno::OPNOTSUPP,
            CallError::Value => Errno::INVAL,
        })?;
        let owner = self.owner_of_call(request, &call);
        if let Some(answer) = self.call_about_lists(owner, &call) {
            return answer;
        }
        let handle = self.files.get(handle)?;
        let file = handle.content.file();
        if let Some(hint) = call.hint() {
            let answer = self.programs.hint_owner(owner, &hint, Some(&handle.content)).map_err(refused)?;
            let value = match answer {
                HintAnswer::Priority(priority) => i64::from(priority),
                HintAnswer::Policy(policy) => call::policy_number(policy),
                HintAnswer::Marked(count) => count as i64,
                _ => 0,
            };
            return Ok(call.answer(value));
        }
        match call {
            Call::BlockList { ref ranges, append } => {
                let inode = self.inodes.get(handle.number)?;
                let listed = Listing { caller: &self.caller_of(request), inode: &inode, file: &handle.file };
                self.programs.lists().block_list(owner, &listed, ranges, append)?;
                Ok(call.answer(0))
            }
            Call::Held { start, end } => {
                let held = self.cache().cached(file, start, end.min(handle.content.size()));
                Ok(call.answer(held as i64))
            }
            // Answered above.
            _ => Ok(Vec::new()),
        }
    }
}

/// The word after our prefix.
fn ours(name: &OsStr) -> Option<&str> {
    name.to_str()?.strip_prefix(OURS)
}

/// A hint over a bound (C6) or out of range.
fn refused(error: ControlError) -> io::Error {
    tracing::debug!(%error, "hint refused");
    Errno::NOSPC.into()
}
