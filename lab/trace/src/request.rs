//! One record of a trace, as every format's reader gives it.

/// One request of a trace.
///
/// Formats that know keys only leave `offset` and `length` at 0; formats that know byte ranges give
/// the number that stands in the file as `object` too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Request {
    /// The owner: index into the reader's owner names; 0 when the trace knows no owners.
    pub owner: u32,
    /// Of which file: index into the reader's file names; 0 when the trace knows no files.
    pub file: u32,
    /// The key as it stands in the trace: an object, a block number, a sector.
    pub object: u64,
    /// Keys in a row, from `object` on; 1 in most formats.
    pub objects: u32,
    /// First byte asked for, from the start of the file or device.
    pub offset: u64,
    /// Bytes asked for, or the size of the object; 0 when the trace does not say.
    pub length: u32,
    /// Whether bytes were written.
    pub write: bool,
}

impl Request {
    /// A reference to a key of which nothing else is known.
    pub fn object(object: u64) -> Request {
        Request { object, objects: 1, ..Request::default() }
    }
}
