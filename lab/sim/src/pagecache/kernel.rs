//! A model of the kernel's page cache, for one control group and the programs outside of it.
//!
//! N1  Each page is in one folio at most. The pages of a folio follow each other in one file.
//! N2  `charged` is the number of pages that the run brought in.
//! N3  A folio is in the order of eviction or on its way there if and only if the run brought it
//!     in. `arriving` has those on their way, once each.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use pantler_pagecache::{Kind, Span};
use pantler_policy::{Handle, Links, Policy, Replacement, Spec};

use super::readahead::{PAGES_MAX, Readahead, Request};

/// Folios that one look at the page cache covers; a longer read looks again.
const BATCH: usize = 31;
/// Folios that enter the order of eviction together, with what was read of them until then.
const ARRIVING_MAX: usize = 31;

/// Which program does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Program {
    /// A thread of the run.
    Run(u32),
    /// A thread of another program.
    Outside(u32),
}

impl Program {
    /// Whether it belongs to the run.
    pub fn is_run(self) -> bool {
        matches!(self, Program::Run(_))
    }
}

/// What a tracepoint would tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelEvent {
    /// What happened.
    pub kind: Kind,
    /// In which program.
    pub program: Program,
    /// The file.
    pub file: u32,
    /// First page.
    pub first: u64,
    /// Last page, inclusive.
    pub last: u64,
    /// Counts events.
    number: u64,
}

/// Pages that stay or leave together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Folio {
    /// The file.
    pub file: u32,
    /// Its first page.
    pub first: u64,
    /// How many pages.
    pub pages: u64,
    /// Whether the run brought it in; else another program did.
    pub is_runs: bool,
    /// Whether another program used it, and the run's watcher was told so (or that another program
    /// brought it in).
    pub is_known_foreign: bool,
    /// Whether a program has it mapped: it cannot be dropped.
    pub is_mapped: bool,
    /// Whether it was written and is not on the disk: it cannot be dropped.
    pub is_dirty: bool,
    /// Whether reading it reads ahead.
    has_mark: bool,
    /// Reads before it entered the order of eviction; none once it is there.
    early: Option<u32>,
    /// Events before it came.
    born: u64,
}

impl Folio {
    fn is_held(&self) -> bool {
        self.is_mapped || self.is_dirty
    }
}

/// A file that a thread has open.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    readahead: Readahead,
    /// `POSIX_FADV_RANDOM`.
    is_random: bool,
}

#[derive(Clone, Debug, Default)]
struct File {
    blocks: u64,
    /// The folio of each cached page.
    pages: HashMap<u64, Handle, FixedState>,
}

/// What a group holds besides pages of files, in pages, and what became of its limit.
#[derive(Clone, Copy, Debug, Default)]
struct Others {
    /// Anonymous memory.
    anonymous: u64,
    /// Slab for each file that a program opened.
    by_open_file: u64,
    taken: u64,
}

/// The model.
#[derive(Clone, Debug)]
pub struct Kernel {
    files: Vec<File>,
    /// By handle. A folio that is not cached has no pages.
    folios: Vec<Folio>,
    /// The handle of a file's page that is, or was, the first of a folio.
    handles: HashMap<(u32, u64), Handle, FixedState>,
    open: HashMap<(Program, u32), Open, FixedState>,
    order: Replacement,
    arriving: Vec<Handle>,
    links: Links,
    limit: u64,
    /// Other memory that counts against the limit, where everything does.
    group: Option<Others>,
    charged: u64,
    device_reads: u64,
    has_large_folios: bool,
    events: Vec<KernelEvent>,
    told: u64,
}

impl Kernel {
    /// Nothing cached. The run's pages are at most `limit`; `order` says which leave first. `None`
    /// for an order that knows the future.
    pub fn new(limit: u64, order: Spec) -> Option<Kernel> {
        Some(Kernel {
            files: Vec::new(),
            folios: Vec::new(),
            handles: HashMap::default(),
            open: HashMap::default(),
            order: Replacement::new(order, u32::try_from(limit).unwrap_or(u32::MAX))?,
            arriving: Vec::new(),
            links: Links::default(),
            limit,
            group: None,
            charged: 0,
            device_reads: 0,
            has_large_folios: true,
            events: Vec::new(),
            told: 0,
        })
    }

