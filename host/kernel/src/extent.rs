//! Where a file lies on its device.

use std::os::fd::{AsRawFd, BorrowedFd};

/// `FS_IOC_FIEMAP`.
const FIEMAP: libc::Ioctl = 0xc020_660b_u32 as libc::Ioctl;

/// The kernel's `struct fiemap` with room for one extent.
#[repr(C)]
#[derive(Default)]
struct Map {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    extents: u32,
    reserved: u32,
    logical: u64,
    physical: u64,
    extent_length: u64,
    more: [u64; 2],
    extent_flags: u32,
    rest: [u32; 3],
}

const _: () = assert!(size_of::<Map>() == 32 + 56);

/// The place on its device of a byte of a file, or of the first byte after it that has one. `None`
/// where the file system does not tell, and for bytes without a place, or with one that is chosen
/// when they are written back.
pub fn place(file: BorrowedFd<'_>, start: u64) -> Option<u64> {
    let mut map = Map { start, length: u64::MAX - start, extents: 1, ..Map::default() };
    // SAFETY: the kernel reads 32 bytes and writes those and at most one extent of 56 behind them,
    // all of `map`.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), FIEMAP, &raw mut map) };
    let is_told = result == 0 && map.mapped == 1 && map.physical != 0;
    is_told.then(|| map.physical + start.saturating_sub(map.logical))
}
