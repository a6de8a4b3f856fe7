//! The blocks that were brought in and not used since.

use alloc::vec::Vec;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::event::FileKey;
use crate::ledger::CHUNK_BLOCKS;
use crate::ledger::bits::Bits;

#[derive(Debug, Default)]
struct Chunk {
    key: (FileKey, u64),
    blocks: Bits,
}

/// A set of blocks, in chunks of [`CHUNK_BLOCKS`].
///
/// X1  Each chunk in `places` has a block, and its place in `chunks` is not in `free`.
/// X2  There are at most `chunks_max` chunks: for one more, the oldest is forgotten.
#[derive(Debug)]
pub(super) struct Fresh {
    places: HashMap<(FileKey, u64), u32, FixedState>,
    chunks: Vec<Chunk>,
    free: Vec<u32>,
    chunks_max: usize,
    /// The chunk that is forgotten next.
    hand: usize,
    /// Blocks that were forgotten.
    pub(super) forgotten: u64,
}

impl Fresh {
    pub(super) fn new(chunks_max: usize) -> Fresh {
        assert!(chunks_max > 0, "X2 leaves a chunk");
        Fresh {
            places: HashMap::default(),
            chunks: Vec::new(),
            free: Vec::new(),
            chunks_max,
            hand: 0,
            forgotten: 0,
        }
    }

    /// Adds one block.
    pub(super) fn add(&mut self, file: FileKey, block: u64) {
        let key = (file, block / CHUNK_BLOCKS);
        let place = match self.places.get(&key) {
            Some(&place) => place,
            None => self.place_for(key),
        };
        self.chunks[place as usize].blocks.set(block % CHUNK_BLOCKS);
    }

    /// Takes the blocks from `first` to before `end` out, and says how many there were.
    pub(super) fn take(&mut self, file: FileKey, first: u64, end: u64) -> u64 {
        let (mut count, mut at) = (0, first);
        while at < end {
            let chunk_end = (at / CHUNK_BLOCKS + 1) * CHUNK_BLOCKS;
            let key = (file, at / CHUNK_BLOCKS);
            if let Some(&place) = self.places.get(&key) {
                let blocks = &mut self.chunks[place as usize].blocks;
                let range = at..chunk_end.min(end);
                count += range.filter(|block| blocks.clear(block % CHUNK_BLOCKS)).count() as u64;
                if blocks.is_empty() {
                    self.places.remove(&key);
                    self.free.push(place);
                }
            }
            at = chunk_end;
        }
        count
    }

    fn place_for(&mut self, key: (FileKey, u64)) -> u32 {
        let place = match self.free.pop() {
            Some(place) => place,
            None if self.chunks.len() < self.chunks_max => {
                self.chunks.push(Chunk::default());
                self.chunks.len() as u32 - 1
            }
            None => {
                let place = self.hand;
                self.hand = (place + 1) % self.chunks_max;
                self.forgotten += u64::from(self.chunks[place].blocks.count());
                self.places.remove(&self.chunks[place].key);
                place as u32
            }
        };
        self.chunks[place as usize] = Chunk { key, blocks: Bits::default() };
        self.places.insert(key, place);
        place
    }

    /// Recomputes X1 and X2.
    #[cfg(test)]
    pub(super) fn validate(&self) {
        assert!(self.chunks.len() <= self.chunks_max, "X2");
        assert_eq!(self.places.len() + self.free.len(), self.chunks.len(), "X1");
        for (key, &place) in &self.places {
            let chunk = &self.chunks[place as usize];
            assert!(chunk.key == *key && !chunk.blocks.is_empty() && !self.free.contains(&place), "X1");
        }
    }
}
