//! Prepared traces as files, mapped when they are used again. `docs/FORMAT.md` has the bytes.
//!
//! ```text
//!   0        8         12       16         24         32     36      40      48          56         64
//!   | magic  | version | columns| requests | distinct | unit | bytes | names | checksum  | checksum |
//!   |        |         |        |          |          |      | each  | bytes | of body   | of these |
//!   64
//!   | requests | next uses? | owners? | blocks | files? | sizes? | names |      each starts at a multiple of 8
//! ```
//!
//! A file is input: everything is checked before it is used, down to each number, so that whatever
//! stands in it can give wrong figures but never leave the arrays. It is written under another name
//! and renamed when it is whole.

use std::fs::{self, File};
use std::hash::Hasher;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use twox_hash::XxHash3_64;

use crate::builder::OWNERS_MAX;
use crate::memory::{Column, Map, Plain};
use crate::unit::{BLOCK_BYTES_MAX, BLOCK_BYTES_MIN};
use crate::{NEVER, Prepared, TraceError, Unit};

/// First bytes of a file.
pub const MAGIC: [u8; 8] = *b"PANTLERP";
/// Version that is written, and the only one that is read.
const VERSION: u32 = 2;
/// Bytes before the columns.
const HEADER_BYTES: usize = 64;
/// Where the checksum of all behind the header stands.
const BODY_CHECKSUM: usize = 48;
/// Where the header's own checksum stands.
const HEADER_CHECKSUM: usize = 56;
/// Columns start at multiples of this.
const ALIGNMENT: usize = 8;
/// Bytes turned at once.
const CHUNK_NUMBERS: usize = 1 << 15;
/// Bytes of all names together, with their lengths.
const NAME_BYTES_MAX: u64 = 1 << 30;

const NEXT_USES: u32 = 1;
const OWNERS: u32 = 2;
const FILES: u32 = 4;
const SIZES: u32 = 8;

/// Sizes and places of everything in a file, from the numbers in its header.
struct Layout {
    columns: u32,
    requests: usize,
    distinct: usize,
    unit: Unit,
    object_bytes: u32,
    names: usize,
}

impl Layout {
    /// First byte of each column that could be there, of the names, and behind the last; `None` if
    /// that is no file.
    fn places(&self) -> Option<[usize; 8]> {
        let has = |column| usize::from(self.columns & column != 0);
        let bytes = [
            self.requests.checked_mul(4)?,
            self.requests.checked_mul(4 * has(NEXT_USES))?,
            self.requests.checked_mul(2 * has(OWNERS))?,
            self.distinct.checked_mul(8)?,
            self.distinct.checked_mul(4 * has(FILES))?,
            self.distinct.checked_mul(4 * has(SIZES))?,
            self.names,
        ];
        let mut places = [HEADER_BYTES; 8];
        for (at, bytes) in bytes.into_iter().enumerate() {
            places[at + 1] = places[at].checked_add(bytes)?.checked_next_multiple_of(ALIGNMENT)?;
        }
        Some(places)
    }
}

impl Prepared {
    /// Writes the trace to a file for [`load`](Prepared::load). Next uses are stored if they were
    /// computed before.
    ///
    /// `about` is kept with it: whatever the caller wants to know again.
    ///
    /// # Errors
    ///
    /// [`TraceError::Io`]; the file is then not there, or the one that was there before.
    pub fn save(&self, path: &Path, about: &str) -> Result<(), TraceError> {
        let io = |source| TraceError::Io { action: "write", path: path.to_owned(), source };
        let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
        let result = File::create(&temporary).and_then(|file| {
            self.write(file, about)?;
            fs::rename(&temporary, path)
        });
        if result.is_err() {
            // What was begun is of no use; why it failed is what counts.
            let _ = fs::remove_file(&temporary);
        }
        result.map_err(io)
    }

