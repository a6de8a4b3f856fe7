//! Builds a prepared trace, one reference at a time.

use crate::densify::{Densifier, IDS_MAX};
use crate::{Block, Prepared, TraceError, Unit};

/// References collected before they are looked up together.
const PENDING: usize = 1024;
/// Most references: positions are `u32`, and the highest means *never*.
const REFERENCES_MAX: usize = IDS_MAX;
/// Most owners: they, and how many there are, are `u16`.
pub(crate) const OWNERS_MAX: u32 = u16::MAX as u32;

/// Collects references, and turns them into a [`Prepared`] trace.
///
/// ```
/// use pantler_trace::{Block, PreparedBuilder, Unit};
///
/// let mut builder = PreparedBuilder::new(Unit::Block(4096));
/// for (owner, file, index) in [(0, 0, 7), (1, 1, 7), (1, 0, 7)] {
///     builder.reference(owner, Block { file, index }, 0).unwrap();
/// }
/// let names = |names: [&str; 2]| names.map(str::to_owned).to_vec();
/// let trace = builder.finish(names(["cscope", "grep"]), names(["a", "b"]));
/// assert_eq!(trace.requests(), [0, 1, 0]);
/// assert_eq!(trace.owners(), Some(&[0, 1, 1][..]));
/// ```
pub struct PreparedBuilder {
    unit: Unit,
    table: Table,
    pending: Vec<Block>,
    pending_sizes: Vec<u32>,
    requests: Vec<u32>,
    /// Empty as long as every owner is 0.
    owners: Vec<u16>,
    sizes: Sizes,
}

/// Bytes by id. In most traces all are equal, and one number says so.
enum Sizes {
    Equal(u32),
    Each(Vec<u32>),
}

/// Most traces know one file; their table is smaller and faster.
enum Table {
    One(Densifier<u64>),
    Many(Densifier<(u32, u64)>),
}

impl PreparedBuilder {
    /// Nothing yet.
    pub fn new(unit: Unit) -> PreparedBuilder {
        PreparedBuilder {
            unit,
            table: Table::One(Densifier::new()),
            pending: Vec::with_capacity(PENDING),
            pending_sizes: Vec::with_capacity(PENDING),
            requests: Vec::new(),
            owners: Vec::new(),
            sizes: Sizes::Equal(0),
        }
    }

    /// Makes room for `references` references, where the number is known beforehand.
    pub fn reserve(&mut self, references: usize) {
        self.requests.reserve_exact(references.min(REFERENCES_MAX));
    }

    /// References so far.
    pub fn len(&self) -> usize {
        self.requests.len() + self.pending.len()
    }

    /// Whether there was no reference yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends one reference by an owner to a block of `bytes` bytes (0 = unknown).
    ///
    /// # Errors
    ///
    /// [`TraceError::TooLong`] past 2³² − 1 references, [`TraceError::Option`] past 65,535 owners.
    pub fn reference(&mut self, owner: u32, block: Block, bytes: u32) -> Result<(), TraceError> {
        if self.len() >= REFERENCES_MAX {
            let remedy = "cut the trace into parts, or choose larger blocks";
            return Err(TraceError::TooLong { bound: REFERENCES_MAX as u64, remedy });
        }
        if owner != 0 || !self.owners.is_empty() {
            self.owned_by(owner)?;
        }
        self.pending.push(block);
        self.pending_sizes.push(bytes);
        if self.pending.len() == PENDING {
            self.flush();
        }
        Ok(())
    }

    /// Appends references by owner 0 to file 0: the same as [`reference`](Self::reference) for
    /// each, but faster.
    ///
    /// # Errors
    ///
    /// [`TraceError::TooLong`] past 2³² − 1 references.
    ///
    /// # Panics
    ///
    /// If the two are not of one length.
    pub fn plain(&mut self, keys: &[u64], bytes: &[u32]) -> Result<(), TraceError> {
        assert_eq!(keys.len(), bytes.len(), "each reference has a size, perhaps 0");
        self.flush();
        let simple = self.owners.is_empty() && keys.len() <= REFERENCES_MAX - self.len();
        if let Table::One(table) = &mut self.table
            && simple
        {
            let first = self.requests.len();
            table.densify(keys, &mut self.requests);
            self.note_sizes(first, bytes);
            return Ok(());
        }
        for (&index, &bytes) in keys.iter().zip(bytes) {
            self.reference(0, Block { file: 0, index }, bytes)?;
        }
        Ok(())
    }

