//! Reads the raw buffers of all CPUs of some instances and hands out their events in order of time.
//!
//! F1  Events come out in order of `time_ns`: only those older than the beginning of the round are
//!     handed out, and the rest waits for the next round, because an older event may still arrive
//!     on a CPU that was read already.
//! F2  Nothing is allocated per event: a queue has space for its bound [`QUEUE_EVENTS`] and what
//!     one page of the buffer holds besides.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::Told;
use crate::error::WatchError;
use crate::format::Layouts;
use crate::instance::Instance;
use crate::page::Page;
use pantler_kernel::clock;

/// Events that one CPU's queue holds: a round stops reading this CPU there and goes on in the next.
pub const QUEUE_EVENTS: usize = 768;
/// Bytes of an event in a buffer, at least.
const EVENT_BYTES: usize = 16;

/// One CPU's buffer of one instance.
#[derive(Debug)]
struct Lane {
    raw: fs::File,
    source: u8,
    queue: VecDeque<Told>,
    /// Time of the last event read when the queue is full: nothing later may be handed out before
    /// this lane was read again.
    cut_ns: Option<u64>,
}

/// A merged stream of events.
#[derive(Debug)]
pub struct Feed {
    lanes: Vec<Lane>,
    layouts: Layouts,
    page: Vec<u8>,
    lost: u64,
    read_until_ns: u64,
    taken_until_ns: u64,
}

impl Feed {
    /// Opens the buffers of these instances; an event's `source` is the instance's position here.
    ///
    /// # Errors
    /// The control file that refused.
    pub fn open(instances: &[&Instance]) -> Result<Feed, WatchError> {
        let mut lanes = Vec::new();
        let mut layouts = Layouts::default();
        let mut page_bytes = 0;
        for (source, instance) in (0u8..).zip(instances) {
            layouts = if source == 0 { instance.layouts().clone() } else { layouts };
            page_bytes = page_bytes.max(instance.page_bytes());
            let space = QUEUE_EVENTS + instance.page_bytes() / EVENT_BYTES;
            for raw in instance.open_raw()? {
                lanes.push(Lane { raw, source, queue: VecDeque::with_capacity(space), cut_ns: None });
            }
        }
        Ok(Feed { lanes, layouts, page: vec![0; page_bytes], lost: 0, read_until_ns: 0, taken_until_ns: 0 })
    }

    /// See [`Layouts::reads_end_after`].
    pub fn reads_end_after(&mut self) {
        self.layouts.reads_end_after();
    }

    /// The descriptors to poll for reading.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.lanes.iter().map(|lane| lane.raw.as_fd())
    }

    /// Reads what is there and calls `each` for every event, oldest first. Returns how many came.
    ///
    /// # Errors
    /// A read of a buffer failed.
    pub fn round(&mut self, each: impl FnMut(&Told)) -> Result<usize, WatchError> {
        self.fill()?;
        Ok(self.hand_out(each))
    }

    /// The first half of a [round](Self::round): reads what is there.
    ///
    /// # Errors
    /// A read of a buffer failed.
    pub fn fill(&mut self) -> Result<(), WatchError> {
        let mut until_ns = clock::monotonic_ns();
        for lane in &mut self.lanes {
            lane.fill(&self.layouts, &mut self.page, &mut self.lost)?;
            until_ns = until_ns.min(lane.cut_ns.unwrap_or(u64::MAX));
        }
        self.read_until_ns = until_ns;
        Ok(())
    }

    /// The second half: calls `each` for every event, oldest first. Returns how many came.
    pub fn hand_out(&mut self, mut each: impl FnMut(&Told)) -> usize {
        let mut count = 0;
        while let Some(told) = self.pop_oldest(self.read_until_ns) {
            each(&told);
            count += 1;
        }
        self.taken_until_ns = self.read_until_ns;
        count
    }

    /// Every event until then was handed out.
    pub fn taken_until_ns(&self) -> u64 {
        self.taken_until_ns
    }

    /// Whether the last round stopped before the end of a buffer: the next should follow at once.
    pub fn is_behind(&self) -> bool {
        self.lanes.iter().any(|lane| lane.cut_ns.is_some())
    }

    /// Whether events were lost since the last call of [`take_lost`](Self::take_lost).
    pub fn has_lost(&self) -> bool {
        self.lost > 0
    }

    /// Takes the number of events lost since the last call, at least one per loss.
    pub fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    // A scan over the lanes: there are as many as CPUs, and most are empty.
    fn pop_oldest(&mut self, until_ns: u64) -> Option<Told> {
        let lane = self
            .lanes
            .iter_mut()
            .filter(|lane| lane.queue.front().is_some_and(|told| told.time_ns() <= until_ns))
            .min_by_key(|lane| lane.queue.front().map_or(u64::MAX, Told::time_ns))?;
        lane.queue.pop_front()
    }
}

impl Lane {
    fn fill(&mut self, layouts: &Layouts, page: &mut [u8], lost: &mut u64) -> Result<(), WatchError> {
        self.cut_ns = None;
        if self.queue.is_empty() {
            // From its start: what lies behind is not touched, and takes no memory.
            self.queue.clear();
        }
        loop {
            if self.queue.len() >= QUEUE_EVENTS {
                self.cut_ns = self.queue.back().map(Told::time_ns);
                return Ok(());
            }
            match rustix::io::read(&self.raw, &mut *page) {
                Ok(0) | Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(WatchError::call("read trace_pipe_raw", io::Error::from(error))),
                Ok(bytes) => {
                    let Some(mut records) = Page::new(&page[..bytes]) else { continue };
                    *lost += records.lost();
                    let source = self.source;
                    self.queue.extend(
                        records.by_ref().filter_map(|(time, record)| layouts.decode(time, source, record)),
                    );
                }
            }
        }
    }
}
