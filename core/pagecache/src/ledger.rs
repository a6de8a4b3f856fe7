//! The state of each block that this run brought into the page cache.
//!
//! ```text
//!                 bring                 enter                  share
//!     Unknown ------------> Ahead ------------------> Ours -----------> Shared
//!        |  ^                        take_unreferenced ^ |                |
//!        |  |                                          | | leave          | leave
//!        |  +---- take_ripe ------- Leaving <----------|-+----------------+
//!        |                             `----- enter ---+
//!        `-------------- enter -----------------------> Ours
//!
//!     every state --gone--> Unknown
//! ```
//!
//! [`Ledger::enter`] has three callers: a reference or our own readahead (from `Unknown`, `Ahead`
//! or `Leaving`), an access list, and a refused drop. Blocks are kept in chunks of 512 (2 MiB of
//! pages of 4 KiB, where no folio is larger or crosses one; of others nothing is noted), with a set
//! of bits for each state and the folios of more than one page.
//!
//! K1  `ahead`, `ours` and `leaving` are disjoint; `shared` is part of `ours`.
//! K2  `ahead_blocks`, `ours_blocks` and `leaving_blocks` are the sums of the bits.
//! K3  A chunk without any of the three is not kept.
//! K4  A folio leaves as a whole or not at all: dropping a part of it drops nothing.

use alloc::vec::Vec;
use core::ops::Range;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

pub(crate) mod bits;

use bits::Bits;

/// Blocks per chunk.
pub const CHUNK_BLOCKS: u64 = 512;

/// A folio of more than one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Folio {
    at: u16,
    pages: u16,
}

impl Folio {
    fn pages(self) -> Range<u64> {
        u64::from(self.at)..u64::from(self.at + self.pages)
    }
}

/// What becomes of a folio of which something leaves (K4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// All of it leaves, or nothing does.
    Whole,
    /// A part leaves, and waits for the rest.
    Waits,
    /// It waited for long: the few that stay follow the many that left.
    Follows,
    /// It waited for long: what left comes back to the many that stay, or to what must not leave.
    Back,
}

#[derive(Debug, Default)]
struct Chunk {
    ahead: Bits,
    ours: Bits,
    leaving: Bits,
    shared: Bits,
    folios: Vec<Folio>,
    /// When the first of `leaving` came.
    since_ns: u64,
    /// What was ahead at the last [`Ledger::take_unreferenced`], and may have left since.
    waited: Bits,
}

impl Chunk {
    /// Everything believed to be in the page cache.
    fn cached(&self) -> Bits {
        let mut all = self.ours.clone();
        all.add(&self.leaving);
        all.add(&self.ahead);
        all
    }

    fn has(&self, at: u64) -> bool {
        self.ours.get(at) || self.leaving.get(at) || self.ahead.get(at)
    }

    /// `old` says that what leaves of the chunk waited for long.
    fn fate(&self, folio: &Folio, old: bool) -> Fate {
        let leaving = folio.pages().filter(|&at| self.leaving.get(at)).count();
        if leaving == 0 || leaving == usize::from(folio.pages) {
            return Fate::Whole;
        }
        let mostly = 2 * leaving >= usize::from(folio.pages);
        let may_leave = |at| self.leaving.get(at) || self.ours.get(at) && !self.shared.get(at);
        match old {
            false => Fate::Waits,
            true if mostly && folio.pages().all(may_leave) => Fate::Follows,
            true => Fate::Back,
        }
    }

    fn is_empty(&self) -> bool {
        self.ahead.is_empty() && self.ours.is_empty() && self.leaving.is_empty()
    }
}

/// What the ledger knows about one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Belief {
    /// Not cached, or cached because of another program. The steward does not know of it.
    Unknown,
    /// Brought in by the kernel for this run; the steward does not know of it yet.
    Ahead,
    /// In the page cache because of this run, and known to the steward.
    Ours,
    /// As `Ours`, and used by another program since: pinned.
    Shared,
    /// Evicted by the steward, but still in the page cache.
    Leaving,
}

/// A run of blocks of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Which file, in the body's table.
    pub file: u32,
    /// First block.
    pub first: u64,
    /// How many.
    pub blocks: u64,
}

