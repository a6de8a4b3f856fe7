//! Our own recorded traces: which process read or wrote which bytes of which file, when.
//! `docs/FORMAT.md` has the bytes.
//!
//! A record stands on what came before (same owner, same file, where the last one ended), so that a
//! sequential read takes a few bytes; a trace that is cut is known by its missing end.

use std::collections::HashMap;
use std::io::{self, Write};

use crate::error::Bad;
use crate::names::Names;
use crate::{Content, Request};

/// First bytes of a file.
pub const MAGIC: [u8; 8] = *b"PANTLERT";
/// Version that is written, and the only one that is read.
pub const VERSION: u32 = 1;
/// Bytes in the header: magic, version, flags.
pub const HEADER_BYTES: usize = 16;
/// Flag: offsets are keys of objects, not bytes.
const KEYS: u32 = 1;
/// Flag: behind each request stand its object and how many there are in a row, and these are what
/// it counts as.
const OBJECTS: u32 = 2;

/// Longest name in bytes: a path, and room.
const NAME_BYTES_MAX: usize = 1 << 14;
/// No record is longer: tag, length and name.
pub const RECORD_BYTES_MAX: usize = NAME_BYTES_MAX + 16;

const END: u8 = 0;
const OWNER: u8 = 1;
const FILE: u8 = 2;
/// A request, with these in the lower bits.
const REQUEST: u8 = 0x80;
const WRITES: u8 = 0x01;
const OTHER_OWNER: u8 = 0x02;
const OTHER_FILE: u8 = 0x04;
const ELSEWHERE: u8 = 0x08;
const OTHER_LENGTH: u8 = 0x10;
const TIMED: u8 = 0x20;
const KNOWN_BITS: u8 = REQUEST | WRITES | OTHER_OWNER | OTHER_FILE | ELSEWHERE | OTHER_LENGTH | TIMED;

/// What a record stands on. Reader and writer keep the same.
#[derive(Default)]
struct Before {
    owner: u64,
    file: u64,
    length: u32,
    time_ns: u64,
    /// Where the last request to each file ended.
    ends: HashMap<u64, u64>,
    requests: u64,
}

impl Before {
    fn end(&self, file: u64) -> u64 {
        self.ends.get(&file).copied().unwrap_or(0)
    }

    fn advance(&mut self, request: &Request, keys: bool) {
        (self.owner, self.file) = (request.owner.into(), request.file.into());
        self.length = request.length;
        self.time_ns = request.time_ns.unwrap_or(self.time_ns);
        let step = if keys { 1 } else { u64::from(request.length) };
        self.ends.insert(self.file, request.offset.wrapping_add(step));
        self.requests += 1;
    }
}

/// The parser.
pub struct Recorded {
    keys: bool,
    objects: bool,
    before: Before,
    /// Numbers in the names of the trace, by the numbers in the file.
    owners: Vec<u32>,
    files: Vec<u32>,
    ended: bool,
}

impl Recorded {
    /// Reads the header.
    pub fn of(head: &[u8]) -> Result<Recorded, Bad> {
        if head.len() < HEADER_BYTES || !head.starts_with(&MAGIC) {
            return Err(Bad::new(&head[..head.len().min(8)], "a recorded trace, which starts with PANTLERT"));
        }
        let word = |at: usize| u32::from_le_bytes(super::bytes(head, at));
        if word(8) != VERSION {
            return Err(Bad::number(word(8), "version 1 of the format of recorded traces"));
        }
        let (keys, objects) = match word(12) {
            0 => (false, false),
            KEYS => (true, false),
            OBJECTS => (false, true),
            flags => return Err(Bad::number(flags, "flags that this version knows: 0, 1 or 2")),
        };
        Ok(Recorded {
            keys,
            objects,
            before: Before::default(),
            owners: Vec::new(),
            files: Vec::new(),
            ended: false,
        })
    }

    /// Whether offsets are bytes.
    pub fn has_ranges(&self) -> bool {
        !self.keys
    }

    /// Whether references are objects by default.
    pub fn counts_objects(&self) -> bool {
        self.objects
    }

    /// Whether the end was read.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Takes one record from the first bytes, and says how many it took.
    ///
    /// `bytes` holds [`RECORD_BYTES_MAX`] bytes, or the rest of the file.
    pub fn record(&mut self, bytes: &[u8], names: &mut Names, out: &mut Vec<Request>) -> Result<usize, Bad> {
        let mut cursor = Cursor { bytes, at: 0 };
        if self.ended {
            return Err(Bad::number(format_args!("{} bytes or more", bytes.len()), "nothing behind the end"));
        }
        match cursor.byte()? {
            END => {
                let requests = cursor.number()?;
                if requests != self.before.requests {
                    return Err(Bad::number(requests, "as many requests at the end as there were"));
                }
                self.ended = true;
            }
            tag @ (OWNER | FILE) => {
                let length = cursor.number()?;
                let length = usize::try_from(length).ok().filter(|&length| length <= NAME_BYTES_MAX);
                let length = length.ok_or_else(|| Bad::number("a name", "names of up to 16 KiB"))?;
                let name = cursor.take(length)?;
                if tag == OWNER {
                    self.owners.push(names.owner(name)?);
                } else {
                    self.files.push(names.file(name)?);
                }
            }
            tag if tag & REQUEST != 0 && tag & !KNOWN_BITS == 0 => out.push(self.request(tag, &mut cursor)?),
            tag => return Err(Bad::number(tag, "the first byte of a record")),
        }
        Ok(cursor.at)
    }