    /// A file system without large folios.
    pub fn without_large_folios(mut self) -> Kernel {
        self.has_large_folios = false;
        self
    }

    /// The limit is that of a control group: other memory counts as well, first the slab of each
    /// file that a program opens.
    pub fn with_slab(mut self, by_open_file: u64) -> Kernel {
        self.group = Some(Others { by_open_file, ..Others::default() });
        self
    }

    /// A new file of `blocks` blocks; its number.
    pub fn add_file(&mut self, blocks: u64) -> u32 {
        self.files.push(File { blocks, ..File::default() });
        (self.files.len() - 1) as u32
    }

    /// The blocks of a file.
    pub fn file_blocks(&self, file: u32) -> u64 {
        self.files[file as usize].blocks
    }

    // What programs do.

    /// A program opens a file anew: the readahead of before is forgotten.
    pub fn open(&mut self, program: Program, file: u32) {
        self.open.insert((program, file), Open::default());
    }

    /// A program reads `first` to `last` of a file, as far as the file goes. Returns whether it
    /// waited for the device.
    pub fn read(&mut self, program: Program, file: u32, first: u64, last: u64) -> bool {
        let end = (last + 1).min(self.files[file as usize].blocks);
        let (mut index, mut has_waited) = (first, false);
        while index < end {
            if self.folio(file, index).is_none() {
                has_waited = true;
                self.read_missing(program, file, index, end - index);
            }
            let batch = self.batch(file, index, end);
            let Some(&(tail, ..)) = batch.last() else { break };
            if self.folios[tail as usize].has_mark {
                self.read_on(program, file, tail, end);
            }
            self.tell(Kind::Read, program, file, index, last);
            let previous = self.open.entry((program, file)).or_default().readahead.previous;
            for (folio, first, pages) in batch {
                let goes_on = previous.is_some_and(|page| (first..first + pages).contains(&page));
                index = first + pages;
                // A folio that one descriptor reads on in is marked once. Reading on may have
                // evicted it.
                if !goes_on && self.folio(file, first) == Some(folio) {
                    self.mark_accessed(folio);
                }
            }
            index = index.min(end);
            self.open.entry((program, file)).or_default().readahead.previous = Some(index - 1);
        }
        has_waited
    }

    /// A program maps a page and touches it. Returns whether it waited for the device.
    pub fn map(&mut self, program: Program, file: u32, page: u64) -> bool {
        if page >= self.files[file as usize].blocks {
            return false;
        }
        self.tell(Kind::Fault, program, file, page, page);
        let has_waited = self.folio(file, page).is_none();
        if has_waited {
            self.read_missing(program, file, page, 1);
        }
        if let Some(folio) = self.folio(file, page) {
            self.folios[folio as usize].is_mapped = true;
            self.mark_accessed(folio);
        }
        has_waited
    }

    /// All mappings of a file end.
    pub fn unmap(&mut self, file: u32) {
        for folio in self.folios.iter_mut().filter(|folio| folio.file == file) {
            folio.is_mapped = false;
        }
    }

    /// A program writes a page.
    pub fn write(&mut self, program: Program, file: u32, page: u64) {
        if page >= self.files[file as usize].blocks {
            return;
        }
        if self.folio(file, page).is_none() {
            self.add(program, file, page, 1, false, true);
        }
        if let Some(folio) = self.folio(file, page) {
            self.folios[folio as usize].is_dirty = true;
        }
    }

    /// All that was written goes to the disk.
    pub fn write_back(&mut self) {
        for folio in &mut self.folios {
            folio.is_dirty = false;
        }
    }

    /// The run's programs have this much anonymous memory from now on, in pages.
    pub fn allocate(&mut self, anonymous: u64) {
        if let Some(group) = &mut self.group {
            group.anonymous = anonymous;
            self.make_room(0, Some(Program::Run(0)));
        }
    }