    fn write(&self, file: File, about: &str) -> io::Result<()> {
        let mut body = Body { file, checksum: XxHash3_64::with_seed(0), bytes: Vec::new() };
        body.file.write_all(&[0; HEADER_BYTES])?;
        let mut columns = 0;
        body.column(&self.requests)?;
        let next_uses = self.next_uses.get();
        columns |= if next_uses.is_some() { NEXT_USES } else { 0 };
        body.column(next_uses.map_or(&[][..], |column| column))?;
        columns |= if self.owners.is_some() { OWNERS } else { 0 };
        body.column(self.owners().unwrap_or_default())?;
        let ids: Vec<u64>;
        body.column(match &self.blocks[..] {
            [] => {
                ids = (0..self.distinct.into()).collect();
                &ids
            }
            blocks => blocks,
        })?;
        columns |= if self.files.is_some() { FILES } else { 0 };
        body.column(self.files().unwrap_or_default())?;
        columns |= if self.sizes.is_some() { SIZES } else { 0 };
        body.column(self.sizes().unwrap_or_default())?;
        let names = self.names(about);
        body.put(&names)?;
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend(MAGIC);
        header.extend(VERSION.to_le_bytes());
        header.extend(columns.to_le_bytes());
        header.extend((self.requests.len() as u64).to_le_bytes());
        header.extend(u64::from(self.distinct).to_le_bytes());
        let unit = if let Unit::Block(bytes) = self.unit { bytes } else { 0 };
        header.extend(unit.to_le_bytes());
        header.extend(self.object_bytes.to_le_bytes());
        header.extend((names.len() as u64).to_le_bytes());
        header.extend(body.checksum.finish().to_le_bytes());
        header.extend(checksum(&header).to_le_bytes());
        std::os::unix::fs::FileExt::write_all_at(&body.file, &header, 0)
    }

    /// Three lists: owners, files, and what the caller wants to know again.
    fn names(&self, about: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        for list in [self.owner_names(), self.file_names(), &[about.to_owned()]] {
            bytes.extend((list.len() as u32).to_le_bytes());
            for name in list {
                bytes.extend((name.len() as u32).to_le_bytes());
                bytes.extend(name.as_bytes());
            }
        }
        bytes
    }

    /// Maps a file that [`save`](Prepared::save) wrote; with it comes what `save` was told to keep.
    ///
    /// # Errors
    ///
    /// [`TraceError::Io`], or [`TraceError::Prepared`] if it is cut, damaged, or of another program
    /// or version.
    pub fn load(path: &Path) -> Result<(Prepared, String), TraceError> {
        let io = |source| TraceError::Io { action: "read", path: path.to_owned(), source };
        let wrong = |problem: String| TraceError::Prepared { path: path.to_owned(), problem };
        if cfg!(target_endian = "big") {
            return Err(wrong("its numbers are little-endian, and this processor's are not".to_owned()));
        }
        let mut file = File::open(path).map_err(io)?;
        let mut header = [0; HEADER_BYTES];
        file.read_exact(&mut header).map_err(|_| wrong("it is shorter than its header".to_owned()))?;
        let layout = layout(&header).map_err(wrong)?;
        let length = file.metadata().map_err(io)?.len();
        let places = layout.places().filter(|places| places[7] as u64 == length);
        let places =
            places.ok_or_else(|| wrong(format!("its header and its {length} bytes disagree; it is cut")))?;
        let map = Arc::new(Map::new(&file, places[7]).map_err(io)?);
        let body = u64::from_le_bytes(map[BODY_CHECKSUM..HEADER_CHECKSUM].try_into().expect("eight bytes"));
        if checksum(&map[HEADER_BYTES..]) != body {
            return Err(wrong("its checksum does not fit its bytes; it is damaged".to_owned()));
        }
        let [owner_names, file_names, mut about] = names(&map[places[6]..places[6] + layout.names])
            .ok_or_else(|| wrong("its names make no sense".to_owned()))?;
        let numbers = |column: u32, at: usize, length: usize| {
            (layout.columns & column != 0).then(|| Column::mapped(&map, places[at], length))
        };
        let (requests, distinct) = (layout.requests, layout.distinct);
        let next_uses = OnceLock::new();
        if let Some(column) = numbers(NEXT_USES, 1, requests) {
            next_uses.get_or_init(|| column);
        }
        let owners = layout.columns & OWNERS != 0;
        let trace = Prepared {
            unit: layout.unit,
            requests: Column::mapped(&map, places[0], requests),
            next_uses,
            computing: Mutex::default(),
            owners: owners.then(|| Column::mapped(&map, places[2], requests)),
            owner_names,
            distinct: u32::try_from(distinct)
                .map_err(|_| wrong(format!("{distinct} blocks are too many")))?,
            blocks: Column::mapped(&map, places[3], distinct),
            files: numbers(FILES, 4, distinct),
            file_names,
            sizes: numbers(SIZES, 5, distinct),
            object_bytes: layout.object_bytes,
        };
        trace.check().map_err(|rule| wrong(format!("its numbers break rule {rule} of prepared traces")))?;
        Ok((trace, about.pop().unwrap_or_default()))
    }

