//! Where the fields of an event are, as its `format` file says.
//!
//! ```text
//! name: mm_filemap_get_pages
//! ID: 599
//! format:
//!     field:unsigned short common_type;   offset:0;   size:2; signed:0;
//!     field:unsigned long i_ino;          offset:8;   size:8; signed:0;
//! ```

use pantler_kernel::pages::block_bytes;

use crate::calls::Call;
use crate::error::WatchError;
use crate::page::array_at;
use crate::{Event, Kind, Told};

/// One field of a record: where and how wide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    offset: usize,
    size: usize,
}

impl Field {
    pub(crate) fn read(self, record: &[u8]) -> Option<u64> {
        match self.size {
            8 => array_at(record, self.offset).map(u64::from_ne_bytes),
            4 => array_at(record, self.offset).map(|bytes| u32::from_ne_bytes(bytes).into()),
            2 => array_at(record, self.offset).map(|bytes| u16::from_ne_bytes(bytes).into()),
            _ => record.get(self.offset).map(|&byte| u64::from(byte)),
        }
    }
}

/// How the range of pages is written down.
#[derive(Debug, Clone, Copy)]
enum Range {
    One,
    Order(Field),
    Last(Field),
    /// A number of bytes, where the first field is a place in bytes, too.
    Bytes(Field),
}

/// The layout of the records of one event.
#[derive(Debug, Clone)]
pub struct Layout {
    /// What the event tells.
    pub kind: Kind,
    /// Its number on this kernel, the first two bytes of a record.
    pub id: u16,
    tid: Field,
    dev: Field,
    ino: Field,
    first: Field,
    range: Range,
    /// Whether the last page is the one after: see [`Layouts::reads_end_after`].
    ends_after: bool,
}

impl Layout {
    /// Reads a `format` file.
    ///
    /// # Errors
    /// [`WatchError::Format`] names the field that is missing: the kernel is too old or too new.
    pub fn parse(kind: Kind, text: &str) -> Result<Layout, WatchError> {
        let event = super::tracepoint(kind);
        let field = |name: &str| needed(event, text, name);
        let id = number_of(event, text)?;
        let count = field_named(text, "count").filter(|_| kind == Kind::Read);
        let range = match kind {
            // A probe tells bytes.
            Kind::Read if count.is_some() => Range::Bytes(count.expect("just seen")),
            Kind::Read | Kind::Mapped => Range::Last(field("last_index")?),
            // Kernels before 5.18 have no order: then every folio is one page, or its pages come
            // one by one.
            Kind::Added | Kind::Gone => field_named(text, "order").map_or(Range::One, Range::Order),
            Kind::Fault => Range::One,
        };
        Ok(Layout {
            kind,
            id,
            tid: field("common_pid")?,
            dev: field("s_dev")?,
            ino: field("i_ino")?,
            first: field(if count.is_some() { "position" } else { "index" })?,
            range,
            ends_after: false,
        })
    }

    /// Reads one record; `None` when it is too short or its range is none.
    pub fn decode(&self, time_ns: u64, source: u8, record: &[u8]) -> Option<Event> {
        let told = self.first.read(record)?;
        let first = if matches!(self.range, Range::Bytes(_)) { told / block_bytes() } else { told };
        let last = match self.range {
            Range::One => first,
            Range::Order(order) => first.checked_add((1u64 << order.read(record)?.min(20)) - 1)?,
            Range::Last(last) => last.read(record)?.checked_sub(u64::from(self.ends_after))?,
            Range::Bytes(count) => told.checked_add(count.read(record)?)?.checked_sub(1)? / block_bytes(),
        };
        if last < first {
            return None;
        }
        Some(Event {
            time_ns,
            kind: self.kind,
            source,
            tid: u32::try_from(self.tid.read(record)?).ok()?,
            dev: u32::try_from(self.dev.read(record)?).ok()?,
            ino: self.ino.read(record)?,
            first,
            last,
        })
    }
}

