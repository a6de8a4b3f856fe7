//! The requests of one class: a lane for each owner, and the owner with the turn (Q2 to Q4).
//!
//! K1  The owners in `turns` are exactly those with a lane, and no lane is empty.
//! K2  `left` is between 1 and the size of a turn while there is a lane.
//! K3  Owners in `awaited` are different, have a lane, and not the turn.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

use super::{Cost, Request};
use crate::{FileId, OwnerId};

/// Where a request stands in its lane: position, file, first block, and when it came.
pub(super) type Key = (u64, FileId, u64, u64);

#[derive(Clone, Debug, Default)]
pub(super) struct Class {
    lanes: BTreeMap<OwnerId, BTreeMap<Key, Request>>,
    /// The first has the turn.
    turns: VecDeque<OwnerId>,
    /// Blocks left of that turn.
    left: u32,
    /// Owners with a turn before all others, first come first served (Q6), without the one that has
    /// it now.
    awaited: VecDeque<OwnerId>,
}

/// What may go out together (Q4, Q7).
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    /// Blocks of a turn, or, with a cost, the reads of one block each that take as long.
    pub(super) turn: u32,
    /// Blocks of a run, holes not counted.
    pub(super) run_max: u32,
    /// Blocks of a hole that is read through.
    pub(super) hole_max: u64,
    /// Blocks of all holes of a run.
    pub(super) waste_max: u64,
    /// What requests are, where they are dear.
    pub(super) cost: Option<Cost>,
}

impl Reach {
    /// How much of a turn a run of `blocks` blocks takes, from its first to its last `span` of
    /// them.
    fn toll(&self, count: u32, span: u64) -> u32 {
        match self.cost {
            None => count,
            Some(cost) => u32::try_from(cost.singles(span)).unwrap_or(u32::MAX).min(count),
        }
    }
}

/// What goes out together.
pub(super) struct Taken {
    pub(super) requests: Vec<Request>,
    /// Where the last of them stood.
    pub(super) last: Key,
    /// It is another's turn now.
    pub(super) ends_turn: bool,
}

impl Class {
    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    pub(super) fn insert(&mut self, owner: OwnerId, key: Key, request: Request, turn: u32) {
        let lane = self.lanes.entry(owner).or_default();
        if lane.is_empty() {
            if self.turns.is_empty() {
                self.left = turn;
            }
            self.turns.push_back(owner);
        }
        lane.insert(key, request);
    }

    pub(super) fn remove(&mut self, owner: OwnerId, key: Key, turn: u32) -> Option<Request> {
        let lane = self.lanes.get_mut(&owner)?;
        let request = lane.remove(&key);
        if lane.is_empty() {
            self.lanes.remove(&owner);
            let had_turn = self.turns.front() == Some(&owner);
            self.turns.retain(|other| *other != owner);
            self.awaited.retain(|other| *other != owner);
            if had_turn {
                self.next_turn(turn);
            }
        }
        request
    }

    /// Q6: a reader waits for a request of `owner`.
    pub(super) fn hurry(&mut self, owner: OwnerId) {
        if self.turns.front() != Some(&owner) && !self.awaited.contains(&owner) {
            self.awaited.push_back(owner);
        }
    }

    /// The first of `turns` is next, unless one is awaited.
    fn next_turn(&mut self, turn: u32) {
        if let Some(owner) = self.awaited.pop_front() {
            self.turns.retain(|other| *other != owner);
            self.turns.push_front(owner);
        } else if let Some(owner) = self.turns.front() {
            self.awaited.retain(|other| other != owner);
        }
        self.left = turn;
    }

    /// Takes the next requests: those of one run.
    pub(super) fn take(&mut self, head: Key, reach: Reach) -> Option<Taken> {
        let owner = *self.turns.front()?;
        let lane = self.lanes.get_mut(&owner)?;
        let start = lane.range(head..).next().or_else(|| lane.iter().next());
        let mut last = start.map(|(key, _)| *key)?;
        let first = lane.remove(&last)?;
        let (mut requests, mut count, mut span) = (vec![first], first.count, u64::from(first.count));
        while let Some((&key, &next)) = lane.range(last..).next() {
            let hole = match next.first.checked_sub(first.first.saturating_add(span)) {
                Some(hole) if next.file == first.file && hole <= reach.hole_max => hole,
                _ => break,
            };
            let more = count.saturating_add(next.count);
            let further = span.saturating_add(hole).saturating_add(u64::from(next.count));
            let is_wasteful = further - u64::from(more) > reach.waste_max;
            if more > reach.run_max || is_wasteful || reach.toll(more, further) > self.left {
                break;
            }
            lane.remove(&key);
            requests.push(next);
            (count, span, last) = (more, further, key);
        }
        self.left = self.left.saturating_sub(reach.toll(count, span));
        let is_empty = lane.is_empty();
        let ends_turn = is_empty || self.left == 0;
        if is_empty {
            self.lanes.remove(&owner);
            self.turns.pop_front();
        } else if ends_turn {
            self.turns.rotate_left(1);
        }
        if ends_turn {
            self.next_turn(reach.turn);
        }
        Some(Taken { requests, last, ends_turn })
    }

    pub(super) fn get(&self, owner: OwnerId, key: &Key) -> Option<&Request> {
        self.lanes.get(&owner)?.get(key)
    }

    pub(super) fn len(&self) -> usize {
        self.lanes.values().map(BTreeMap::len).sum()
    }

    pub(super) fn validate(&self, turn: u32) {
        assert_eq!(self.turns.len(), self.lanes.len(), "K1: owners that wait");
        for owner in &self.turns {
            assert!(self.lanes.get(owner).is_some_and(|lane| !lane.is_empty()), "K1: {owner:?} has nothing");
        }
        for (at, owner) in self.awaited.iter().enumerate() {
            assert!(self.lanes.contains_key(owner), "K3: {owner:?} has nothing");
            assert!(!self.awaited.iter().skip(at + 1).any(|other| other == owner), "K3: {owner:?} twice");
            assert_ne!(self.turns.front(), Some(owner), "K3: {owner:?} has the turn");
        }
        assert!(self.turns.is_empty() || (1..=turn).contains(&self.left), "K2: {} of {turn}", self.left);
    }
}
