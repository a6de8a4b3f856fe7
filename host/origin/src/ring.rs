//! Several reads on their way at a time from one thread, by io_uring.
//!
//! ```text
//!   read read read --> wait: one system call hands all over, and returns when some have come --> (tag, bytes) ...
//! ```
//!
//! I1  Memory and file of a read live until its completion has been seen: a ring that is dropped
//!     waits for what is on its way.
//! I2  What was handed to a ring comes back from [`Ring::wait`], once, whatever happens to the
//!     ring.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use io_uring::{IoUring, opcode, types};

use crate::directory::read_rest;

/// How long to let the kernel alone when it has no memory, or does not let itself be asked any
/// more.
const PAUSE: Duration = Duration::from_millis(1);

/// A read that was handed over.
struct Flight {
    tag: u64,
    file: Arc<File>,
    offset: u64,
    /// The kernel reads them while the read is on its way, so they stay where they are.
    pieces: Vec<libc::iovec>,
}

/// An instance of io_uring that reads.
pub struct Ring {
    ring: IoUring,
    /// By the number that the kernel knows them by.
    flights: Vec<Option<Flight>>,
    /// Numbers without a flight.
    idle: Vec<usize>,
    /// Numbers that the kernel has not taken yet, oldest first.
    fresh: Vec<usize>,
    refused: Option<io::Error>,
}

impl Ring {
    /// For so many reads at a time.
    ///
    /// # Errors
    /// The system's: io_uring is older than the kernel, or was forbidden, or there is no memory for
    /// it.
    pub fn new(at_once: u32) -> io::Result<Self> {
        let entries = at_once.clamp(1, 1024).next_power_of_two();
        let ring = IoUring::new(entries)?;
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Readv::CODE) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let (flights, idle) = ((0..entries).map(|_| None).collect(), (0..entries as usize).collect());
        Ok(Self { ring, flights, idle, fresh: Vec::new(), refused: None })
    }

    /// Whether no more can be handed over before something comes back.
    pub fn is_full(&self) -> bool {
        self.idle.is_empty()
    }

    /// Reads that were handed over and have not come back.
    pub fn on_their_way(&self) -> usize {
        self.flights.len() - self.idle.len()
    }

    /// Why the kernel does not take reads any more, if so. What is handed over nevertheless comes
    /// back with an error.
    pub fn refused(&self) -> Option<&io::Error> {
        self.refused.as_ref()
    }

    /// Fills `buffers` one after the other with the bytes of a file from `offset` on, as
    /// [`Source::read_at`](crate::Source::read_at) would. [`wait`](Self::wait) says under `tag` how
    /// many there were.
    ///
    /// # Safety
    /// Until then, or until the ring has been dropped, the memory behind `buffers` stays, and
    /// nobody else touches it.
    ///
    /// # Panics
    /// When it [is full](Self::is_full).
    pub unsafe fn read(&mut self, tag: u64, file: Arc<File>, offset: u64, buffers: &mut [IoSliceMut<'_>]) {
        let piece = |buffer: &mut IoSliceMut<'_>| libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        let flight = Flight { tag, file, offset, pieces: buffers.iter_mut().map(piece).collect() };
        let number = self.idle.pop().expect("a ring that is not full");
        let (file, count) = (types::Fd(flight.file.as_raw_fd()), flight.pieces.len() as u32);
        let read = opcode::Readv::new(file, flight.pieces.as_ptr(), count).offset(offset);
        let entry = read.build().user_data(number as u64);
        self.flights[number] = Some(flight);
        self.fresh.push(number);
        // SAFETY: I1; the caller keeps the memory. There are as many entries as flights, so this
        // finds room.
        if unsafe { self.ring.submission().push(&entry) }.is_err() {
            // Comes back with what refuses the others.
            self.refused.get_or_insert_with(|| io::ErrorKind::ResourceBusy.into());
        }
    }

    /// Hands over what is new without waiting.
    pub fn submit(&mut self) {
        self.enter(0);
    }

    /// Waits until something comes back, and says what, by tag. Empty only when nothing is on its
    /// way.
    ///
    /// An error may be of the ring, not of the file: whoever wants to know reads again in another
    /// way.
    pub fn wait(&mut self) -> Vec<(u64, io::Result<usize>)> {
        let mut landed = self.arrivals();
        while landed.is_empty() && self.on_their_way() > 0 {
            self.enter(1);
            landed = self.arrivals();
        }
        landed
    }

    fn enter(&mut self, wanted: usize) {
        if self.refused.is_some() {
            // What the kernel has taken it still completes.
            return std::thread::sleep(PAUSE);
        }
        match self.ring.submit_and_wait(wanted) {
            Ok(_) => {}
            Err(error) => match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN | libc::EBUSY) => std::thread::sleep(PAUSE),
                _ => self.refused = Some(error),
            },
        }
        // It takes them in order, and perhaps not all.
        let left = self.ring.submission().len();
        self.fresh.drain(..self.fresh.len().saturating_sub(left));
    }

    fn arrivals(&mut self) -> Vec<(u64, io::Result<usize>)> {
        let mut landed = Vec::new();
        if let Some(refused) = &self.refused {
            // The kernel is not asked again, so it never takes these.
            for number in self.fresh.drain(..) {
                if let Some(flight) = self.flights[number].take() {
                    landed.push((flight.tag, Err(again(refused))));
                    self.idle.push(number);
                }
            }
        }
        let done: Vec<(usize, i32)> =
            self.ring.completion().map(|entry| (entry.user_data() as usize, entry.result())).collect();
        // All are taken before anything is done about one: what is taken from the kernel must not
        // be lost (I2).
        let mut over = Vec::with_capacity(done.len());
        for (number, result) in done {
            let Some(flight) = self.flights.get_mut(number).and_then(Option::take) else { continue };
            self.idle.push(number);
            over.push((flight, result));
        }
        landed.extend(over.into_iter().map(|(flight, result)| (flight.tag, flight.landed(result))));
        landed
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        while self.on_their_way() > 0 {
            self.wait();
        }
    }
}

impl Flight {
    fn landed(mut self, result: i32) -> io::Result<usize> {
        let count = usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))?;
        let wanted: usize = self.pieces.iter().map(|piece| piece.iov_len).sum();
        if count == 0 || count == wanted {
            return Ok(count);
        }
        let slice = |piece: &mut libc::iovec| {
            // SAFETY: made of such a slice in `read`, whose caller keeps everybody else away until
            // this has returned; and the kernel is done with it.
            IoSliceMut::new(unsafe { std::slice::from_raw_parts_mut(piece.iov_base.cast(), piece.iov_len) })
        };
        let mut buffers: Vec<IoSliceMut<'_>> = self.pieces.iter_mut().map(slice).collect();
        read_rest(&self.file, self.offset, &mut buffers, count)
    }
}

fn again(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}
