//! Why the steward refuses what an owner says.

/// Why a call was refused. Nothing changed. With the bound, where one was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say what fields are")]
pub enum HintError {
    /// More owners than [`Limits::owners`](crate::Limits::owners) or
    /// [`Limits::managers`](crate::Limits::managers).
    #[error("{0} owners are in control already, and no more may be")]
    TooManyOwners(u32),
    /// More files than [`Limits::files_per_owner`](crate::Limits::files_per_owner).
    #[error("an owner can give priorities to at most {0} files")]
    TooManyFiles(u32),
    /// More priorities than [`Limits::priorities_per_owner`](crate::Limits::priorities_per_owner).
    #[error("an owner can use at most {0} priorities")]
    TooManyPriorities(u32),
    /// More ranges in an access list than [`Limits::list_entries`](crate::Limits::list_entries).
    #[error("an access list can have at most {0} files or ranges at once")]
    TooManyEntries(u32),
    /// More access lists than [`Limits::lists`](crate::Limits::lists).
    #[error("{0} owners have access lists already, and no more may")]
    TooManyLists(u32),
    /// A range of bytes that begins or ends before its file.
    #[error("bytes {start} to {end} begin or end before the file does")]
    NegativeRange { start: i64, end: i64 },
    /// A range of bytes without a byte.
    #[error("bytes {start} to {end} are no range")]
    EmptyBytes { start: i64, end: i64 },
    /// The last block of a range comes before its first.
    #[error("blocks {first} to {last} are no range")]
    EmptyRange { first: u64, last: u64 },
}
