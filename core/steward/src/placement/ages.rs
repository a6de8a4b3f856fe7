//! The order of a tier that several owners share: one list by last use for all of them (rules U5
//! and U6).
//!
//! ```text
//!   owner 0, kept      [a 3] [f 9] [k 17]     each queue is in order of age, so its front is its
//!   owner 0, demoted   [c 5] [d 6]            oldest: the victim is the oldest front
//!   owner 1, kept      [b 4] [g 12]
//!   owner 1, demoted   [e 8]
//!   late               [h 2]                  what came older than the back of its queue
//! ```
//!
//! What one owner asks to be kept comes in order of age, since it was just referenced; and so does
//! what it demotes, since a yardstick of a client's own tier only moves to younger blocks. Two
//! queues per owner are therefore in order by themselves: a step costs O(1), and O(log owners)
//! where a front changes. What comes out of order (after a restart of the client, or from a tier
//! above) goes to a table that is kept in order, for O(log n).
//!
//! G1  A block is on one queue of its owner, or in `late`, or not here.
//! G2  Times increase along every queue.
//! G3  `len` counts the blocks.
//! G4  `fronts` has the time at the front of each queue that is not empty.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use pantler_policy::{Handle, Links, List};

/// How a block comes to a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It was referenced and is to be kept here.
    Kept,
    /// It left the tier before.
    Demoted,
}

/// Where a block stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// When it was last used.
    pub time: u64,
    /// Its owner, a small number.
    pub owner: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    Absent,
    Kept,
    Demoted,
    Late,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    time: u64,
    owner: u32,
    queue: Queue,
}

/// Blocks by age, with their owners.
///
/// ```
/// use pantler_steward::placement::{Ages, Arrival};
///
/// let mut ages = Ages::default();
/// ages.enter(0, 1, 50, Arrival::Kept);
/// ages.enter(1, 2, 40, Arrival::Demoted);
/// assert_eq!(ages.oldest(), Some(1));
/// assert_eq!(ages.enter(1, 1, 60, Arrival::Kept), Some(2), "owner 2 lost it");
/// assert_eq!(ages.oldest(), Some(0));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Ages {
    len: u32,
    /// Kept and demoted of each owner.
    queues: Vec<List>,
    /// Their oldest times, and which queue has each.
    fronts: BTreeSet<(u64, usize)>,
    late: BTreeSet<(u64, Handle)>,
    /// By handle.
    entries: Vec<Entry>,
    links: Links,
}

impl Ages {
    /// The block is `asker`'s from now on, last used at `time`. A demoted block that is here keeps
    /// the later time. Returns the owner that loses it, if that is another.
    pub fn enter(&mut self, block: Handle, asker: u32, mut time: u64, arrival: Arrival) -> Option<u32> {
        let former = self.remove(block);
        if let (Some(former), Arrival::Demoted) = (former, arrival) {
            time = time.max(former.time);
        }
        self.reserve(block, asker);
        let wanted = if arrival == Arrival::Kept { Queue::Kept } else { Queue::Demoted };
        let queue = queue_index(asker, wanted);
        let list = &mut self.queues[queue];
        let back = list.back().map(|back| self.entries[back as usize].time);
        let kind = if back.is_none_or(|back| back < time) { wanted } else { Queue::Late };
        if kind == Queue::Late {
            self.late.insert((time, block));
        } else {
            list.push_back(&mut self.links, block);
            if back.is_none() {
                self.fronts.insert((time, queue));
            }
        }
        self.entries[block as usize] = Entry { time, owner: asker, queue: kind };
        self.len += 1;
        former.map(|former| former.owner).filter(|owner| *owner != asker)
    }

    /// The asker keeps the block nearer: it leaves if it is the asker's, and stays for its owner
    /// else (U6). Whether it left.
    pub fn take(&mut self, block: Handle, asker: u32) -> bool {
        let is_own = self.standing(block).is_some_and(|standing| standing.owner == asker);
        is_own && self.remove(block).is_some()
    }

    /// Takes the block out, if it is here.
    pub fn remove(&mut self, block: Handle) -> Option<Standing> {
        let Entry { time, owner, queue } = *self.entries.get(block as usize)?;
        match queue {
            Queue::Absent => return None,
            Queue::Late => drop(self.late.remove(&(time, block))),
            queue => {
                let queue = queue_index(owner, queue);
                let list = &mut self.queues[queue];
                let is_front = list.front() == Some(block);
                list.remove(&mut self.links, block);
                if is_front {
                    self.fronts.remove(&(time, queue));
                    let next = list.front().map(|front| self.entries[front as usize].time);
                    self.fronts.extend(next.map(|time| (time, queue)));
                }
            }
        }
        self.entries[block as usize].queue = Queue::Absent;
        self.len -= 1;
        Some(Standing { time, owner })
    }

