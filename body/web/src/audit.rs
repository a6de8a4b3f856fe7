//! How right all that is believed is at this moment: every page of a set of files, against what the
//! kernel says.
//!
//! For benches and tests. The server itself verifies only what is asked for, which is what is
//! popular, and never looks at the rest; here each file is opened, and its pages are counted.

use std::io;
use std::time::Duration;

use crate::answer::Site;
use crate::belief::BLOCK_BYTES;
use crate::path::Names;
use crate::root::Found;

/// How long a file may take to be opened.
const PATIENCE: Duration = Duration::from_secs(10);

/// What was found. Shares of nothing are 1.
#[derive(Debug, Clone, Copy, Default)]
pub struct Audit {
    requests: f64,
    right_requests: f64,
    pages: u64,
    right_pages: u64,
    /// Pages that are believed cached or are cached, and those of them that are both.
    either: u64,
    both: u64,
}

impl Audit {
    /// Looks at a file for which so many of all requests ask.
    ///
    /// # Errors
    /// The system's, and `Unsupported` where the kernel does not say what is cached.
    pub fn look(&mut self, site: &Site, name: &str, requests: f64) -> io::Result<()> {
        let names = Names { joined: name.into(), is_directory: false };
        let Found::File(file) = site.root.open_waiting(&names, PATIENCE)? else {
            return Err(io::ErrorKind::IsADirectory.into());
        };
        let size = file.size();
        let believed = site.desk.with_belief(|belief| belief.blocks(&file.version));
        let held = |start, end| file.held(start, end).ok_or(io::ErrorKind::Unsupported);
        // Of most files all or nothing is there: then one call says it.
        let all = held(0, size)?;
        let mut are_equal = true;
        for (at, believed) in believed.into_iter().enumerate() {
            let start = at as u64 * BLOCK_BYTES;
            let end = size.min(start + BLOCK_BYTES);
            let is_cached = match all {
                0 => false,
                _ if all == size => true,
                _ => held(start, end)? == end - start,
            };
            self.pages += 1;
            self.right_pages += u64::from(believed == is_cached);
            self.either += u64::from(believed || is_cached);
            self.both += u64::from(believed && is_cached);
            are_equal &= believed == is_cached;
        }
        self.requests += requests;
        self.right_requests += if are_equal { requests } else { 0.0 };
        Ok(())
    }

    /// Share of the requests for a file of which every page is believed to be what it is.
    pub fn requests_share(&self) -> f64 {
        if self.requests > 0.0 { self.right_requests / self.requests } else { 1.0 }
    }

    /// Share of the pages that are believed to be what they are. Most are neither cached nor
    /// believed so.
    pub fn pages_share(&self) -> f64 {
        if self.pages > 0 { self.right_pages as f64 / self.pages as f64 } else { 1.0 }
    }

    /// Of the pages that are believed cached or are, the share that is both.
    pub fn overlap(&self) -> f64 {
        if self.either > 0 { self.both as f64 / self.either as f64 } else { 1.0 }
    }
}
