//! Acting with another user's rights on the current thread.

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::sync::OnceLock;

/// The user that asks for an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// File mode mask for what the operation creates.
    pub umask: u32,
}

impl Caller {
    /// The process itself, with its own rights and an empty mode mask.
    pub fn own() -> Self {
        let (uid, gid) = own_ids();
        Self { uid, gid, groups: own_groups().to_vec(), umask: 0 }
    }

    /// Takes on the caller's user, groups and mode mask for file operations of this thread, until
    /// the guard is dropped. A process without privileges keeps its own user and groups: the kernel
    /// let only its own user in.
    ///
    /// # Errors
    /// When the kernel refuses one of them; nothing has changed then.
    pub fn act(&self) -> io::Result<Acting> {
        let mask = set_mask(self.umask)?;
        let mut acting = Acting { mask, identity: false, thread_bound: PhantomData };
        let (uid, gid) = own_ids();
        let is_own = self.uid == uid && self.gid == gid;
        if uid != 0 || (is_own && self.uid == 0) {
            return Ok(acting);
        }
        acting.identity = true;
        set_groups(&self.groups)?;
        set_id(libc::SYS_setfsgid, self.gid)?;
        set_id(libc::SYS_setfsuid, self.uid)?;
        Ok(acting)
    }
}

/// Restores the thread's own rights when dropped. Bound to the thread that made it.
#[must_use = "the rights are given back when this is dropped"]
#[derive(Debug)]
pub struct Acting {
    mask: u32,
    identity: bool,
    thread_bound: PhantomData<*const ()>,
}

impl Drop for Acting {
    fn drop(&mut self) {
        if self.identity {
            let (uid, gid) = own_ids();
            // Going on with a stranger's rights, or a stranger with ours, would be worse than
            // stopping.
            set_id(libc::SYS_setfsuid, uid).expect("a privileged thread may return to its own user");
            set_id(libc::SYS_setfsgid, gid).expect("a privileged thread may return to its own group");
            set_groups(own_groups()).expect("a privileged thread may return to its own groups");
        }
        set_mask(self.mask).expect("the thread has a mask of its own by now");
    }
}

fn own_ids() -> (u32, u32) {
    static IDS: OnceLock<(u32, u32)> = OnceLock::new();
    *IDS.get_or_init(|| (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()))
}

fn own_groups() -> &'static [u32] {
    static GROUPS: OnceLock<Vec<u32>> = OnceLock::new();
    GROUPS.get_or_init(|| {
        let groups = rustix::process::getgroups().unwrap_or_default();
        groups.into_iter().map(|group| group.as_raw()).collect()
    })
}

/// Sets the mode mask of this thread alone, and returns the one before.
fn set_mask(mask: u32) -> io::Result<u32> {
    thread_local! {
        /// Whether this thread has its own mask, and which.
        static OWN: Cell<Option<u32>> = const { Cell::new(None) };
    }
    OWN.with(|own| {
        let before = match own.get() {
            Some(before) => before,
            None => {
                // SAFETY: takes no pointers. It gives this thread its own mask, working and root
                // directory; nothing in this process relies on changing the working directory for
                // all threads.
                if unsafe { libc::unshare(libc::CLONE_FS) } != 0 {
                    return Err(io::Error::last_os_error());
                }
                rustix::process::umask(rustix::fs::Mode::empty());
                give_up_reserves();
                0
            }
        };
        if own.get() != Some(mask) {
            rustix::process::umask(rustix::fs::Mode::from_raw_mode(mask & 0o777));
            own.set(Some(mask));
        }
        Ok(before)
    })
}

/// Gives up, for this thread, the privilege to pass quotas and to use the blocks that a file system
/// keeps for root: changing the user does not take it away, and callers must not get it from us.
/// Without privileges there is nothing to give up.
fn give_up_reserves() {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let Ok(mut own) = capabilities(None) else { return };
    own.effective.remove(CapabilitySet::SYS_RESOURCE);
    // Less is always allowed.
    let _ = set_capabilities(None, own);
}

// The C library applies setgroups to all threads of a process; the bare system call means this
// thread.
fn set_groups(groups: &[u32]) -> io::Result<()> {
    // SAFETY: the kernel reads `groups.len()` group numbers, which the slice holds.
    let result = unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets the user or the group that this thread's file operations are checked for.
fn set_id(call: libc::c_long, id: u32) -> io::Result<()> {
    // SAFETY: neither call takes pointers. They report no failure, so the second one (which cannot
    // succeed) asks.
    let now = unsafe {
        libc::syscall(call, id);
        libc::syscall(call, u32::MAX)
    };
    if now as u32 == id { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EPERM)) }
}
