//! Virtual time: what happens when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that was announced for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A process has computed what its step says.
    Computed { process: usize },
    /// A disk has served a run.
    Served { disk: usize, tag: u64 },
}

/// Events in order of time; of the same time, as they were announced.
#[derive(Debug, Default)]
pub(super) struct Clock {
    now_ns: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    announced: u64,
}

impl Clock {
    pub(super) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    pub(super) fn announce(&mut self, at_ns: u64, event: Event) {
        self.events.push(Reverse((at_ns.max(self.now_ns), self.announced, event)));
        self.announced += 1;
    }

    /// Time goes on to the next event. Returns how long that took.
    pub(super) fn next(&mut self) -> Option<(u64, Event)> {
        let Reverse((at_ns, _, event)) = self.events.pop()?;
        let passed = at_ns - self.now_ns;
        self.now_ns = at_ns;
        Some((passed, event))
    }
}
