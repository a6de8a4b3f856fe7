//! An own tracefs instance: its own buffers and filters, so that other tracing is left alone.

use std::ffi::CStr;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pantler_kernel::KernelError;
use rustix::fs::OFlags;
use rustix::mount::{MountFlags, mount};

use crate::calls::Call;
use crate::error::WatchError;
use crate::format::{Layouts, THREADS, WRITTEN, page_bytes};
use crate::{Kind, Source};

/// Where the kernel documentation says tracefs belongs.
const TRACEFS: &str = "/sys/kernel/tracing";

/// Finds the tracefs mount of this machine, mounting it at the usual place when it is nowhere.
///
/// # Errors
/// [`KernelError::Missing`] when the kernel has none, or we may not mount or read it.
pub fn tracefs() -> Result<PathBuf, WatchError> {
    if let Some(found) = mounted_tracefs() {
        return Ok(found);
    }
    let missing = |why: &dyn std::fmt::Display| KernelError::Missing {
        what: "tracefs",
        remedy: format!(
            "it is not mounted and mounting it at {TRACEFS} failed ({why}); run as root on a kernel with CONFIG_TRACING"
        ),
    };
    mount("tracefs", TRACEFS, "tracefs", MountFlags::empty(), None::<&CStr>)
        .map_err(|error| missing(&error))?;
    Ok(mounted_tracefs().ok_or_else(|| missing(&"it did not appear"))?)
}

/// The tracefs mount of this machine, if there is one; mounts nothing.
pub fn mounted_tracefs() -> Option<PathBuf> {
    let mounts = pantler_kernel::mount_table::mounts().ok()?;
    let found = mounts.into_iter().find_map(|mount| (mount.kind == "tracefs").then_some(mount.place));
    // An automounted tracefs below debugfs appears when it is looked at.
    found.or_else(|| {
        let debug = Path::new("/sys/kernel/debug/tracing");
        debug.join("instances").is_dir().then(|| debug.to_path_buf())
    })
}

/// Which events an [`Instance`] sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// Those of the threads listed by [`Instance::list_threads`], and of their children.
    Listed,
    /// The same, and which threads they start, and which of them end.
    ListedAndThreads,
    /// Those of all others.
    Others,
    /// The same, and which pages they write to, where the kernel tells.
    OthersAndWrites,
}

/// A tracefs instance of our own; removed when dropped.
#[derive(Debug)]
pub struct Instance {
    path: PathBuf,
    source: Arc<Source>,
    layouts: Layouts,
    /// Events of calls by which programs advise.
    calls: Vec<&'static str>,
    page_bytes: usize,
    /// Kept open so that a child can list itself between fork and exec.
    list: Mutex<Option<fs::File>>,
}

impl Instance {
    /// Makes an instance of this name with a buffer of `buffer_kb` KiB per CPU and every event
    /// still off; [`Instance::start`] switches them on.
    ///
    /// # Errors
    /// [`KernelError::Missing`] when an event does not exist on this kernel, else the control file
    /// that refused.
    pub fn create(
        root: &Path,
        name: &str,
        source: &Arc<Source>,
        buffer_kb: u32,
        follow: Follow,
    ) -> Result<Instance, WatchError> {
        let path = root.join("instances").join(name);
        let mut layouts = Layouts::default();
        for kind in Kind::ALL {
            layouts.push(source.layout(root, kind)?);
        }
        if follow == Follow::ListedAndThreads {
            let [started, ended] = THREADS.map(|event| {
                let path = root.join("events").join(event).join("format");
                fs::read_to_string(&path).map_err(|error| WatchError::file("read", path, error))
            });
            layouts.add_threads([&started?, &ended?])?;
        }
        let format = |event: &&str| fs::read_to_string(root.join("events").join(event).join("format"));
        let is_wanted = follow == Follow::OthersAndWrites;
        let written =
            WRITTEN.iter().filter(|_| is_wanted).find_map(|event| Some((event, format(event).ok()?)));
        if let Some((_, format)) = &written {
            layouts.add_written(format)?;
        }
        let header = root.join("events/header_page");
        let header = read_at_once(&header).map_err(|error| WatchError::file("read", header, error))?;
        let page_bytes = page_bytes(&header)?;
        fs::create_dir(&path).map_err(|error| WatchError::file("create", &path, error))?;
        let list = match follow {
            Follow::Listed | Follow::ListedAndThreads => "set_event_pid",
            Follow::Others | Follow::OthersAndWrites => "set_event_notrace_pid",
        };
        let list = path.join(list);
        let list = fs::OpenOptions::new().write(true).open(&list).map_err(|error| {
            let _ = fs::remove_dir(&path);
            WatchError::file("open", list, error)
        })?;
        let source = Arc::clone(source);
        let (calls, list) = (Vec::new(), Mutex::new(Some(list)));
        let instance = Instance { path, source, layouts, calls, page_bytes, list };
        instance.write("tracing_on", "0")?;
        instance.write("trace_clock", "mono")?;
        instance.write("options/event-fork", "1")?;
        // Wake the reader at the first event: how long it then rests is its own affair.
        instance.write("buffer_percent", "0")?;
        instance.write("buffer_size_kb", &buffer_kb.to_string())?;
        // The buffers are for one reader: never stop a writer because they are full, lose the
        // oldest and say so.
        instance.write("options/overwrite", "1")?;
        for event in THREADS.iter().filter(|_| follow == Follow::ListedAndThreads) {
            instance.write(&format!("events/{event}/enable"), "1")?;
        }
        if let Some((event, _)) = written {
            instance.write(&format!("events/{event}/enable"), "1")?;
        }
        Ok(instance)
    }