    /// The block that was used longest ago.
    pub fn oldest(&self) -> Option<Handle> {
        match (self.late.first(), self.fronts.first()) {
            (Some(&(time, block)), front) if front.is_none_or(|&(front, _)| time <= front) => Some(block),
            (_, front) => front.and_then(|&(_, queue)| self.queues[queue].front()),
        }
    }

    /// Where a block stands, if it is here.
    pub fn standing(&self, block: Handle) -> Option<Standing> {
        let Entry { time, owner, queue } = *self.entries.get(block as usize)?;
        (queue != Queue::Absent).then_some(Standing { time, owner })
    }

    /// The `count` youngest blocks of an owner, from the oldest of them on. Of blocks that came
    /// out of order only the `late_max` youngest of all owners are looked at.
    pub fn youngest_of(&self, owner: u32, count: usize, late_max: usize) -> Vec<Handle> {
        let late = self.late.iter().rev().take(late_max).copied();
        let is_own = |(_, block): &(u64, Handle)| self.entries[*block as usize].owner == owner;
        let mut found: Vec<(u64, Handle)> = late.filter(is_own).take(count).collect();
        for queue in [Queue::Kept, Queue::Demoted] {
            let Some(list) = self.queues.get(queue_index(owner, queue)) else { continue };
            let blocks = list.iter(&self.links).rev().take(count);
            found.extend(blocks.map(|block| (self.entries[block as usize].time, block)));
        }
        found.sort_unstable();
        found.drain(..found.len().saturating_sub(count));
        found.into_iter().map(|(_, block)| block).collect()
    }

    /// Blocks with where they stand, oldest first. Takes O(n log n).
    pub fn contents(&self) -> Vec<(Handle, Standing)> {
        let blocks = (0..self.entries.len() as Handle)
            .filter_map(|block| self.standing(block).map(|standing| (block, standing)));
        let mut contents: Vec<_> = blocks.collect();
        contents.sort_unstable_by_key(|(block, standing)| (standing.time, *block));
        contents
    }

    /// Blocks here.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn reserve(&mut self, block: Handle, owner: u32) {
        let handles = block as usize + 1;
        if self.entries.len() < handles {
            self.entries.resize(handles, Entry { time: 0, owner: 0, queue: Queue::Absent });
            let grown = handles.next_power_of_two().min(u32::MAX as usize - 1);
            self.links.grow(grown as u32);
        }
        let queues = queue_index(owner, Queue::Demoted) + 1;
        if self.queues.len() < queues {
            self.queues.resize_with(queues, List::default);
        }
    }

    /// Checks G1 to G4.
    pub fn validate(&self) {
        let is_late = |block: &Handle| self.entries[*block as usize].queue == Queue::Late;
        assert!(self.late.iter().all(|(_, block)| is_late(block)), "G1: late");
        let mut blocks = self.late.len() as u32;
        for (queue, list) in self.queues.iter().enumerate() {
            list.validate(&self.links);
            blocks += list.len();
            let mut before = None;
            for block in list.iter(&self.links) {
                let entry = self.entries[block as usize];
                assert!(before < Some(entry.time), "G2: {block} in queue {queue}");
                assert_eq!(queue_index(entry.owner, entry.queue), queue, "G1: {block}");
                before = Some(entry.time);
            }
            if let Some(front) = list.front() {
                let front = (self.entries[front as usize].time, queue);
                assert!(self.fronts.contains(&front), "G4: queue {queue}");
            }
        }
        let filled = self.queues.iter().filter(|list| !list.is_empty()).count();
        assert_eq!(self.fronts.len(), filled, "G4: fronts of empty queues");
        assert_eq!(blocks, self.len, "G3: length");
        let present = self.entries.iter().filter(|entry| entry.queue != Queue::Absent).count();
        assert_eq!(present as u32, self.len, "G1: entries");
    }
}

fn queue_index(owner: u32, queue: Queue) -> usize {
    owner as usize * 2 + usize::from(queue == Queue::Demoted)
}