impl Span {
    /// The numbers of its blocks.
    pub fn indices(self) -> Range<u64> {
        self.first..self.first + self.blocks
    }

    /// Its first half, and the rest.
    pub(crate) fn halves(self) -> (Span, Span) {
        let half = self.blocks / 2;
        let rest = Span { first: self.first + half, blocks: self.blocks - half, ..self };
        (Span { blocks: half, ..self }, rest)
    }
}

/// Folios that left in part for so long that something has to be done.
#[derive(Debug, Default)]
pub struct Stuck {
    /// Blocks of folios most of which stays. They are no longer leaving: the steward gets them
    /// back.
    pub back: Vec<Span>,
    /// The rest of folios most of which left. Still ours: the steward shall give it up as well.
    pub rest: Vec<Span>,
}

/// The blocks of one run. See the module's text for its invariants.
#[derive(Debug, Default)]
pub struct Ledger {
    chunks: HashMap<Key, Chunk, FixedState>,
    ahead_blocks: u32,
    ours_blocks: u32,
    leaving_blocks: u32,
}

impl Ledger {
    /// What is believed about a block.
    pub fn belief(&self, file: u32, index: u64) -> Belief {
        let Some(chunk) = self.chunks.get(&key(file, index)) else { return Belief::Unknown };
        let at = index % CHUNK_BLOCKS;
        match (chunk.ours.get(at), chunk.leaving.get(at)) {
            (true, _) if chunk.shared.get(at) => Belief::Shared,
            (true, _) => Belief::Ours,
            (false, true) => Belief::Leaving,
            (false, false) if chunk.ahead.get(at) => Belief::Ahead,
            (false, false) => Belief::Unknown,
        }
    }

    /// The kernel brought a block in that was not referenced yet, or a program wrote it.
    pub fn bring(&mut self, file: u32, index: u64) {
        let chunk = self.chunks.entry(key(file, index)).or_default();
        let at = index % CHUNK_BLOCKS;
        if !chunk.has(at) {
            chunk.ahead.set(at);
            chunk.waited.clear(at);
            self.ahead_blocks += 1;
        }
    }

    /// The first block from `from` on and before `until` that is not believed to be cached.
    pub fn first_unknown(&self, file: u32, from: u64, until: u64) -> Option<u64> {
        let mut at = from;
        while at < until {
            let Some(chunk) = self.chunks.get(&key(file, at)) else { return Some(at) };
            let end = (at / CHUNK_BLOCKS + 1) * CHUNK_BLOCKS;
            if let Some(found) = (at..end.min(until)).find(|index| !chunk.has(index % CHUNK_BLOCKS)) {
                return Some(found);
            }
            at = end;
        }
        None
    }

    /// A block is ours now: it was brought in, or is needed after all.
    pub fn enter(&mut self, file: u32, index: u64) {
        let chunk = self.chunks.entry(key(file, index)).or_default();
        let at = index % CHUNK_BLOCKS;
        self.ahead_blocks -= u32::from(chunk.ahead.clear(at));
        self.leaving_blocks -= u32::from(chunk.leaving.clear(at));
        self.ours_blocks += u32::from(!chunk.ours.get(at));
        chunk.ours.set(at);
    }

    /// The steward evicted a block of ours. It waits for [`Ledger::take_ripe`].
    pub fn leave(&mut self, file: u32, index: u64, now_ns: u64) {
        let Some(chunk) = self.chunks.get_mut(&key(file, index)) else { return };
        let at = index % CHUNK_BLOCKS;
        if !chunk.ours.clear(at) {
            return;
        }
        chunk.shared.clear(at);
        if chunk.leaving.is_empty() {
            chunk.since_ns = now_ns;
        }
        chunk.leaving.set(at);
        self.ours_blocks -= 1;
        self.leaving_blocks += 1;
    }

    /// Another program used a block of ours. True the first time.
    pub fn share(&mut self, file: u32, index: u64) -> bool {
        let Some(chunk) = self.chunks.get_mut(&key(file, index)) else { return false };
        let at = index % CHUNK_BLOCKS;
        let news = chunk.ours.get(at) && !chunk.shared.get(at);
        if news {
            chunk.shared.set(at);
        }
        news
    }