    /// Sets the filter of one event, in the kernel's filter language; `0` clears it.
    ///
    /// # Errors
    /// The control file that refused.
    pub fn filter(&self, kind: Kind, expression: &str) -> Result<(), WatchError> {
        self.write(&format!("events/{}/filter", self.source.event(kind)), expression)
    }

    /// Switches one event on or off.
    ///
    /// # Errors
    /// The control file that refused.
    pub fn enable(&self, kind: Kind, on: bool) -> Result<(), WatchError> {
        self.write(&format!("events/{}/enable", self.source.event(kind)), if on { "1" } else { "0" })
    }

    /// Lets [`heed`](Self::heed) switch on the calls by which programs advise, as far as the kernel
    /// tells of them. Before a feed is opened.
    ///
    /// # Errors
    /// A format that names other fields than are known.
    pub fn know_calls(&mut self, root: &Path) -> Result<(), WatchError> {
        let calls = Call::all(root)?;
        self.calls = calls.iter().map(|call| call.event).collect();
        self.layouts.add_calls(calls);
        Ok(())
    }

    /// Switches the calls by which programs advise on or off, if it knows any. While they are on,
    /// each system call of each program on the machine takes a few nanoseconds longer.
    ///
    /// # Errors
    /// The control file that refused.
    pub fn heed(&self, on: bool) -> Result<(), WatchError> {
        let value = if on { "1" } else { "0" };
        self.calls.iter().try_for_each(|event| self.write(&format!("events/{event}/enable"), value))
    }

    /// Lists threads, and what they fork from now on; see [`Follow`]. For each call but the first
    /// the kernel makes a new list and waits for all processors.
    ///
    /// # Errors
    /// The control file that refused.
    pub fn list_threads(&self, tids: &[u32]) -> Result<(), WatchError> {
        let line = tids.iter().map(|tid| format!("{tid}\n")).collect::<String>();
        let written = self.list_file().and_then(|mut list| list.write_all(line.as_bytes()));
        written.map_err(|error| WatchError::file("write", self.path.join("set_event_pid"), error))
    }

    /// Another descriptor of the list of threads, for a child that lists itself.
    ///
    /// # Errors
    /// Out of descriptors.
    pub fn list_file(&self) -> io::Result<fs::File> {
        self.list().as_ref().ok_or(io::ErrorKind::NotFound)?.try_clone()
    }

    /// Switches recording on.
    ///
    /// # Errors
    /// The control file that refused.
    pub fn start(&self) -> Result<(), WatchError> {
        self.write("tracing_on", "1")
    }

    /// The layouts of its events.
    pub fn layouts(&self) -> &Layouts {
        &self.layouts
    }

    /// Size of one page of its buffers.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Opens the raw buffer of every CPU.
    ///
    /// # Errors
    /// The control file that refused.
    pub fn open_raw(&self) -> Result<Vec<fs::File>, WatchError> {
        let folder = self.path.join("per_cpu");
        let read_error = |error: io::Error| WatchError::file("read", &folder, error);
        let mut options = fs::OpenOptions::new();
        options.read(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
        let open = |entry: io::Result<fs::DirEntry>| {
            let raw = entry.map_err(read_error)?.path().join("trace_pipe_raw");
            options.open(&raw).map_err(|error| WatchError::file("open", raw, error))
        };
        fs::read_dir(&folder).map_err(read_error)?.map(open).collect()
    }

    /// Removes it now.
    pub fn end(&self) {
        // The kernel keeps an instance while one of its files is open.
        if self.list().take().is_none() {
            return;
        }
        if let Err(error) = remove(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "could not remove the tracefs instance");
        }
    }

    fn list(&self) -> MutexGuard<'_, Option<fs::File>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, file: &str, value: &str) -> Result<(), WatchError> {
        let path = self.path.join(file);
        fs::write(&path, value).map_err(|error| WatchError::file("write", path, error))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.end();
    }
}

/// Removes an instance's folder; the kernel frees its buffers with it.
///
/// Of two instances the one whose events were switched on last goes first: the kernel waits for all
/// processors wherever the first of several functions of an event goes before the others.
///
/// # Errors
/// The kernel's answer: busy while a process reads it.
pub fn remove(path: &Path) -> io::Result<()> {
    let _ = fs::write(path.join("tracing_on"), "0");
    // One by one: to switch all off at once makes the kernel wait.
    let enabled = fs::read_to_string(path.join("set_event")).unwrap_or_default();
    for event in enabled.lines() {
        let _ = fs::write(path.join("events").join(event.replacen(':', "/", 1)).join("enable"), "0");
    }
    fs::remove_dir(path)
}

/// Reads a small control file with one call: this one is cut off where the first call's buffer
/// ends.
fn read_at_once(path: &Path) -> io::Result<String> {
    let mut bytes = vec![0; 16 << 10];
    let length = fs::File::open(path)?.read(&mut bytes)?;
    bytes.truncate(length);
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