/// The layouts of what the kernel says of threads.
#[derive(Debug, Clone, Copy)]
struct Threads {
    /// The numbers of the events: one was started, one ended.
    ids: [u16; 2],
    tid: Field,
    started: Field,
}

/// What tells of threads that are started, and that end: where the tracepoints are below `events/`.
pub const THREADS: [&str; 2] = ["task/task_newtask", "sched/sched_process_exit"];

impl Threads {
    fn decode(&self, id: u16, time_ns: u64, record: &[u8]) -> Option<Told> {
        let tid = |field: Field| u32::try_from(field.read(record)?).ok();
        let own = tid(self.tid)?;
        match self.ids.iter().position(|known| *known == id)? {
            0 => Some(Told::Started { time_ns, by: own, thread: tid(self.started)? }),
            _ => Some(Told::Ended { time_ns, thread: own }),
        }
    }
}

/// The tracepoint that tells of pages that are written, below `events/`: since Linux 5.18, and
/// before.
pub const WRITTEN: [&str; 2] = ["writeback/writeback_dirty_folio", "writeback/writeback_dirty_page"];

/// The layout of what the kernel says of pages that are written.
#[derive(Debug, Clone, Copy)]
struct Written {
    id: u16,
    tid: Field,
    ino: Field,
    page: Field,
}

impl Written {
    fn decode(&self, time_ns: u64, record: &[u8]) -> Option<Told> {
        let thread = u32::try_from(self.tid.read(record)?).ok()?;
        Some(Told::Written { time_ns, thread, ino: self.ino.read(record)?, page: self.page.read(record)? })
    }
}

/// The layouts of one instance, found by the number of the event.
#[derive(Debug, Clone, Default)]
pub struct Layouts {
    pages: Vec<Layout>,
    threads: Option<Threads>,
    written: Option<Written>,
    calls: Vec<Call>,
}

impl Layouts {
    /// Adds one tracepoint.
    pub fn push(&mut self, layout: Layout) {
        self.pages.push(layout);
    }

    /// Adds the tracepoints [`THREADS`], from their `format` files.
    ///
    /// # Errors
    /// As [`Layout::parse`].
    pub fn add_threads(&mut self, formats: [&str; 2]) -> Result<(), WatchError> {
        let [started, ended] = formats;
        self.threads = Some(Threads {
            ids: [number_of(THREADS[0], started)?, number_of(THREADS[1], ended)?],
            tid: needed(THREADS[0], started, "common_pid")?,
            started: needed(THREADS[0], started, "pid")?,
        });
        Ok(())
    }

    /// Adds the tracepoint of pages that are written, from its `format` file.
    ///
    /// # Errors
    /// As [`Layout::parse`].
    pub fn add_written(&mut self, format: &str) -> Result<(), WatchError> {
        let field = |name| needed(WRITTEN[0], format, name);
        let id = number_of(WRITTEN[0], format)?;
        let (tid, ino, page) = (field("common_pid")?, field("ino")?, field("index")?);
        self.written = Some(Written { id, tid, ino, page });
        Ok(())
    }

    /// Adds calls by which programs advise.
    pub(crate) fn add_calls(&mut self, calls: Vec<Call>) {
        self.calls = calls;
    }

    /// From now on the last page of a read is the one before the page that the kernel writes down.
    /// The first kernels with this tracepoint did so, and some of them were corrected in a later
    /// release: only a try can tell.
    pub fn reads_end_after(&mut self) {
        let pages =
            |layout: &&mut Layout| layout.kind == Kind::Read && matches!(layout.range, Range::Last(_));
        for layout in self.pages.iter_mut().filter(pages) {
            layout.ends_after = true;
        }
    }

    /// Reads one record of any known tracepoint; others (and broken ones) are `None`.
    pub fn decode(&self, time_ns: u64, source: u8, record: &[u8]) -> Option<Told> {
        let id = u16::from_ne_bytes(array_at(record, 0)?);
        match self.pages.iter().find(|layout| layout.id == id) {
            Some(layout) => layout.decode(time_ns, source, record).map(Told::Pages),
            None => self.decode_other(id, time_ns, record),
        }
    }

