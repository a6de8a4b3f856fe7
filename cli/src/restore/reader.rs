//! Reads pieces of files, so that the page cache has them.

use rustix::fs::{Advice, fadvise};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use pantler_kernel::pages::{block_bytes, read_ahead};

use super::plan::{PIECE_BYTES, Piece};

/// Pieces that the disk is asked for before the first of them is waited for.
const IN_FLIGHT_MAX: usize = 16;

/// Bytes of a read by which the budget of a daemon is filled.
pub const BUDGETED_BYTES: usize = 128 << 10;

/// A piece could not be read.
#[derive(Debug)]
pub struct Failed {
    /// The file of the piece, by its place in the snapshot.
    pub file: usize,
    pub error: io::Error,
}

/// Asks the disk for some pieces beyond the one it waits for.
pub struct Reader {
    in_flight: VecDeque<(Rc<File>, Piece)>,
    in_flight_max: usize,
    scratch: Vec<u8>,
    /// Bytes that were read.
    pub read_bytes: u64,
}

impl Reader {
    pub fn new() -> Reader {
        let scratch = vec![0; PIECE_BYTES as usize];
        Reader { in_flight: VecDeque::new(), in_flight_max: IN_FLIGHT_MAX, scratch, read_bytes: 0 }
    }

    /// One that reads as a program does from front to back. A daemon keeps room in its budget for
    /// what comes before it is used.
    pub fn within_budget() -> Reader {
        Reader { in_flight_max: 1, scratch: vec![0; BUDGETED_BYTES], ..Reader::new() }
    }

    /// Asks for a piece, and waits for an earlier one where too many are in flight.
    ///
    /// # Errors
    /// That of the piece that was waited for, with the file of that piece.
    pub fn ask(&mut self, file: &Rc<File>, piece: Piece) -> Result<(), Failed> {
        // What a read brings in is what it asks for, and nothing beyond. Without this the kernel
        // reads more.
        let _ = fadvise(&**file, 0, None, Advice::Random);
        if self.in_flight_max > 1 {
            let first = piece.start / block_bytes();
            // A piece that is not asked for now is read when it is waited for.
            let _ = read_ahead(file.as_fd(), first, piece.end.div_ceil(block_bytes()) - first);
        }
        self.in_flight.push_back((Rc::clone(file), piece));
        if self.in_flight.len() < self.in_flight_max { Ok(()) } else { self.wait().map(drop) }
    }

    /// Waits for the oldest piece; false if there is none.
    ///
    /// # Errors
    /// That of reading it. It is not in flight any more.
    pub fn wait(&mut self) -> Result<bool, Failed> {
        let Some((file, piece)) = self.in_flight.pop_front() else { return Ok(false) };
        let mut start = piece.start;
        while start < piece.end {
            let length = self.scratch.len().min((piece.end - start) as usize);
            match file.read_at(&mut self.scratch[..length], start) {
                // It was cut off meanwhile.
                Ok(0) => break,
                Ok(count) => {
                    start += count as u64;
                    self.read_bytes += count as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Failed { file: piece.file, error }),
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::restore::plan::{Wanted, pieces};

    /// A failed read is told with its own file, not with the one that was asked for meanwhile. So
    /// are those that are waited for last.
    #[test]
    fn a_failed_read_is_that_of_its_own_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![1; 1 << 16]).unwrap();
        let good = Rc::new(File::open(&path).unwrap());
        // One that may not be read.
        let bad = Rc::new(File::options().write(true).open(&path).unwrap());
        let wanted = |file| Wanted { file, priority: 0, device: 0, missing: vec![(0, 1 << 16, None)] };
        let files = 2 * IN_FLIGHT_MAX;
        let is_bad = |file: usize| [3, files - 1].contains(&file);
        for mut reader in [Reader::new(), Reader::within_budget()] {
            let mut failed = Vec::new();
            for piece in pieces((0..files).map(wanted).collect(), u64::MAX).0 {
                let file = if is_bad(piece.file) { &bad } else { &good };
                failed.extend(reader.ask(file, piece).err());
            }
            loop {
                match reader.wait() {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(one) => failed.push(one),
                }
            }
            let named: Vec<usize> = failed.iter().map(|one| one.file).collect();
            assert_eq!(named, [3, files - 1], "{failed:?}");
            assert_eq!(reader.read_bytes, (files as u64 - 2) << 16);
        }
    }
}