    /// A block is not in the page cache any more. Says what was believed until now.
    pub fn gone(&mut self, file: u32, index: u64) -> Belief {
        let before = self.belief(file, index);
        let Some(chunk) = self.chunks.get_mut(&key(file, index)) else { return before };
        let at = index % CHUNK_BLOCKS;
        self.ahead_blocks -= u32::from(chunk.ahead.clear(at));
        self.ours_blocks -= u32::from(chunk.ours.clear(at));
        self.leaving_blocks -= u32::from(chunk.leaving.clear(at));
        chunk.shared.clear(at);
        chunk.folios.retain(|folio| !folio.pages().contains(&at));
        if chunk.is_empty() {
            self.chunks.remove(&key(file, index));
        }
        before
    }

    /// Notes that these blocks, which entered before, are one folio. They stay or leave together.
    pub fn note_folio(&mut self, file: u32, first: u64, pages: u64) {
        let at = first % CHUNK_BLOCKS;
        if pages < 2 || at + pages > CHUNK_BLOCKS {
            return;
        }
        if let Some(chunk) = self.chunks.get_mut(&key(file, first)) {
            let new = Folio { at: at as u16, pages: pages as u16 };
            chunk.folios.retain(|old| old.at + old.pages <= new.at || new.at + new.pages <= old.at);
            chunk.folios.push(new);
        }
    }

    /// These blocks, with all of the folios in which the first and the last are.
    pub fn whole_folios(&self, file: u32, first: u64, last: u64) -> Range<u64> {
        let around = |index| {
            let begin = index / CHUNK_BLOCKS * CHUNK_BLOCKS;
            let folios = self.chunks.get(&key(file, index)).map(|chunk| chunk.folios.iter());
            let mut pages = folios.into_iter().flatten().map(|folio| folio.pages());
            let found = pages.find(|pages| pages.contains(&(index - begin)));
            found.map_or(index..index + 1, |pages| begin + pages.start..begin + pages.end)
        };
        around(first).start..around(last).end
    }

    /// Hands out what has been leaving since before `until_ns`, in runs that hold whole folios
    /// only; a block handed out is unknown from here on. Blocks and folios `in_use` go on leaving.
    /// What becomes of folios that are left in part, once they are older than `stuck_ns`, is told
    /// in `stuck`.
    pub fn take_ripe(
        &mut self,
        until_ns: u64,
        stuck_ns: u64,
        in_use: &[Span],
        ripe: &mut Vec<Span>,
        stuck: &mut Stuck,
    ) {
        let mut taken = 0;
        self.chunks.retain(|&key, chunk| {
            if chunk.leaving.is_empty() || chunk.since_ns > until_ns {
                return true;
            }
            let old = chunk.since_ns <= stuck_ns;
            let (mut whole, mut part) = (chunk.leaving.clone(), Bits::default());
            let (mut back, mut rest) = (Bits::default(), Bits::default());
            let used = within(key, in_use);
            for at in used.iter().cloned().flatten() {
                if whole.clear(at) {
                    part.set(at);
                }
            }
            for folio in &chunk.folios {
                let is_used = used.iter().any(|used| overlap(used, &folio.pages()));
                let fate = if is_used { Fate::Waits } else { chunk.fate(folio, old) };
                if fate == Fate::Whole {
                    continue;
                }
                let stays = if fate == Fate::Back { &mut back } else { &mut part };
                for at in folio.pages() {
                    if whole.clear(at) {
                        stays.set(at);
                    } else if fate == Fate::Follows {
                        rest.set(at);
                    }
                }
            }
            taken += whole.count() + back.count();
            chunk.leaving = part;
            chunk.folios.retain(|folio| !whole.get(u64::from(folio.at)));
            ripe.extend(spans(key, whole));
            stuck.back.extend(spans(key, back));
            stuck.rest.extend(spans(key, rest));
            !chunk.is_empty()
        });
        self.leaving_blocks -= taken;
    }

