//! The way of a program into its run.

use std::fs::File;
use std::io::{self, Write};

/// What a child needs to put itself into the run: opened with our rights, which the kernel checks,
/// not the child's.
#[derive(Debug)]
pub(crate) struct Doors {
    groups: Vec<File>,
    lists: Vec<File>,
}

impl Doors {
    pub(crate) fn new(groups: Vec<File>, lists: Vec<File>) -> Self {
        Self { groups, lists }
    }

    /// Called between fork and exec: neither allocates nor waits.
    pub(crate) fn enter(&self) -> io::Result<()> {
        for mut group in &self.groups {
            group.write_all(b"0")?;
        }
        let mut text = [0u8; 12];
        let pid = decimal(std::process::id(), &mut text);
        for mut list in &self.lists {
            list.write_all(pid)?;
        }
        Ok(())
    }
}

/// Writes a number in decimal without allocating.
fn decimal(mut number: u32, text: &mut [u8; 12]) -> &[u8] {
    let mut at = text.len();
    loop {
        at -= 1;
        text[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &text[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_without_allocating() {
        let mut text = [0; 12];
        assert_eq!(decimal(0, &mut text), b"0");
        assert_eq!(decimal(4_194_304, &mut text), b"4194304");
        assert_eq!(decimal(u32::MAX, &mut text), b"4294967295");
    }
}