    fn request(&mut self, tag: u8, cursor: &mut Cursor) -> Result<Request, Bad> {
        let owner = if tag & OTHER_OWNER != 0 { cursor.number()? } else { self.before.owner };
        let file = if tag & OTHER_FILE != 0 { cursor.number()? } else { self.before.file };
        let offset = if tag & ELSEWHERE != 0 { cursor.number()? } else { self.before.end(file) };
        let length = if tag & OTHER_LENGTH != 0 { cursor.number()? } else { self.before.length.into() };
        let length = u32::try_from(length).map_err(|_| Bad::number(length, "a length below 4 GiB"))?;
        let mut time_ns = None;
        if tag & TIMED != 0 {
            let step = cursor.number()?;
            // Zigzag: times of several processors need not ascend.
            let step = (step >> 1) as i64 ^ -((step & 1) as i64);
            time_ns = Some(self.before.time_ns.wrapping_add_signed(step));
        }
        let known = |number: u64, known: &[u32], what: &'static str| {
            let found = usize::try_from(number).ok().and_then(|number| known.get(number).copied());
            found.or((number == 0 && known.is_empty()).then_some(0)).ok_or_else(|| Bad::number(number, what))
        };
        let mut request = Request {
            time_ns,
            owner: known(owner, &self.owners, "the number of an owner that was named before")?,
            file: known(file, &self.files, "the number of a file that was named before")?,
            object: offset,
            objects: 1,
            offset,
            length,
            write: tag & WRITES != 0,
        };
        if self.objects {
            request.object = cursor.number()?;
            let objects = cursor.number()?;
            let counted =
                u32::try_from(objects).ok().filter(|objects| (1..=super::OBJECTS_MAX).contains(objects));
            request.objects = counted.ok_or_else(|| Bad::number(objects, "from 1 to 2097152 objects"))?;
        }
        let numbers = (request.owner, request.file);
        (request.owner, request.file) = (owner as u32, file as u32);
        self.before.advance(&request, self.keys);
        (request.owner, request.file) = numbers;
        Ok(request)
    }
}

/// Bytes taken from the front.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Bad> {
        let taken = self.bytes.get(self.at..self.at + length);
        self.at += length;
        taken.ok_or_else(|| {
            Bad::number(format_args!("{} bytes", self.bytes.len()), "a whole record; the file is cut")
        })
    }

    fn byte(&mut self) -> Result<u8, Bad> {
        Ok(self.take(1)?[0])
    }

    /// LEB128: seven bits a byte, lowest first.
    fn number(&mut self) -> Result<u64, Bad> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Bad::number("a number", "numbers below 2^64"))
    }
}

/// Writes requests in this form.
///
/// Without [`finish`](Encoder::finish) the trace counts as cut.
pub struct Encoder<W> {
    out: W,
    content: Content,
    before: Before,
    owners: usize,
    files: usize,
}

impl<W: Write> Encoder<W> {
    /// Writes the header.
    pub fn new(mut out: W, content: Content) -> io::Result<Encoder<W>> {
        let flags = match content {
            Content::Ranges => 0,
            Content::Keys => KEYS,
            Content::KeyedRanges => OBJECTS,
        };
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        out.write_all(&flags.to_le_bytes())?;
        Ok(Encoder { out, content, before: Before::default(), owners: 0, files: 0 })
    }

    /// Writes a request, and before it those of the names that are new.
    pub fn write(&mut self, request: &Request, owners: &[String], files: &[String]) -> io::Result<()> {
        for (tag, names, written) in [(OWNER, owners, &mut self.owners), (FILE, files, &mut self.files)] {
            for name in &names[(*written).min(names.len())..] {
                let mut cut = name.len().min(NAME_BYTES_MAX);
                while !name.is_char_boundary(cut) {
                    cut -= 1;
                }
                self.out.write_all(&[tag])?;
                number(&mut self.out, cut as u64)?;
                self.out.write_all(&name.as_bytes()[..cut])?;
            }
            *written = names.len();
        }
        let keys = self.content == Content::Keys;
        let offset = if keys { request.object } else { request.offset };
        let request = Request { offset, ..*request };
        let (owner, file) = (u64::from(request.owner), u64::from(request.file));
        let mut tag = REQUEST | if request.write { WRITES } else { 0 };
        let mut fields = Vec::with_capacity(5);
        let mut differs = |bit: u8, differs: bool, value: u64| {
            if differs {
                tag |= bit;
                fields.push(value);
            }
        };
        differs(OTHER_OWNER, owner != self.before.owner, owner);
        differs(OTHER_FILE, file != self.before.file, file);
        differs(ELSEWHERE, request.offset != self.before.end(file), request.offset);
        differs(OTHER_LENGTH, request.length != self.before.length, request.length.into());
        if let Some(time) = request.time_ns {
            let step = time.wrapping_sub(self.before.time_ns) as i64;
            differs(TIMED, true, (step << 1 ^ step >> 63) as u64);
        }
        self.out.write_all(&[tag])?;
        for field in fields {
            number(&mut self.out, field)?;
        }
        if self.content == Content::KeyedRanges {
            number(&mut self.out, request.object)?;
            number(&mut self.out, request.objects.into())?;
        }
        self.before.advance(&request, keys);
        Ok(())
    }

    /// Writes the end.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.write_all(&[END])?;
        number(&mut self.out, self.before.requests)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

fn number(out: &mut impl Write, mut number: u64) -> io::Result<()> {
    while number > 0x7f {
        out.write_all(&[number as u8 | 0x80])?;
        number >>= 7;
    }
    out.write_all(&[number as u8])
}