    /// Hands out what the kernel brought in before the last call and no thread referenced. It is
    /// ours from here on.
    pub fn take_unreferenced(&mut self, found: &mut Vec<Span>) {
        if self.ahead_blocks == 0 {
            return;
        }
        for (&key, chunk) in &mut self.chunks {
            if chunk.ahead.is_empty() {
                chunk.waited = Bits::default();
                continue;
            }
            let taken = core::mem::take(&mut chunk.waited).among(&chunk.ahead);
            chunk.ahead.take_out(&taken);
            chunk.waited = chunk.ahead.clone();
            chunk.ours.add(&taken);
            self.ahead_blocks -= taken.count();
            self.ours_blocks += taken.count();
            found.extend(spans(key, taken));
        }
    }

    /// Blocks that the kernel brought in and no thread referenced.
    pub fn ahead_blocks(&self) -> u32 {
        self.ahead_blocks
    }

    /// Blocks that are ours and not leaving.
    pub fn ours_blocks(&self) -> u32 {
        self.ours_blocks
    }

    /// Blocks that are leaving.
    pub fn leaving_blocks(&self) -> u32 {
        self.leaving_blocks
    }

    /// Blocks believed to be cached, in whichever state.
    pub fn cached_blocks(&self) -> u32 {
        self.ahead_blocks + self.ours_blocks + self.leaving_blocks
    }

    /// The runs of blocks believed to be cached (ahead, ours and leaving), in no order of files.
    pub fn spans(&self) -> impl Iterator<Item = Span> {
        self.spans_of(0, usize::MAX)
    }

    /// Those of up to `count` chunks, after the first `skip` chunks.
    pub fn spans_of(&self, skip: usize, count: usize) -> impl Iterator<Item = Span> {
        let chunks = self.chunks.iter().skip(skip).take(count);
        chunks.flat_map(|(&key, chunk)| spans(key, chunk.cached()))
    }

    /// Those that no other program used.
    pub fn unshared_spans(&self) -> impl Iterator<Item = Span> {
        self.chunks.iter().flat_map(|(&key, chunk)| {
            let mut own = chunk.cached();
            own.take_out(&chunk.shared);
            spans(key, own)
        })
    }

    /// Chunks that have blocks in one of the states.
    pub fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Recounts everything (K1 to K3).
    ///
    /// # Panics
    /// Names the broken invariant.
    pub fn validate(&self) {
        let (mut ahead, mut ours, mut leaving) = (0, 0, 0);
        for chunk in self.chunks.values() {
            for at in 0..CHUNK_BLOCKS {
                let bits = [chunk.ahead.get(at), chunk.ours.get(at), chunk.leaving.get(at)];
                assert!(bits.into_iter().filter(|&bit| bit).count() < 2, "K1: a block is in two states");
                assert!(chunk.ours.get(at) || !chunk.shared.get(at), "K1: a shared block is not ours");
            }
            ahead += chunk.ahead.count();
            ours += chunk.ours.count();
            leaving += chunk.leaving.count();
            assert!(!chunk.is_empty(), "K3: an empty chunk");
        }
        assert_eq!(
            (ahead, ours, leaving),
            (self.ahead_blocks, self.ours_blocks, self.leaving_blocks),
            "K2: totals"
        );
    }
}

/// The file of a chunk, and the number of the chunk there.
type Key = (u32, u64);

fn key(file: u32, index: u64) -> Key {
    (file, index / CHUNK_BLOCKS)
}

