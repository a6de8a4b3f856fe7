//! A process while it runs.

use std::collections::VecDeque;

use pantler_steward::Block;
use pantler_steward::lists::Chunk;

use super::outcome::ProcessOutcome;
use super::program::{Program, Step};

/// What a process is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// It could go on, and waits for a processor.
    #[default]
    Ready,
    /// It has a processor.
    Computing,
    /// It waits for a block, and holds a pin on it.
    Stalled,
    /// Every frame was pinned when it wanted one.
    Frameless,
    /// It has ended.
    Ended,
}

/// A process: where it is in its program, and what happened to it.
#[derive(Debug, Default)]
pub(super) struct Process<'a> {
    pub(super) steps: &'a [Step],
    pub(super) at: usize,
    pub(super) state: State,
    /// The block that it uses or waits for, and pins.
    pub(super) using: Option<Block>,
    /// The block is there, the computing is not done.
    pub(super) compute_ns: Option<u64>,
    /// Time that decides which process computes next (T2).
    pub(super) used_ns: u64,
    /// Ranges of its list that the steward had no room for yet.
    pub(super) list: VecDeque<Chunk>,
    pub(super) outcome: ProcessOutcome,
}

impl<'a> Process<'a> {
    pub(super) fn new(program: &'a Program) -> Self {
        Self {
            steps: &program.steps,
            outcome: ProcessOutcome { name: program.name.clone(), ..ProcessOutcome::default() },
            ..Self::default()
        }
    }

    /// Time passes.
    pub(super) fn pass(&mut self, time_ns: u64, disk_is_busy: bool) {
        match self.state {
            State::Computing => {
                self.outcome.compute_ns += time_ns;
                if disk_is_busy {
                    self.outcome.overlap_ns += time_ns;
                }
            }
            State::Stalled | State::Frameless => self.outcome.stall_ns += time_ns,
            State::Ready | State::Ended => {}
        }
    }
}
