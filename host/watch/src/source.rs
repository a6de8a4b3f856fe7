//! Where the events of a run come from: tracepoints of the kernel, or probes of the run in their
//! place.

use std::fs;
use std::io;
use std::path::Path;

use crate::Kind;
use crate::error::WatchError;
use crate::format::Layout;
use crate::probes::{self, Probes};

/// The tracepoint of a kind, in the group `filemap`.
pub fn tracepoint(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "mm_filemap_get_pages",
        Kind::Added => "mm_filemap_add_to_page_cache",
        Kind::Gone => "mm_filemap_delete_from_page_cache",
        Kind::Fault => "mm_filemap_fault",
        Kind::Mapped => "mm_filemap_map_pages",
    }
}

/// Where events come from.
#[derive(Debug)]
pub enum Source {
    /// The kernel's tracepoints, all five: Linux 6.12 and newer.
    Tracepoints,
    /// Its two old tracepoints, and probes for references.
    Probes(Probes),
}

impl Source {
    /// The tracepoints where the kernel has them, else probes for the run of this name.
    ///
    /// # Errors
    /// As [`Probes::make`].
    pub fn find(tracefs: &Path, run: &str) -> Result<Source, WatchError> {
        if has_tracepoints(tracefs) {
            return Ok(Source::Tracepoints);
        }
        Probes::make(tracefs, run).map(Source::Probes)
    }

    /// The folder of an event below `events/`.
    pub fn event(&self, kind: Kind) -> String {
        if let Source::Probes(probes) = self
            && let Some(name) = probes::name(kind)
        {
            return format!("{}/{name}", probes.group());
        }
        format!("filemap/{}", tracepoint(kind))
    }

    /// Reads the layout of an event.
    ///
    /// # Errors
    /// The file that could not be read, or the field that is missing.
    pub fn layout(&self, tracefs: &Path, kind: Kind) -> Result<Layout, WatchError> {
        let path = tracefs.join("events").join(self.event(kind)).join("format");
        let text = fs::read_to_string(&path).map_err(|error| WatchError::file("read", path, error))?;
        Layout::parse(kind, &text)
    }
}

/// Whether the kernel has a tracepoint for each kind. One that may not be read counts: the reason
/// is told when it is used.
pub fn has_tracepoints(tracefs: &Path) -> bool {
    Kind::ALL.iter().all(|&kind| {
        let format = tracefs.join("events/filemap").join(tracepoint(kind)).join("format");
        fs::metadata(format).map_or_else(|error| error.kind() != io::ErrorKind::NotFound, |_| true)
    })
}
