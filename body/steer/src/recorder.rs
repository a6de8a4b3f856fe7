//! References of a run, written down as they come: a trace that `pantler advise` and `pantler sim`
//! read.
//!
//! ```text
//!   owner,file,offset,size,time_us          owner: the thread
//!   4711,8:1/1234,0,131072,17               file: device and inode
//! ```

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;

use pantler_kernel::pages::block_bytes;
use pantler_pagecache::FileKey;

/// Traces have fewer owners than a long build has threads: some share a number then, which matters
/// to readahead alone.
const THREADS: u32 = 65_535;

/// Writes references to a file. An error is said once, and the run goes on.
#[derive(Debug)]
pub(crate) struct Recorder {
    out: Option<BufWriter<File>>,
    /// When the first reference came. What the file held before stays until then.
    begun_ns: Option<u64>,
}

impl Recorder {
    pub(crate) fn new(file: File) -> Recorder {
        Recorder { out: Some(BufWriter::new(file)), begun_ns: None }
    }

    /// Notes that a thread used these blocks of a file.
    pub(crate) fn reference(&mut self, time_ns: u64, thread: u32, file: FileKey, blocks: &Range<u64>) {
        if blocks.is_empty() {
            return;
        }
        let begun_ns = self.begin(time_ns);
        let (major, minor, thread) = (file.dev >> 20, file.dev & 0xf_ffff, thread % THREADS);
        let (offset, size) = (blocks.start * block_bytes(), (blocks.end - blocks.start) * block_bytes());
        let time_us = time_ns.saturating_sub(begun_ns) / 1000;
        self.write(|out| writeln!(out, "{thread},{major}:{minor}/{},{offset},{size},{time_us}", file.ino));
    }

    fn begin(&mut self, time_ns: u64) -> u64 {
        if self.begun_ns.is_none() {
            self.begun_ns = Some(time_ns);
            self.write(|out| out.get_ref().set_len(0));
            self.write(|out| writeln!(out, "owner,file,offset,size,time_us"));
        }
        self.begun_ns.unwrap_or(time_ns)
    }

    /// What was noted is in the file.
    pub(crate) fn flush(&mut self) {
        self.write(BufWriter::flush);
    }

    fn write(&mut self, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) {
        if let Some(out) = &mut self.out
            && let Err(error) = write(out)
        {
            tracing::error!(%error, "references are recorded no more: the record is incomplete");
            self.out = None;
        }
    }
}
