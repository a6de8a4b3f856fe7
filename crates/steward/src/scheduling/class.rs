//! The requests of one class: a lane for each owner, and whose turn it is (Q2 to Q4).
//!
//! K1  The owners in `turns` are exactly those with a lane, and no lane is empty.
//! K2  `left` is between 1 and the size of a turn while there is a lane.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

use super::Request;
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
            if self.turns.front() == Some(&owner) {
                self.left = turn;
            }
            self.turns.retain(|other| *other != owner);
        }
        request
    }

    /// Takes the next requests: those of one run, with the key of the last.
    pub(super) fn take(&mut self, head: Key, turn: u32, run_max: u32) -> Option<(Vec<Request>, Key)> {
        let owner = *self.turns.front()?;
        let lane = self.lanes.get_mut(&owner)?;
        let start = lane.range(head..).next().or_else(|| lane.iter().next());
        let mut last = start.map(|(key, _)| *key)?;
        let first = lane.remove(&last)?;
        let (mut requests, mut count) = (vec![first], first.count);
        let mut end = first;
        while let Some((&key, &next)) = lane.range(last..).next() {
            let follows = next.file == end.file && next.first == end.first + u64::from(end.count);
            if !follows || count.saturating_add(next.count) > run_max.min(self.left) {
                break;
            }
            lane.remove(&key);
            requests.push(next);
            (count, last, end) = (count + next.count, key, next);
        }
        self.left = self.left.saturating_sub(count);
        if lane.is_empty() {
            self.lanes.remove(&owner);
            self.turns.pop_front();
            self.left = turn;
        } else if self.left == 0 {
            self.turns.rotate_left(1);
            self.left = turn;
        }
        Some((requests, last))
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
        assert!(self.turns.is_empty() || (1..=turn).contains(&self.left), "K2: {} of {turn}", self.left);
    }
}