    /// The trace.
    pub fn finish(mut self, owner_names: Vec<String>, file_names: Vec<String>) -> Prepared {
        self.flush();
        let (blocks, files): (Vec<u64>, Option<Vec<u32>>) = match self.table {
            Table::One(table) => (table.into_keys(), None),
            Table::Many(table) => {
                let keys = table.into_keys();
                (keys.iter().map(|key| key.1).collect(), Some(keys.iter().map(|key| key.0).collect()))
            }
        };
        let (sizes, object_bytes) = match self.sizes {
            Sizes::Each(sizes) if sizes.windows(2).any(|pair| pair[0] != pair[1]) => (Some(sizes), 0),
            Sizes::Each(sizes) => (None, sizes.first().copied().unwrap_or(0)),
            Sizes::Equal(bytes) => (None, bytes),
        };
        let object_bytes = if self.unit == Unit::Object { object_bytes } else { 0 };
        Prepared {
            unit: self.unit,
            requests: self.requests,
            owners: (!self.owners.is_empty()).then_some(self.owners),
            owner_names,
            distinct: u32::try_from(blocks.len()).expect("bounded by IDS_MAX"),
            blocks,
            files,
            file_names,
            sizes,
            object_bytes,
            ..Prepared::default()
        }
    }

    fn owned_by(&mut self, owner: u32) -> Result<(), TraceError> {
        if owner >= OWNERS_MAX {
            let remedy = "at most 65535 owners".to_owned();
            return Err(TraceError::Option { name: "owner number", value: owner.to_string(), remedy });
        }
        self.owners.resize(self.len(), 0);
        self.owners.push(owner as u16);
        Ok(())
    }

    fn flush(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let first = self.requests.len();
        if let Table::One(table) = &mut self.table
            && self.pending.iter().any(|block| block.file != 0)
        {
            let known = std::mem::replace(table, Densifier::new()).into_keys();
            let keys = known.into_iter().map(|index| (0, index)).collect();
            self.table = Table::Many(Densifier::from_keys(keys));
        }
        match &mut self.table {
            Table::One(table) => {
                let mut keys = [0; PENDING];
                for (key, block) in keys.iter_mut().zip(&self.pending) {
                    *key = block.index;
                }
                table.densify(&keys[..self.pending.len()], &mut self.requests);
            }
            Table::Many(table) => {
                let mut keys = [(0, 0); PENDING];
                for (key, block) in keys.iter_mut().zip(&self.pending) {
                    *key = (block.file, block.index);
                }
                table.densify(&keys[..self.pending.len()], &mut self.requests);
            }
        }
        let bytes = std::mem::take(&mut self.pending_sizes);
        self.note_sizes(first, &bytes);
        self.pending_sizes = bytes;
        self.pending.clear();
        self.pending_sizes.clear();
    }

    /// Takes down the sizes of blocks that are new since reference `first`.
    fn note_sizes(&mut self, first: usize, bytes: &[u32]) {
        if let Sizes::Equal(equal) = &mut self.sizes {
            if first == 0 {
                *equal = bytes.first().copied().unwrap_or(0);
            }
            if bytes.iter().all(|bytes| bytes == equal) {
                return;
            }
            let ids = self.requests[..first].iter().max().map_or(0, |&id| id as usize + 1);
            self.sizes = Sizes::Each(vec![*equal; ids]);
        }
        let known = match &self.table {
            Table::One(table) => table.len(),
            Table::Many(table) => table.len(),
        };
        let Sizes::Each(sizes) = &mut self.sizes else { unreachable!("made of equal ones just now") };
        if known == sizes.len() {
            return;
        }
        for (&id, &bytes) in self.requests[first..].iter().zip(bytes) {
            if id as usize == sizes.len() {
                sizes.push(bytes);
            }
        }
    }
}

impl Prepared {
    /// A trace of plain keys, for tests and generators.
    ///
    /// # Panics
    ///
    /// With 2³² − 1 references or more.
    pub fn from_ids(ids: impl IntoIterator<Item = u64>) -> Prepared {
        let mut builder = PreparedBuilder::new(Unit::Object);
        let mut ids = ids.into_iter();
        builder.reserve(ids.size_hint().0);
        let mut some = Vec::with_capacity(PENDING);
        loop {
            some.clear();
            some.extend(ids.by_ref().take(PENDING));
            if some.is_empty() {
                break;
            }
            builder.plain(&some, &[0; PENDING][..some.len()]).expect("too many references");
        }
        builder.finish(Vec::new(), Vec::new())
    }
}