    /// What simulations rely on (P1 to P4; the header's own check is P5), in one pass over each
    /// column.
    fn check(&self) -> Result<(), &'static str> {
        let rule = |holds: bool, rule: &'static str| if holds { Ok(()) } else { Err(rule) };
        let mut known = 0;
        let dense = self.requests().iter().all(|&id| {
            let fits = id <= known;
            known += u32::from(id == known);
            fits
        });
        rule(dense && known == self.distinct, "P1")?;
        if let Some(next_uses) = self.next_uses.get() {
            let later = |(at, &next): (usize, &u32)| {
                next == NEVER
                    || (next as usize > at && self.requests.get(next as usize) == Some(&self.requests[at]))
            };
            rule(next_uses.iter().enumerate().all(later), "P2")?;
        }
        // Counts by owner are counts by name.
        let owners = self.owner_names.len();
        rule(owners <= OWNERS_MAX as usize, "P4")?;
        rule(self.owners().unwrap_or_default().iter().all(|&owner| usize::from(owner) < owners), "P4")?;
        let files = self.file_names.len().max(1);
        rule(self.files().unwrap_or_default().iter().all(|&file| (file as usize) < files), "P4")
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// The bytes of a file.
pub fn to_bytes(trace: &Prepared) -> Result<Vec<u8>, TraceError> {
    let path = std::env::temp_dir().join(format!("pantler-sample-{}.prepared", std::process::id()));
    trace.save(&path, "sample")?;
    let bytes = fs::read(&path).and_then(|bytes| fs::remove_file(&path).map(|()| bytes));
    bytes.map_err(|source| TraceError::Io { action: "read", path, source })
}

/// The same bytes with checksums that fit, for tests of what they protect. Too few bytes stay as
/// they are.
pub fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.len() >= HEADER_BYTES {
        let body = checksum(&bytes[HEADER_BYTES..]);
        bytes[BODY_CHECKSUM..HEADER_CHECKSUM].copy_from_slice(&body.to_le_bytes());
        let header = checksum(&bytes[..HEADER_CHECKSUM]);
        bytes[HEADER_CHECKSUM..HEADER_BYTES].copy_from_slice(&header.to_le_bytes());
    }
    bytes
}

