//! The bytes of one open file.

use std::io::{self, IoSliceMut};

/// Most buffers that one [`Source::read_at`] may be given (the kernel's `UIO_MAXIOV`).
pub const READ_BUFFERS_MAX: usize = 1024;

/// Reads the bytes of one open file. What a cache fills its frames from.
///
/// ```
/// use pantler_origin::Source;
/// use std::io::{self, IoSliceMut};
///
/// struct Zeros(u64);
/// impl Source for Zeros {
///     fn read_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
///         let mut left = self.0.saturating_sub(offset) as usize;
///         let mut done = 0;
///         for buffer in buffers {
///             let part = left.min(buffer.len());
///             buffer[..part].fill(0);
///             (left, done) = (left - part, done + part);
///         }
///         Ok(done)
///     }
/// }
/// let mut bytes = [1; 8];
/// assert_eq!(Zeros(5).read_at(2, &mut [IoSliceMut::new(&mut bytes)]).unwrap(), 3);
/// ```
pub trait Source: Send + Sync {
    /// Fills `buffers` one after the other with the bytes from `offset` on, and returns how many
    /// there were. Fewer than asked for means that the file ends there. At most
    /// [`READ_BUFFERS_MAX`] buffers.
    ///
    /// # Errors
    /// Whatever the origin says; it reaches the reader unchanged and nothing is cached.
    fn read_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize>;
}
