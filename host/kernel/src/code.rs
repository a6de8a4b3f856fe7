//! The code of this program in memory: pages of its own file, which count against the limit of the
//! control group that read them.

use std::ffi::c_void;
use std::fs;
use std::io;

use rustix::fs::{Advice, fadvise};
use rustix::mm::{self, madvise};

/// The file of this program.
const FILE: &str = "/proc/self/exe";

/// Gives up the pages of this program's file that no other process has mapped. What is used again
/// is read again, page by page. Data that the program changed is not touched.
///
/// It pays where a limit counts them, and what began the program is not needed any more.
///
/// # Errors
/// `/proc` cannot be read. A range that the kernel keeps is no error.
///
/// ```
/// assert!(pantler_kernel::code::give_up()? > 0);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn give_up() -> io::Result<usize> {
    let file = fs::read_link(FILE)?;
    let file = file.to_string_lossy();
    let maps = fs::read_to_string("/proc/self/maps")?;
    let ranges = maps.lines().filter_map(|line| given_up_range(line, &file));
    let mut given_up = 0;
    for (start, length) in ranges {
        let place = start as *mut c_void;
        for advice in [mm::Advice::Random, mm::Advice::LinuxPageOut] {
            // SAFETY: a mapping of this process that cannot be written. Its pages are those of the
            // file, so what is dropped is read again with the same bytes.
            let _ = unsafe { madvise(place, length, advice) };
        }
        given_up += length;
    }
    // Pages that the kernel read around those are mapped by no process.
    fadvise(fs::File::open(FILE)?, 0, None, Advice::DontNeed)?;
    Ok(given_up)
}

/// Where a line of `/proc/self/maps` maps code of this file, or what lies before it.
/// The loader wrote to the pages behind it.
fn given_up_range(line: &str, file: &str) -> Option<(usize, usize)> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let rights = words.next()?;
    let offset = words.next()?;
    let is_code = rights.starts_with("r-x");
    let is_before = rights.starts_with("r--") && u64::from_str_radix(offset, 16) == Ok(0);
    if !line.ends_with(file) || !(is_code || is_before) {
        return None;
    }
    let place = |text| usize::from_str_radix(text, 16).ok();
    let start = place(start)?;
    Some((start, place(end)?.checked_sub(start)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_and_what_lies_before_it_is_given_up() {
        let line =
            |rights, offset, file| format!("55da7e7be000-55da7ece8000 {rights} {offset} fe:00 7      {file}");
        let told = |rights, offset, file| given_up_range(&line(rights, offset, file), "/usr/bin/pantler");
        let (whole, own) = (Some((0x55da_7e7b_e000, 0x52_a000)), "/usr/bin/pantler");
        assert_eq!(told("r--p", "00000000", own), whole);
        assert_eq!(told("r-xp", "00529000", own), whole);
        assert_eq!(told("r--p", "010f1000", own), None, "relocated");
        assert_eq!(told("rw-p", "00000000", own), None);
        assert_eq!(told("r-xp", "00000000", "/usr/lib/libc.so.6"), None);
        assert_eq!(told("r-xp", "00000000", "[vdso]"), None);
        assert_eq!(given_up_range("", own), None);
    }
}
