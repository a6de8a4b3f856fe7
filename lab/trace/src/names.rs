//! Names of owners and files, numbered in order of first use.

use std::collections::HashMap;

use crate::builder::OWNERS_MAX;
use crate::error::Bad;

const FILES_MAX: usize = 1 << 24;
/// Bytes of all names together.
const NAME_BYTES_MAX: usize = 256 << 20;

/// The owners and files of a trace, as they turn up.
#[derive(Default)]
pub struct Names {
    owners: Numbered,
    files: Numbered,
}

impl Names {
    /// The number of an owner.
    pub fn owner(&mut self, name: &[u8]) -> Result<u32, Bad> {
        self.owners.number(name, OWNERS_MAX as usize, "at most 65535 owners, with 256 MiB of names")
    }

    /// The number of a file.
    pub fn file(&mut self, name: &[u8]) -> Result<u32, Bad> {
        self.files.number(name, FILES_MAX, "at most 16777216 files, with 256 MiB of names")
    }

    /// Owners by number.
    pub fn owners(&self) -> &[String] {
        &self.owners.names
    }

    /// Files by number.
    pub fn files(&self) -> &[String] {
        &self.files.names
    }

    /// Both, owners first.
    pub fn into_lists(self) -> (Vec<String>, Vec<String>) {
        (self.owners.names, self.files.names)
    }
}

#[derive(Default)]
struct Numbered {
    numbers: HashMap<Vec<u8>, u32>,
    /// What of a name is no UTF-8 shows as U+FFFD.
    names: Vec<String>,
    bytes: usize,
    /// The name asked for last: most traces stay with a file for a while.
    last: Option<(Vec<u8>, u32)>,
}

impl Numbered {
    fn number(&mut self, name: &[u8], most: usize, expected: &'static str) -> Result<u32, Bad> {
        if let Some((last, number)) = &self.last
            && last == name
        {
            return Ok(*number);
        }
        let number = match self.numbers.get(name) {
            Some(&number) => number,
            None => {
                if self.names.len() >= most || self.bytes + name.len() > NAME_BYTES_MAX {
                    return Err(Bad::new(name, expected));
                }
                let number = self.names.len() as u32;
                self.bytes += name.len();
                self.names.push(String::from_utf8_lossy(name).into_owned());
                self.numbers.insert(name.to_vec(), number);
                number
            }
        };
        let (last, last_number) = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(name);
        *last_number = number;
        Ok(number)
    }
}