/// What a header says, as far as it makes sense by itself.
fn layout(header: &[u8; HEADER_BYTES]) -> Result<Layout, String> {
    let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
    let long = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
    if !header.starts_with(&MAGIC) {
        return Err("it does not start with PANTLERP, so it is no prepared trace".to_owned());
    }
    if word(8) != VERSION {
        return Err(format!("it has version {}, and this program reads version {VERSION}", word(8)));
    }
    if checksum(&header[..HEADER_CHECKSUM]) != long(HEADER_CHECKSUM) {
        return Err("the checksum of its header does not fit; it is damaged".to_owned());
    }
    let block = |bytes: u32| bytes.is_power_of_two() && (BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&bytes);
    let unit = match word(32) {
        0 => Some(Unit::Object),
        bytes => block(bytes).then_some(Unit::Block(bytes)),
    };
    let (requests, distinct, names) = (long(16), long(24), long(40));
    let bounded = requests <= NEVER.into() && distinct <= requests && names <= NAME_BYTES_MAX;
    // Sizes are said once: by the unit, by a column, or here.
    let known_once = word(36) == 0 || (unit == Some(Unit::Object) && word(12) & SIZES == 0);
    match unit {
        Some(unit) if bounded && word(12) & !(NEXT_USES | OWNERS | FILES | SIZES) == 0 && known_once => {
            let (requests, distinct, names) = (requests as usize, distinct as usize, names as usize);
            Ok(Layout { columns: word(12), requests, distinct, unit, object_bytes: word(36), names })
        }
        _ => Err("its header makes no sense".to_owned()),
    }
}

/// Three lists of names; `None` if the bytes are none.
fn names(mut bytes: &[u8]) -> Option<[Vec<String>; 3]> {
    fn length(bytes: &mut &[u8]) -> Option<usize> {
        let (head, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        usize::try_from(u32::from_le_bytes(*head)).ok()
    }
    let mut list = || {
        let count = length(&mut bytes)?;
        // Room grows with what is there, not with what a number promises.
        let mut names = Vec::new();
        for _ in 0..count {
            let (name, rest) = {
                let length = length(&mut bytes)?;
                bytes.split_at_checked(length)?
            };
            bytes = rest;
            names.push(str::from_utf8(name).ok()?.to_owned());
        }
        Some(names)
    };
    let lists = [list()?, list()?, list()?];
    bytes.is_empty().then_some(lists)
}

/// What follows the header: written and summed up on the way.
struct Body {
    file: File,
    checksum: XxHash3_64,
    bytes: Vec<u8>,
}

impl Body {
    fn column<T: Plain>(&mut self, numbers: &[T]) -> io::Result<()> {
        let mut written = 0;
        for chunk in numbers.chunks(CHUNK_NUMBERS) {
            self.bytes.clear();
            T::append(chunk, &mut self.bytes);
            self.checksum.write(&self.bytes);
            self.file.write_all(&self.bytes)?;
            written += self.bytes.len();
        }
        self.pad(written)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.checksum.write(bytes);
        self.file.write_all(bytes)?;
        self.pad(bytes.len())
    }

    fn pad(&mut self, written: usize) -> io::Result<()> {
        let padding = &[0; ALIGNMENT][..written.next_multiple_of(ALIGNMENT) - written];
        self.checksum.write(padding);
        self.file.write_all(padding)
    }
}

/// Where prepared traces are kept, for a trace file and the way it is read.
///
/// Everything that could change the result is in the name: the file by path, size and time, and the
/// options.
pub struct Place {
    /// The file.
    pub path: PathBuf,
    /// What the name was made from. It is kept in the file, because names can collide.
    pub key: String,
}

impl Place {
    /// The place in a folder.
    pub fn new(folder: &Path, key: String) -> Place {
        let name = format!("{:016x}.prepared", checksum(key.as_bytes()));
        Place { path: folder.join(name), key }
    }
}

/// Removes what was used longest ago until the rest is no more than `bytes_max`. What cannot be
/// removed stays.
pub fn trim(folder: &Path, bytes_max: u64) {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<(std::time::SystemTime, u64, PathBuf)> = files
        .filter(|file| file.path().extension().is_some_and(|extension| extension == "prepared"))
        .filter_map(|file| {
            let metadata = file.metadata().ok()?;
            Some((metadata.modified().ok()?, metadata.len(), file.path()))
        })
        .collect();
    files.sort();
    let mut sum: u64 = files.iter().map(|file| file.1).sum();
    // The newest one stays, however large it is.
    files.pop();
    for (_, bytes, path) in files {
        if sum <= bytes_max {
            return;
        }
        if fs::remove_file(path).is_ok() {
            sum -= bytes;
        }
    }
}

#[cfg(test)]
mod tests;
