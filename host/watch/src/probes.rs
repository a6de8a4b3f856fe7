//! References on kernels without the `filemap` tracepoints: events of our own at the functions that
//! the tracepoints came to later.
//!
//! ```text
//!   type information (BTF) --> offsets --> definition --> kprobe_events --> an event like others:
//!                                          format, filter and switch in each instance
//! ```
//!
//! Events of kprobes belong to the whole machine, their filters and switches to an instance. So
//! their group is named after the run, and goes with it.
//!
//! Differences from the tracepoints: a read tells bytes where the tracepoint tells pages; and
//! faults around an address are told whether or not one of the pages is cached.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use pantler_kernel::KernelError;
use pantler_kernel::btf::Btf;

use crate::error::WatchError;
use crate::version::{Kernel, TRACEPOINTS};
use crate::{Kind, tracepoint};

/// The list of all probes, and where they are made and removed.
const LIST: &str = "kprobe_events";
/// Begins the name of each group.
const PREFIX: &str = "pantler_";

/// The probes of one run; removed when dropped.
#[derive(Debug)]
pub struct Probes {
    list: PathBuf,
    group: String,
}

impl Probes {
    /// Makes the probes of the run of this name (see [`pantler_kernel::names::run_name`]), off in
    /// every instance.
    ///
    /// # Errors
    /// [`KernelError::Missing`] when this kernel lacks probes, type information, or a function that
    /// is probed; else the control file that refused.
    pub fn make(tracefs: &Path, run: &str) -> Result<Probes, WatchError> {
        let definitions = definitions(tracefs)?;
        let probes = Probes { list: tracefs.join(LIST), group: group_name(run) };
        for (kind, definition) in Kind::REFERENCES.into_iter().zip(definitions) {
            let line = format!("p:{}/{definition}", probes.group);
            change(&probes.list, &line).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::InvalidInput => unknown(kind).into(),
                _ => WatchError::file("write", &probes.list, error),
            })?;
        }
        Ok(probes)
    }

    /// The group below `events/`.
    pub fn group(&self) -> &str {
        &self.group
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        if let Err(error) = remove_group(&self.list, &self.group) {
            tracing::warn!(%error, group = self.group, "probes of the run stay");
        }
    }
}

/// What the probes of a run are on this machine, by kind of reference; makes none.
///
/// # Errors
/// As [`Probes::make`].
pub fn definitions(tracefs: &Path) -> Result<Vec<String>, KernelError> {
    if !tracefs.join(LIST).exists() {
        return Err(missing("CONFIG_KPROBE_EVENTS"));
    }
    let tracepoints = tracefs.join("events/filemap");
    let is_absent = |&kind: &Kind| name(kind).is_none() && !tracepoints.join(tracepoint(kind)).exists();
    if let Some(kind) = Kind::ALL.into_iter().find(is_absent) {
        return Err(missing(tracepoint(kind)));
    }
    let btf = Btf::running()?;
    let definition = |kind| {
        let (name, arguments) = name(kind).zip(arguments(&btf, kind)).ok_or_else(|| unknown(kind))?;
        Ok(format!("{name} {} {arguments}", function(kind)))
    };
    Kind::REFERENCES.into_iter().map(definition).collect()
}

fn unknown(kind: Kind) -> KernelError {
    missing(&format!("{} in a known form", function(kind)))
}

/// The event of a kind, in the group of a run; none where a tracepoint tells it on every kernel.
pub fn name(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Read => Some("read"),
        Kind::Fault => Some("fault"),
        Kind::Mapped => Some("mapped"),
        Kind::Added | Kind::Gone => None,
    }
}

/// Removes the probes of crashed runs. Returns the names of their groups.
///
/// # Errors
/// The list could not be read. A group that stays is reported in the log.
pub fn clean_leftovers(tracefs: &Path) -> io::Result<Vec<PathBuf>> {
    let list = tracefs.join(LIST);
    if !list.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(&list)?;
    let mut groups: Vec<&str> = text.lines().filter_map(group_of).collect();
    groups.dedup();
    let mut removed = Vec::new();
    for group in groups.into_iter().filter(|group| is_leftover(group)) {
        match remove_group(&list, group) {
            Ok(()) => removed.push(tracefs.join("events").join(group)),
            Err(error) => tracing::warn!(%error, group, "probes of a crashed run stay"),
        }
    }
    Ok(removed)
}

fn missing(what: &str) -> KernelError {
    let remedy = format!(
        "this is {}, without the filemap tracepoints of {TRACEPOINTS} and without {what}, which would do; \
         run Linux {TRACEPOINTS} or newer",
        Kernel::running()
    );
    KernelError::Missing { what: "a way to watch references", remedy }
}

