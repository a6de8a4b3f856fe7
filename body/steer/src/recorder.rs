//! References of a run, written down as they come: a trace that `pantler sim` and `pantler advise`
//! read.
//!
//! ```text
//!   owner,file,block,objects,time_us        owner: the thread
//!   4711,8:1/1234,0,32,17                   file: device and inode
//! ```

use std::fs::File;
use std::io::{self, BufWriter, Write};

use pantler_pagecache::Event;

/// Writes references to a file. What cannot be written is said once; the run goes on.
#[derive(Debug)]
pub(crate) struct Recorder {
    out: Option<BufWriter<File>>,
    /// When the first reference came.
    begun_ns: Option<u64>,
}

impl Recorder {
    pub(crate) fn new(file: File) -> Recorder {
        let mut recorder = Recorder { out: Some(BufWriter::new(file)), begun_ns: None };
        recorder.write(|out| writeln!(out, "owner,file,block,objects,time_us"));
        recorder
    }

    /// Notes that a thread used the blocks of an event.
    pub(crate) fn reference(&mut self, thread: u32, event: &Event) {
        let Event { time_ns, file, first, last, .. } = *event;
        let begun_ns = *self.begun_ns.get_or_insert(time_ns);
        let (major, minor) = (file.dev >> 20, file.dev & 0xf_ffff);
        let (count, time_us) = (last - first + 1, time_ns.saturating_sub(begun_ns) / 1000);
        self.write(|out| writeln!(out, "{thread},{major}:{minor}/{},{first},{count},{time_us}", file.ino));
    }

    /// What was noted is in the file.
    pub(crate) fn flush(&mut self) {
        self.write(BufWriter::flush);
    }

    fn write(&mut self, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) {
        if let Some(out) = &mut self.out
            && let Err(error) = write(out)
        {
            tracing::error!(%error, "references are recorded no more");
            self.out = None;
        }
    }
}