    /// Reads one record that tells of no pages.
    fn decode_other(&self, id: u16, time_ns: u64, record: &[u8]) -> Option<Told> {
        if let Some(written) = self.written.filter(|written| written.id == id) {
            return written.decode(time_ns, record);
        }
        match self.calls.iter().find(|call| call.id == id) {
            Some(call) => call.decode(time_ns, record),
            None => self.threads?.decode(id, time_ns, record),
        }
    }
}

/// The number of an event on this kernel.
pub(crate) fn number_of(event: &str, text: &str) -> Result<u16, WatchError> {
    let number =
        text.lines().find_map(|line| line.strip_prefix("ID:")).and_then(|rest| rest.trim().parse().ok());
    number.ok_or_else(|| WatchError::Format { event: event.to_owned(), why: "no ID".to_owned() })
}

/// A field without which the event says nothing.
pub(crate) fn needed(event: &str, text: &str, name: &str) -> Result<Field, WatchError> {
    let missing = || WatchError::Format { event: event.to_owned(), why: format!("no field {name}") };
    field_named(text, name).ok_or_else(missing)
}

/// Checks that entries start where [`crate::page`] expects them, and returns the size of a whole
/// page.
///
/// # Errors
/// [`WatchError::Format`] when this kernel's pages look different.
pub fn page_bytes(header_page: &str) -> Result<usize, WatchError> {
    let broken = |why: &str| WatchError::Format { event: "header_page".to_owned(), why: why.to_owned() };
    let data = field_named(header_page, "data").ok_or_else(|| broken("no field data"))?;
    let commit = field_named(header_page, "commit").ok_or_else(|| broken("no field commit"))?;
    if data.offset != crate::page::HEADER_BYTES || commit.offset != 8 || commit.size != 8 {
        return Err(broken("entries do not start at byte 16"));
    }
    Ok(data.offset + data.size)
}