    // What the hands do, and other programs by the same calls.

    /// `fadvise(DONTNEED)`: drops folios that lie wholly in the span and are held by no program.
    /// Returns how many pages stay. Outside of the run it is told of; our own hands are left out.
    /// Second: pages that were dropped although the watcher knew that they belong to others.
    pub fn drop_span(&mut self, outside: Option<Program>, span: Span) -> (u64, u64) {
        let mut wronged = 0;
        self.arrive();
        for folio in self.folios_in(span) {
            let known = self.folios[folio as usize];
            let is_whole = known.first >= span.first && known.first + known.pages <= span.first + span.blocks;
            if !is_whole || known.is_held() {
                continue;
            }
            wronged += if known.is_known_foreign { known.pages } else { 0 };
            self.remove(folio);
            if let Some(program) = outside {
                self.tell(Kind::Gone, program, known.file, known.first, known.first + known.pages - 1);
            }
        }
        (self.cached(span), wronged)
    }

    /// `readahead` by our own hands: reads pages that are missing, charged to the run, without
    /// events.
    pub fn read_ahead(&mut self, span: Span) {
        let end = (span.first + span.blocks).min(self.files[span.file as usize].blocks);
        for page in span.first..end {
            if self.folio(span.file, page).is_none() {
                self.device_reads += 1;
                if self.group.is_some() {
                    self.make_room(1, None);
                }
                self.insert(true, span.file, page, 1, false);
            }
        }
    }

    /// `cachestat`: pages of the span that are cached.
    pub fn cached(&self, span: Span) -> u64 {
        let pages = &self.files[span.file as usize].pages;
        span.indices().filter(|page| pages.contains_key(page)).count() as u64
    }

    /// Switches the kernel's readahead off or on for a file that a thread has open.
    pub fn advise_random(&mut self, program: Program, file: u32) {
        self.open.entry((program, file)).or_default().is_random = true;
    }

    /// Memory is short elsewhere: up to `pages` of the run's pages are evicted.
    pub fn reclaim(&mut self, pages: u64) {
        let until = self.charged.saturating_sub(pages);
        self.shrink_to(until, Some(Program::Outside(0)));
    }

    // What is known.