/// The function of the kernel that a kind of reference passes.
fn function(kind: Kind) -> &'static str {
    match kind {
        Kind::Fault => "filemap_fault",
        Kind::Mapped => "filemap_map_pages",
        Kind::Read | Kind::Added | Kind::Gone => "filemap_get_pages",
    }
}

/// What a probe writes down; `None` where the kernel's types are others than those known.
fn arguments(btf: &Btf, kind: Kind) -> Option<String> {
    let path = |members: &[(&str, &str)]| {
        members.iter().try_fold("$arg1".to_owned(), |inner, (structure, member)| {
            Some(format!("+{}({inner})", btf.offset(structure, member)?))
        })
    };
    let inode: &[_] = match kind {
        Kind::Read => &[("kiocb", "ki_filp"), ("file", "f_mapping"), ("address_space", "host")],
        _ => &[
            ("vm_fault", "vma"),
            ("vm_area_struct", "vm_file"),
            ("file", "f_mapping"),
            ("address_space", "host"),
        ],
    };
    let of_inode = |members: &[(&'static str, &'static str)]| path(&[inode, members].concat());
    let file = format!(
        "s_dev={}:u32 i_ino={}:u64",
        of_inode(&[("inode", "i_sb"), ("super_block", "s_dev")])?,
        of_inode(&[("inode", "i_ino")])?
    );
    let place = match kind {
        Kind::Read => {
            let position = btf.offset("kiocb", "ki_pos")?;
            // Before Linux 6.3 the second argument was the iterator, of which this is a field.
            let count = match btf.parameters(function(kind))?.get(1)?.as_str() {
                "count" => "$arg2".to_owned(),
                "iter" => format!("+{}($arg2)", btf.offset("iov_iter", "count")?),
                _ => return None,
            };
            format!("position=+{position}($arg1):u64 count={count}:u64")
        }
        Kind::Fault => format!("index=+{}($arg1):u64", btf.offset("vm_fault", "pgoff")?),
        Kind::Mapped => "index=$arg2:u64 last_index=$arg3:u64".to_owned(),
        Kind::Added | Kind::Gone => return None,
    };
    Some(format!("{file} {place}"))
}

/// `pantler_PID_START_NAME`: a group may have letters, digits and underscores only.
fn group_name(run: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    run.chars().map(plain).collect()
}

/// The group of a line of the list: `p:GROUP/EVENT FUNCTION ...`.
fn group_of(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(':')?;
    let (group, _) = rest.split_once('/')?;
    group.starts_with(PREFIX).then_some(group)
}

fn is_leftover(group: &str) -> bool {
    pantler_kernel::names::is_leftover(&group.replacen('_', "-", 3))
}

fn remove_group(list: &Path, group: &str) -> io::Result<()> {
    let text = fs::read_to_string(list)?;
    let ours = text.lines().filter(|line| group_of(line) == Some(group));
    let mut result = Ok(());
    for line in ours {
        let event = line.split_once(':').map_or("", |(_, rest)| rest.split(' ').next().unwrap_or(""));
        // One that an instance still uses is tried after the others.
        result = change(list, &format!("-:{event}")).and(result);
    }
    result
}

/// Adds a line. Opened otherwise than to append, the list would lose the probes of all others.
fn change(list: &Path, line: &str) -> io::Result<()> {
    fs::OpenOptions::new().append(true).open(list)?.write_all(format!("{line}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_named_after_the_run_and_found_again() {
        let run = pantler_kernel::names::run_name("a.b-c");
        let group = group_name(&run);
        assert!(group.starts_with(PREFIX) && !is_leftover(&group), "{group}");
        assert!(is_leftover("pantler_4194305_77_x_y"), "no such process");
        assert!(!is_leftover("pantler_x"));
        let line = format!("p:{group}/read filemap_get_pages s_dev=+16(+24($arg1)):u32");
        assert_eq!(group_of(&line), Some(group.as_str()));
        assert_eq!(group_of("p:kprobes/p_vfs_read_0 vfs_read"), None);
    }

    #[test]
    fn what_a_probe_writes_down_is_found_by_the_kernel_s_types() {
        let Ok(btf) = Btf::running() else {
            eprintln!("skipped: this kernel shows no types");
            return;
        };
        // Newer kernels have tracepoints and may have inlined the function that is probed.
        let fault = arguments(&btf, Kind::Fault).expect("known types");
        assert!(fault.starts_with("s_dev=+") && fault.contains(" index=+"), "{fault}");
        assert_eq!(arguments(&btf, Kind::Gone), None);
    }
}