fn field_named(text: &str, name: &str) -> Option<Field> {
    text.lines().map(str::trim).filter_map(|line| line.strip_prefix("field:")).find_map(|line| {
        let mut parts = line.split(';').map(str::trim);
        let declared = parts.next()?.rsplit([' ', '*']).next()?;
        if declared.split('[').next()? != name {
            return None;
        }
        let number = |key| parts.clone().find_map(|part| part.strip_prefix(key))?.trim().parse().ok();
        Some(Field { offset: number("offset:")?, size: number("size:")? })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: &str = include_str!("../tests/data/get_pages.format");
    const ADD: &str = include_str!("../tests/data/add.format");
    /// As Linux 6.1 shows a probe of ours.
    const PROBE: &str = include_str!("../tests/data/probe_read.format");
    const HEADER: &str = include_str!("../tests/data/header_page");

    #[test]
    fn a_read_is_decoded() {
        let layout = Layout::parse(Kind::Read, READ).expect("a known format");
        assert_eq!(layout.id, 599);
        let mut record = vec![0u8; 40];
        record[..2].copy_from_slice(&599u16.to_ne_bytes());
        record[4..8].copy_from_slice(&77u32.to_ne_bytes());
        record[8..16].copy_from_slice(&1234u64.to_ne_bytes());
        record[16..20].copy_from_slice(&(254u32 << 20).to_ne_bytes());
        record[24..32].copy_from_slice(&10u64.to_ne_bytes());
        record[32..40].copy_from_slice(&11u64.to_ne_bytes());
        let mut layouts = Layouts::default();
        layouts.push(layout);
        let Some(Told::Pages(event)) = layouts.decode(5, 0, &record) else { panic!("a read") };
        assert_eq!((event.tid, event.ino, event.dev, event.first, event.last), (77, 1234, 254 << 20, 10, 11));
        assert_eq!(layouts.decode(5, 0, &record[..39]), None, "too short");
        layouts.reads_end_after();
        let Some(Told::Pages(event)) = layouts.decode(5, 0, &record) else { panic!("a read") };
        assert_eq!(event.last, 10, "as older kernels write it");
        record[32] = 9;
        assert_eq!(layouts.decode(5, 0, &record), None, "ends before it begins");
    }

    #[test]
    fn an_order_becomes_a_range() {
        let layout = Layout::parse(Kind::Added, ADD).expect("a known format");
        let mut record = vec![0u8; 40];
        record[24] = 8;
        record[36] = 3;
        let event = layout.decode(0, 1, &record).expect("an add");
        assert_eq!((event.first, event.last, event.source), (8, 15, 1));
        record[36] = 255;
        assert!(layout.decode(0, 1, &record).is_some(), "an odd order is capped, not shifted out");
    }

    #[test]
    fn a_write_is_decoded_among_others() {
        let format = "ID: 9\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
                      \tfield:char name[32];\toffset:8;\tsize:32;\tsigned:0;\n\
                      \tfield:ino_t ino;\toffset:40;\tsize:8;\tsigned:0;\n\
                      \tfield:unsigned long index;\toffset:48;\tsize:8;\tsigned:0;\n";
        let mut layouts = Layouts::default();
        layouts.push(Layout::parse(Kind::Read, READ).expect("a known format"));
        layouts.add_written(format).expect("a known format");
        let mut record = vec![0u8; 56];
        (record[0], record[4], record[40], record[48]) = (9, 77, 5, 3);
        let written = Told::Written { time_ns: 5, thread: 77, ino: 5, page: 3 };
        assert_eq!(layouts.decode(5, 0, &record), Some(written));
        assert_eq!(layouts.decode(5, 0, &record[..55]), None, "too short");
        record[0] = 8;
        assert_eq!(layouts.decode(5, 0, &record), None, "no event of ours");
        assert!(layouts.add_written(&format.replace("index", "other")).is_err());
    }

    #[test]
    fn a_probe_of_a_read_tells_bytes() {
        let layout = Layout::parse(Kind::Read, PROBE).expect("a known format");
        let at = |position: u64, count: u64| {
            let mut record = vec![0u8; 48];
            record[16..20].copy_from_slice(&7u32.to_ne_bytes());
            record[20..28].copy_from_slice(&1234u64.to_ne_bytes());
            record[28..36].copy_from_slice(&position.to_ne_bytes());
            record[36..44].copy_from_slice(&count.to_ne_bytes());
            layout.decode(5, 0, &record).map(|event| (event.dev, event.ino, event.first, event.last))
        };
        assert_eq!(at(0, 1), Some((7, 1234, 0, 0)));
        let page = block_bytes();
        assert_eq!(at(page - 1, 2), Some((7, 1234, 0, 1)));
        assert_eq!(at(2 * page, page), Some((7, 1234, 2, 2)));
        assert_eq!(at(page, 0), None, "no bytes, no reference");
        assert_eq!(at(0, 0), None);
        assert_eq!(at(u64::MAX, 2), None, "beyond the end of all files");
        let mut layouts = Layouts::default();
        layouts.push(layout.clone());
        layouts.reads_end_after();
        assert!(!layouts.pages[0].ends_after, "that is about pages");
    }

    #[test]
    fn missing_fields_are_named() {
        let cut = READ.replace("last_index", "other");
        let error = Layout::parse(Kind::Read, &cut).expect_err("a field is missing");
        assert_eq!(error.to_string(), "trace format of mm_filemap_get_pages: no field last_index");
        assert!(Layout::parse(Kind::Read, "").is_err());
    }

    #[test]
    fn the_page_header_is_checked() {
        assert_eq!(page_bytes(HEADER).expect("this kernel's"), 4096);
        assert!(page_bytes("").is_err());
        assert!(page_bytes(&HEADER.replace("offset:16", "offset:12")).is_err());
    }
}
