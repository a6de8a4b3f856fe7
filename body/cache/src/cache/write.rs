//! Keeping cached blocks in step with what is written.
//!
//! The origin is always written first. Then, before the write is acknowledged, the cached blocks
//! are updated or invalidated. A fetch that was in flight may carry bytes from before the write:
//! its block is invalidated, and its readers ask again. The caller must not write to the same file
//! from two threads at once.

use std::sync::atomic::Ordering;

use pantler_steward::{Access, Block, FileId, OwnerId};

use super::Cache;
use crate::frames::State;

impl Cache {
    /// `data` was written at `offset` of the file, which had `before` bytes. A write is a reference
    /// by `owner`.
    ///
    /// A cached block takes the bytes over. A block enters the cache if the write has all of its
    /// bytes: programs read back what they wrote. Any other block is invalidated.
    pub fn written(&self, owner: OwnerId, file: FileId, offset: u64, data: &[u8], before: u64) {
        if offset > before {
            // A hole: the block with the old end is padded with zeros now.
            self.void(file, before, offset - before);
        }
        let size = before.max(offset + data.len() as u64);
        let mut rest = data;
        let mut at = offset;
        while !rest.is_empty() {
            let (block, start) = self.cut.locate(file, at);
            let (piece, after) = rest.split_at(rest.len().min(self.block_bytes() - start));
            self.update(owner, block, start, piece, size);
            at += piece.len() as u64;
            rest = after;
        }
    }

    /// The bytes from `offset` on, `length` of them, are not what they were. `u64::MAX` means to
    /// the end.
    pub fn void(&self, file: FileId, offset: u64, length: u64) {
        if length == 0 {
            return;
        }
        let first = self.cut.locate(file, offset).0.index;
        let last = self.cut.locate(file, offset.saturating_add(length - 1)).0.index;
        let mut frames = self.lock();
        // Whichever is shorter: the range, or the list of cached blocks of the file.
        let cached: Vec<u64> = if last - first < 64 {
            (first..=last)
                .filter(|&index| frames.steward().lookup(Block::new(file, index)).is_some())
                .collect()
        } else {
            frames.steward().cached(file).filter(|index| (first..=last).contains(index)).collect()
        };
        for &index in &cached {
            frames.steward_mut().forget(Block::new(file, index));
        }
        self.obey(&mut frames, None);
        self.voided.fetch_add(cached.len() as u64, Ordering::Relaxed);
        self.wake(&frames);
    }

    /// The file changed its size from `before` to `after`: invalidates what the change touches.
    pub fn resized(&self, file: FileId, before: u64, after: u64) {
        if before != after {
            // The block with the old end is padded now, or cut.
            self.void(file, before.min(after), u64::MAX);
        }
    }

    /// The version `old` of a file is no more, `new` is. Priorities given to the file stay. Of what
    /// is lent no part is taken back: the caller has the kernel drop all that it has of the file.
    pub fn supersede(&self, old: FileId, new: FileId) {
        let mut frames = self.lock();
        let count = frames.steward().cached(old).count();
        frames.supersede(old, new, &self.slab);
        self.obey(&mut frames, None);
        self.voided.fetch_add(count as u64, Ordering::Relaxed);
        self.wake(&frames);
    }

    fn update(&self, owner: OwnerId, block: Block, start: usize, piece: &[u8], size: u64) {
        let mut frames = self.lock();
        let end = start + piece.len();
        let (frame, slot) = match frames.find(block) {
            Some((frame, slot)) => {
                let touched = self.cut.touched(start..end);
                let is_lent = slot.state == State::Ready && !frames.lent(frame).is_empty();
                if is_lent && (slot.held & touched).is_empty() && start <= slot.valid as usize {
                    // The kernel has changed these pages, or dropped them.
                    frames.extend(frame, end as u32);
                    frames.steward_mut().access_to_write(owner, block, 1);
                    return self.obey(&mut frames, None);
                }
                // Bytes that are being read or fetched cannot be changed under the reader.
                let idle = slot.state == State::Ready && slot.has_buffer() && self.slab.is_idle(slot.buffer);
                if !idle || start > slot.valid as usize || !slot.lacks(touched, self.cut).is_empty() {
                    frames.discard(block, &self.slab);
                    self.voided.fetch_add(1, Ordering::Relaxed);
                    return self.wake(&frames);
                }
                frames.steward_mut().access_to_write(owner, block, 1);
                self.obey(&mut frames, None);
                let Some((frame, _)) = frames.find(block) else { return };
                match frames.refill(frame, touched, &self.slab) {
                    Some(slot) => (frame, slot),
                    None => return frames.discard(block, &self.slab),
                }
            }
            None => {
                let begin = block.index * self.block_bytes() as u64;
                let is_whole = start == 0 && (end == self.block_bytes() || begin + end as u64 >= size);
                if !is_whole {
                    return;
                }
                let pages = self.cut.touched(0..end);
                let access = frames.steward_mut().access_to_write(owner, block, pages.count());
                let Access::Miss(frame) = access else {
                    return self.obey(&mut frames, None);
                };
                self.obey(&mut frames, None);
                match frames.equip(frame, pages, &self.slab) {
                    Some(slot) => (frame, slot),
                    None => return frames.discard(block, &self.slab),
                }
            }
        };
        drop(frames);
        // SAFETY: the buffer was idle and this thread became its only user under the lock; the slot
        // is being filled, so that no other thread becomes one (M1).
        unsafe { self.slab.part_mut(slot.buffer, start..end) }.copy_from_slice(piece);
        let mut frames = self.lock();
        self.slab.leave(slot.buffer);
        if frames.slot(frame).ticket == slot.ticket {
            let held = slot.held | self.cut.touched(start..end);
            frames.publish(block, frame, held, slot.valid.max(end as u32), &self.slab);
            frames.steward_mut().fetched(block);
            self.obey(&mut frames, None);
        }
        self.wake(&frames);
    }
}