    /// Takes what the tracepoints told since the last call.
    pub fn take_events(&mut self) -> std::vec::Drain<'_, KernelEvent> {
        self.events.drain(..)
    }

    /// The watcher of the run was told of an event.
    pub fn delivered(&mut self, event: &KernelEvent) {
        if event.program.is_run() || event.kind == Kind::Gone {
            return;
        }
        let span = Span { file: event.file, first: event.first, blocks: event.last + 1 - event.first };
        for folio in self.folios_in(span) {
            let known = &mut self.folios[folio as usize];
            // The event may be about a folio that was there before.
            known.is_known_foreign |= known.born <= event.number;
        }
    }

    /// Pages that may still be charged to the group, if it has a limit.
    pub fn room(&self) -> Option<u64> {
        self.group.map(|_| self.limit.saturating_sub(self.charged + self.others()))
    }

    /// Pages that were reclaimed for the limit of the group.
    pub fn taken(&self) -> u64 {
        self.group.map_or(0, |group| group.taken)
    }

    fn others(&self) -> u64 {
        self.group.map_or(0, |group| group.anonymous + group.by_open_file * self.open.len() as u64)
    }

    /// Pages that the run brought in.
    pub fn charged(&self) -> u64 {
        self.charged
    }

    /// Pages of the run that no call can drop now.
    pub fn held(&self) -> u64 {
        let held = self.folios.iter().filter(|folio| folio.is_runs && folio.is_held());
        held.map(|folio| folio.pages).sum()
    }

    /// Pages of the run that another program used too, and the watcher knows.
    pub fn shared(&self) -> u64 {
        let shared = self.folios.iter().filter(|folio| folio.is_runs && folio.is_known_foreign);
        shared.map(|folio| folio.pages).sum()
    }

    /// Pages read from the device for the run, by its programs and by our hands.
    pub fn device_reads(&self) -> u64 {
        self.device_reads
    }

    /// The folio with this page, if it is cached.
    pub fn find(&self, file: u32, page: u64) -> Option<&Folio> {
        Some(&self.folios[self.folio(file, page)? as usize])
    }

    /// Recomputes what is known.
    ///
    /// # Panics
    ///
    /// Names the broken invariant.
    pub fn validate(&self) {
        let mut charged = 0;
        for (folio, handle) in self.folios.iter().zip(0..).filter(|(folio, _)| folio.pages > 0) {
            for page in folio.first..folio.first + folio.pages {
                assert_eq!(self.folio(folio.file, page), Some(handle), "N1");
            }
            charged += if folio.is_runs { folio.pages } else { 0 };
        }
        assert_eq!(charged, self.charged, "N2");
        let folios = self.folios.iter().filter(|folio| folio.pages > 0 && folio.is_runs).count();
        assert_eq!(folios, self.order.len() as usize + self.arriving.len(), "N3");
        let is_early = |&folio: &Handle| self.folios[folio as usize].early.is_some();
        assert!(self.arriving.iter().all(is_early), "N3");
    }

    fn folio(&self, file: u32, page: u64) -> Option<Handle> {
        self.files[file as usize].pages.get(&page).copied()
    }

    fn folios_in(&self, span: Span) -> Vec<Handle> {
        let pages = &self.files[span.file as usize].pages;
        let mut folios: Vec<Handle> = span.indices().filter_map(|page| pages.get(&page).copied()).collect();
        folios.dedup();
        folios
    }

    fn tell(&mut self, kind: Kind, program: Program, file: u32, first: u64, last: u64) {
        self.events.push(KernelEvent { kind, program, file, first, last, number: self.told });
        self.told += 1;
    }

    /// The cached folios from a page on, without a gap, up to one that has a mark: each with its
    /// first page and its pages.
    fn batch(&self, file: u32, from: u64, end: u64) -> Vec<(Handle, u64, u64)> {
        let (mut batch, mut at) = (Vec::new(), from);
        while at < end
            && batch.len() < BATCH
            && let Some(folio) = self.folio(file, at)
        {
            let known = &self.folios[folio as usize];
            batch.push((folio, known.first, known.pages));
            at = known.first + known.pages;
            if known.has_mark {
                break;
            }
        }
        batch
    }

    fn read_missing(&mut self, program: Program, file: u32, index: u64, wanted: u64) {
        let window = (1..=PAGES_MAX.min(index)).take_while(|back| self.folio(file, index - back).is_some());
        let history = window.count() as u64;
        let open = self.open.entry((program, file)).or_default();
        let request = match open.is_random {
            true => Request { first: index, pages: wanted, mark: u64::MAX, order: 0 },
            false => open.readahead.miss(index, wanted.min(PAGES_MAX), history),
        };
        self.bring(program, file, request);
    }

    fn read_on(&mut self, program: Program, file: u32, marked: Handle, end: u64) {
        let folio = self.folios[marked as usize];
        self.folios[marked as usize].has_mark = false;
        let behind = folio.first + 1..=folio.first + PAGES_MAX;
        let gap = behind.into_iter().find(|&page| self.folio(file, page).is_none());
        let open = self.open.entry((program, file)).or_default();
        if !open.is_random
            && let Some(request) = open.readahead.mark(folio.first, folio.pages, end - folio.first, gap)
        {
            self.bring(program, file, request);
        }
    }

    /// Reads the missing pages of a request.
    fn bring(&mut self, program: Program, file: u32, request: Request) {
        let end = (request.first + request.pages).min(self.files[file as usize].blocks);
        let mut order = if self.has_large_folios { request.order.min(request.pages.ilog2()) } else { 0 };
        let mut at = request.first;
        while at < end {
            if self.folio(file, at).is_some() {
                // Among cached pages the rest comes page by page.
                (order, at) = (0, at + 1);
                continue;
            }
            let mut pages = 1 << order.min(at.trailing_zeros());
            while pages > 1 && at + pages > end {
                pages /= 2;
            }
            while (at + 1..at + pages).any(|page| self.folio(file, page).is_some()) {
                pages /= 2;
            }
            let has_mark = (at..at + pages).contains(&request.mark);
            self.add(program, file, at, pages, has_mark, false);
            at += pages;
        }
    }

    /// One folio enters.
    fn add(&mut self, program: Program, file: u32, first: u64, pages: u64, has_mark: bool, is_new: bool) {
        if program.is_run() {
            self.make_room(pages, Some(program));
            self.device_reads += if is_new { 0 } else { pages };
        }
        self.insert(program.is_run(), file, first, pages, has_mark);
        self.tell(Kind::Added, program, file, first, first + pages - 1);
    }

    fn insert(&mut self, is_runs: bool, file: u32, first: u64, pages: u64, has_mark: bool) {
        let next = self.folios.len() as Handle;
        let handle = *self.handles.entry((file, first)).or_insert(next);
        let folio = Folio {
            file,
            first,
            pages,
            is_runs,
            has_mark,
            early: is_runs.then_some(0),
            born: self.told,
            ..Folio::default()
        };
        if handle == next {
            self.folios.push(folio);
            self.links.grow(next + 1);
            self.order.reserve(next + 1);
        } else {
            self.folios[handle as usize] = folio;
        }
        for page in first..first + pages {
            self.files[file as usize].pages.insert(page, handle);
        }
        if is_runs {
            self.charged += pages;
            self.arriving.push(handle);
            // Large ones do not wait.
            if pages > 1 || self.arriving.len() == ARRIVING_MAX {
                self.arrive();
            }
        }
    }

    /// What is on its way enters the order of eviction.
    fn arrive(&mut self) {
        for folio in std::mem::take(&mut self.arriving) {
            self.order.miss(&mut self.links, folio);
            match self.folios[folio as usize].early.take() {
                Some(0) | None => self.order.place(&mut self.links, folio),
                Some(reads) => {
                    self.order.insert(&mut self.links, folio);
                    (1..reads).for_each(|_| self.order.hit(&mut self.links, folio));
                }
            }
        }
    }

    /// A program read a folio.
    fn mark_accessed(&mut self, folio: Handle) {
        let known = &mut self.folios[folio as usize];
        match &mut known.early {
            Some(reads) => *reads += 1,
            None if known.is_runs => self.order.hit(&mut self.links, folio),
            None => {}
        }
    }

    fn remove(&mut self, folio: Handle) {
        if self.folios[folio as usize].is_runs {
            self.order.remove(&mut self.links, folio);
        }
        self.forget(folio);
    }

    /// Removes what the order has given up.
    fn forget(&mut self, folio: Handle) {
        let Folio { file, first, pages, is_runs, .. } = self.folios[folio as usize];
        for page in first..first + pages {
            self.files[file as usize].pages.remove(&page);
        }
        self.charged -= if is_runs { pages } else { 0 };
        self.folios[folio as usize].pages = 0;
    }

    /// `pages` more are about to be charged.
    fn make_room(&mut self, pages: u64, program: Option<Program>) {
        let until = self.limit.saturating_sub(self.others() + pages);
        let before = self.charged;
        self.shrink_to(until, program);
        if let Some(group) = &mut self.group {
            group.taken += before - self.charged;
        }
    }

    /// Evicts down to `pages`. Reclaim in our own hands is not told of: there is no program then.
    fn shrink_to(&mut self, pages: u64, program: Option<Program>) {
        while self.charged > pages {
            let folios = &self.folios;
            let victim = self.order.evict(&mut self.links, &|folio| folios[folio as usize].is_held());
            let Some(victim) = victim else {
                if self.arriving.is_empty() {
                    return;
                }
                self.arrive();
                continue;
            };
            let Folio { file, first, pages, .. } = self.folios[victim as usize];
            self.forget(victim);
            if let Some(program) = program {
                self.tell(Kind::Gone, program, file, first, first + pages - 1);
            }
        }
    }
}