/// The parts of some runs that are within a chunk.
fn within((file, number): Key, runs: &[Span]) -> Vec<Range<u64>> {
    let chunk = number * CHUNK_BLOCKS..(number + 1) * CHUNK_BLOCKS;
    let runs = runs.iter().filter(|run| run.file == file).map(|run| run.first..run.first + run.blocks);
    let runs = runs.filter(|run| overlap(run, &chunk));
    runs.map(|run| run.start.max(chunk.start) - chunk.start..run.end.min(chunk.end) - chunk.start).collect()
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// The runs of some blocks of a chunk.
fn spans((file, number): Key, bits: Bits) -> impl Iterator<Item = Span> {
    bits.runs().map(move |(first, blocks)| Span { file, first: number * CHUNK_BLOCKS + first, blocks })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    type Runs = Vec<(u64, u64)>;

    fn ripe(ledger: &mut Ledger, until: u64, stuck_until: u64) -> (Runs, Runs) {
        let (out, back, rest) = all_ripe(ledger, until, stuck_until);
        assert_eq!(rest, []);
        (out, back)
    }

    fn all_ripe(ledger: &mut Ledger, until: u64, stuck_until: u64) -> (Runs, Runs, Runs) {
        let (mut out, mut stuck) = (Vec::new(), Stuck::default());
        ledger.take_ripe(until, stuck_until, &[], &mut out, &mut stuck);
        ledger.validate();
        let plain = |spans: Vec<Span>| spans.iter().map(|span| (span.first, span.blocks)).collect();
        (plain(out), plain(stuck.back), plain(stuck.rest))
    }

    /// A ledger to which these blocks of a file belong.
    fn entered(file: u32, indices: impl IntoIterator<Item = u64>) -> Ledger {
        let mut ledger = Ledger::default();
        indices.into_iter().for_each(|index| ledger.enter(file, index));
        ledger
    }

    #[test]
    fn a_block_passes_through_its_states() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.belief(0, 5), Belief::Unknown);
        ledger.enter(0, 5);
        assert_eq!(ledger.belief(0, 5), Belief::Ours);
        assert!(ledger.share(0, 5) && !ledger.share(0, 5));
        assert_eq!(ledger.belief(0, 5), Belief::Shared);
        ledger.leave(0, 5, 10);
        assert_eq!((ledger.belief(0, 5), ledger.leaving_blocks()), (Belief::Leaving, 1));
        ledger.enter(0, 5);
        assert_eq!(ledger.belief(0, 5), Belief::Ours);
        assert_eq!(ledger.gone(0, 5), Belief::Ours);
        assert_eq!(ledger.gone(0, 5), Belief::Unknown);
        ledger.validate();
        assert_eq!(ledger.spans().count(), 0);
    }

    #[test]
    fn neighbours_leave_in_one_run_once_they_are_old_enough() {
        let mut ledger = entered(3, 60..70);
        (60..70).for_each(|index| ledger.leave(3, index, 100));
        assert_eq!(ripe(&mut ledger, 99, 0).0, []);
        assert_eq!(ripe(&mut ledger, 100, 0).0, [(60, 10)]);
        assert_eq!(ledger.leaving_blocks(), 0);
    }

    #[test]
    fn a_folio_leaves_whole_or_not_at_all() {
        let mut ledger = entered(0, 512..520);
        ledger.note_folio(0, 512, 4);
        [512, 513, 514, 516].into_iter().for_each(|index| ledger.leave(0, index, 1));
        assert_eq!(ripe(&mut ledger, 5, 0), (vec![(516, 1)], vec![]));
        assert_eq!(ledger.leaving_blocks(), 3);
        ledger.leave(0, 515, 6);
        assert_eq!(ripe(&mut ledger, 9, 0).0, [(512, 4)]);
        for index in 517..519 {
            ledger.note_folio(0, 516, 4);
            ledger.leave(0, index, 10);
        }
        assert_eq!(ripe(&mut ledger, 20, 15), (vec![], vec![(517, 2)]), "a folio that stays in part is told");
    }

    #[test]
    fn a_run_of_blocks_has_whole_folios_around_it() {
        let mut ledger = entered(0, 0..1024);
        assert_eq!(ledger.whole_folios(0, 5, 9), 5..10);
        ledger.note_folio(0, 4, 4);
        ledger.note_folio(0, 512, 64);
        assert_eq!(ledger.whole_folios(0, 5, 6), 4..8);
        assert_eq!(ledger.whole_folios(0, 0, 520), 0..576);
        assert_eq!(ledger.whole_folios(0, 575, 576), 512..577);
        assert_eq!(ledger.whole_folios(1, 5, 5), 5..6);
    }

    #[test]
    fn what_is_in_use_goes_on_leaving() {
        let mut ledger = entered(0, 500..530);
        ledger.note_folio(0, 520, 4);
        (500..530).for_each(|index| ledger.leave(0, index, 1));
        let in_use = [Span { file: 0, first: 508, blocks: 13 }, Span { file: 1, first: 0, blocks: 600 }];
        let mut out = Vec::new();
        ledger.take_ripe(9, 0, &in_use, &mut out, &mut Stuck::default());
        ledger.validate();
        out.sort_unstable_by_key(|span| span.first);
        let runs: Runs = out.iter().map(|span| (span.first, span.blocks)).collect();
        assert_eq!(runs, [(500, 8), (524, 6)], "the folio that is used in part stays as a whole");
        assert_eq!(ledger.leaving_blocks(), 16);
        assert_eq!(ripe(&mut ledger, 9, 0).0.iter().map(|run| run.1).sum::<u64>(), 16);
    }

    #[test]
    fn the_rest_of_a_folio_follows_when_most_of_it_left() {
        let mut ledger = entered(0, 0..8);
        ledger.note_folio(0, 0, 4);
        ledger.note_folio(0, 4, 4);
        [0, 2, 3, 5].into_iter().for_each(|index| ledger.leave(0, index, 1));
        assert_eq!(all_ripe(&mut ledger, 5, 0), (vec![], vec![], vec![]), "young enough to wait");
        assert_eq!(all_ripe(&mut ledger, 5, 1), (vec![], vec![(5, 1)], vec![(1, 1)]));
        assert_eq!((ledger.belief(0, 5), ledger.leaving_blocks()), (Belief::Unknown, 3));
        ledger.enter(0, 5);
        ledger.leave(0, 1, 6);
        assert_eq!(ripe(&mut ledger, 9, 0).0, [(0, 4)]);

        // What another program uses keeps its folio.
        [4, 6, 7].into_iter().for_each(|index| ledger.leave(0, index, 10));
        ledger.share(0, 5);
        assert_eq!(all_ripe(&mut ledger, 12, 12), (vec![], vec![(4, 1), (6, 2)], vec![]));
    }

    #[test]
    fn what_nobody_references_from_one_look_to_the_next_is_ours() {
        let mut ledger = Ledger::default();
        let take = |ledger: &mut Ledger| {
            let mut found = Vec::new();
            ledger.take_unreferenced(&mut found);
            ledger.validate();
            found.iter().map(|span| (span.first, span.blocks)).collect::<Runs>()
        };
        (0..4).for_each(|index| ledger.bring(1, index));
        assert_eq!(take(&mut ledger), []);
        (4..8).for_each(|index| ledger.bring(1, index));
        ledger.enter(1, 0);
        ledger.gone(1, 2);
        // It left, and came anew.
        ledger.gone(1, 3);
        ledger.bring(1, 3);
        assert_eq!(take(&mut ledger), [(1, 1)]);
        assert_eq!(take(&mut ledger), [(3, 5)]);
        assert_eq!((ledger.ahead_blocks(), ledger.ours_blocks()), (0, 7));
    }

    #[test]
    fn what_is_cached_is_listed() {
        let mut ledger = entered(1, [0, 1, 2, 63, 64, 511, 512]);
        ledger.leave(1, 1, 0);
        let mut spans: Vec<_> = ledger.spans().map(|span| (span.first, span.blocks)).collect();
        spans.sort_unstable();
        assert_eq!(ledger.first_unknown(1, 0, 1000), Some(3));
        assert_eq!(ledger.first_unknown(1, 511, 1000), Some(513));
        assert_eq!(ledger.first_unknown(1, 63, 65), None);
        assert_eq!(ledger.first_unknown(2, 7, 9), Some(7));
        assert_eq!(spans, [(0, 3), (63, 2), (511, 1), (512, 1)]);
        ledger.share(1, 64);
        let mut spans: Vec<_> = ledger.unshared_spans().map(|span| (span.first, span.blocks)).collect();
        spans.sort_unstable();
        assert_eq!(spans, [(0, 3), (63, 1), (511, 1), (512, 1)]);
        ledger.validate();
    }
}
