//! The engine over the model of the kernel, in virtual time.

use std::collections::VecDeque;

use pantler_pagecache::{Answer, Decision, Engine, Event, FileKey, Kind, Options, Origin, Span, Spare};
use pantler_steward::{OptionsError, OwnerId};

use super::kernel::{Kernel, KernelEvent, Program};

/// The owner of a run.
const OWNER: OwnerId = OwnerId(0);
/// Time between two slow looks of the engine.
const TICK_NS: u64 = 100_000_000;
/// Time after which events of references come, once they are wanted.
const WATCH_NS: u64 = 50_000_000;

/// Time of a program for each page that it reads: it looks at 1 GB/s.
const PAGE_NS: u64 = 4_000;
/// Time of a read of the device, an SSD, on top.
const DEVICE_NS: u64 = 150_000;
/// Rest of the reading thread after a round with work.
const BUSY_NS: u64 = 300_000;
/// Rest after a round without.
const CALM_NS: u64 = 2_000_000;

/// What goes wrong on the way from the kernel to the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Events that come this much later than the round after they happened.
    pub late_ns: u64,
    /// The reading thread gets no processor for this time after each round.
    pub rest_ns: u64,
    /// Lose the next events, as a trace buffer that is full.
    pub lose: u32,
    /// Pages by which the room below a limit is told too large.
    pub flatters: u64,
    /// Files cannot be found while this is set.
    pub hides_files: bool,
}

/// What carries decisions out. Spans name the kernel's files.
pub trait Hands {
    /// Carries a decision out. Second: pages dropped although the watcher knew that they belong to
    /// others.
    fn carry_out(&mut self, kernel: &mut Kernel, decision: Decision) -> (Answer, u64);
}

/// Hands that do what they are told.
#[derive(Clone, Copy, Debug, Default)]
pub struct FaithfulHands;

impl Hands for FaithfulHands {
    fn carry_out(&mut self, kernel: &mut Kernel, decision: Decision) -> (Answer, u64) {
        let answer = match decision {
            Decision::Drop { span, .. } => {
                let (stayed, wronged) = kernel.drop_span(None, span);
                return (Answer::Cached(stayed), wronged);
            }
            Decision::ReadAhead { span, .. } => {
                kernel.read_ahead(span);
                Answer::Done
            }
            Decision::Ask { span, .. } => Answer::Cached(kernel.cached(span)),
            Decision::Find { file, .. } => Answer::Found { size_blocks: kernel.file_blocks(file) },
            Decision::TakeOver { file, thread } => {
                kernel.advise_random(Program::Run(thread), file);
                Answer::Done
            }
            Decision::Await { .. } | Decision::Tell { .. } => Answer::Done,
        };
        (answer, 0)
    }
}

/// A run that is steered.
#[derive(Debug)]
pub struct Machine<H = FaithfulHands> {
    kernel: Kernel,
    engine: Engine,
    hands: H,
    faults: Faults,
    now_ns: u64,
    next_round_ns: u64,
    next_tick_ns: u64,
    /// When events of references come, if they were asked for.
    watched_from_ns: Option<u64>,
    /// Events in flight, with their times.
    on_their_way: VecDeque<(u64, KernelEvent)>,
    lost: u64,
    /// Pages of the run that the engine was never told of, because the event was lost.
    untold: u64,
    wronged: u64,
}

impl<H: Hands> Machine<H> {
    /// The engine over a kernel.
    ///
    /// # Errors
    ///
    /// The budget leaves no block.
    pub fn new(kernel: Kernel, options: &Options, hands: H, seed: u64) -> Result<Self, OptionsError> {
        Ok(Machine {
            kernel,
            engine: Engine::new(options, seed)?,
            hands,
            faults: Faults::default(),
            now_ns: 0,
            next_round_ns: CALM_NS,
            next_tick_ns: TICK_NS,
            watched_from_ns: None,
            on_their_way: VecDeque::new(),
            lost: 0,
            untold: 0,
            wronged: 0,
        })
    }

    /// A thread of the run reads.
    pub fn read(&mut self, thread: u32, file: u32, first: u64, last: u64) {
        let has_waited = self.kernel.read(Program::Run(thread), file, first, last);
        let wait = if has_waited { DEVICE_NS } else { 0 };
        self.pass((last + 1 - first) * PAGE_NS + wait);
    }

    /// Something else happens to the kernel, and `time_ns` pass.
    pub fn act(&mut self, time_ns: u64, act: impl FnOnce(&mut Kernel)) {
        act(&mut self.kernel);
        self.pass(time_ns);
    }

    /// Says something to the steward, as hints do.
    pub fn tell<T>(&mut self, say: impl FnOnce(&mut pantler_steward::Steward) -> T) -> T {
        self.engine.tell(say)
    }

    /// What goes wrong from now on.
    pub fn faults(&mut self) -> &mut Faults {
        &mut self.faults
    }

    /// The kernel, to look at.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The engine, to look at.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Pages that were dropped although the watcher knew that they belong to other programs.
    pub fn wronged(&self) -> u64 {
        self.wronged
    }

    /// Pages of the run that the engine cannot know of: their events are on the way, or were lost.
    pub fn unseen(&self) -> u64 {
        let added = |(_, event): &(u64, KernelEvent)| match event {
            KernelEvent { kind: Kind::Added, program: Program::Run(_), first, last, .. } => last + 1 - first,
            _ => 0,
        };
        self.untold + self.on_their_way.iter().map(added).sum::<u64>()
    }

    /// Lets time pass, and the engine work.
    fn pass(&mut self, time_ns: u64) {
        self.collect();
        let until = self.now_ns + time_ns;
        while self.next_round_ns <= until {
            self.now_ns = self.next_round_ns;
            self.round();
            let rest = if self.engine.is_busy() { BUSY_NS } else { CALM_NS };
            self.next_round_ns = self.now_ns + rest.max(self.faults.rest_ns);
        }
        self.now_ns = until;
    }

    fn collect(&mut self) {
        let is_watched = !self.engine.is_calm()
            && self.watched_from_ns.is_none_or(|from| from <= self.now_ns)
            && !self.engine.wants_hits();
        for event in self.kernel.take_events() {
            if event.program.is_run() && Kind::REFERENCES.contains(&event.kind) && !is_watched {
                continue;
            }
            if self.faults.lose > 0 {
                self.faults.lose -= 1;
                self.lost += 1;
                if event.program.is_run() && event.kind == Kind::Added {
                    self.untold += event.last + 1 - event.first;
                }
                continue;
            }
            self.on_their_way.push_back((self.now_ns, event));
        }
    }

    /// One round of the reading thread.
    fn round(&mut self) {
        while let Some(&(time_ns, event)) = self.on_their_way.front()
            && time_ns + self.faults.late_ns <= self.now_ns
        {
            self.on_their_way.pop_front();
            self.deliver(time_ns, &event);
        }
        let lost = std::mem::take(&mut self.lost);
        if lost > 0 {
            self.engine.lost(lost);
            self.obey();
        }
        if let Some(room) = self.kernel.room() {
            let behind = !self.on_their_way.is_empty();
            let room = Spare { blocks: room + self.faults.flatters, kernel_reclaims: true };
            self.engine.limited(self.now_ns, room, behind);
        }
        self.engine.begin_round(self.now_ns);
        self.obey();
        if self.now_ns >= self.next_tick_ns {
            self.next_tick_ns = self.now_ns + TICK_NS;
            self.engine.tick();
            self.obey();
        }
        if self.engine.wants_hits() {
            let from = *self.watched_from_ns.get_or_insert(self.now_ns + WATCH_NS);
            if from <= self.now_ns {
                self.engine.watch_hits();
            }
        }
    }

    fn deliver(&mut self, time_ns: u64, event: &KernelEvent) {
        self.kernel.delivered(event);
        let origin = match event.program {
            Program::Run(thread) => Origin::Run { thread, owner: OWNER },
            Program::Outside(_) => Origin::Outside,
        };
        let file = FileKey { dev: 1, ino: event.file.into() };
        let KernelEvent { kind, first, last, .. } = *event;
        let event = Event { time_ns, kind, origin, file, first, last };
        if !self.engine.event(&event) {
            self.engine.admit(&event);
        }
    }

    /// Carries out what the engine decides.
    fn obey(&mut self) {
        while let Some(decision) = self.engine.poll() {
            let is_hidden = self.faults.hides_files && matches!(decision, Decision::Find { .. });
            let (answer, wronged) = if is_hidden {
                (Answer::Unreachable, 0)
            } else {
                self.hands.carry_out(&mut self.kernel, named(&self.engine, decision))
            };
            self.wronged += wronged;
            self.engine.answer(decision, answer);
        }
    }
}

/// The decision with the kernel's number of the file in place of the engine's.
fn named(engine: &Engine, decision: Decision) -> Decision {
    let kernels = |file: u32| engine.file(file).key.ino as u32;
    let spans = |span: Span| Span { file: kernels(span.file), ..span };
    match decision {
        Decision::Drop { span, rule } => Decision::Drop { span: spans(span), rule },
        Decision::ReadAhead { span, rule } => Decision::ReadAhead { span: spans(span), rule },
        Decision::Ask { span, rule } => Decision::Ask { span: spans(span), rule },
        Decision::Await { span } => Decision::Await { span: spans(span) },
        Decision::Find { file, thread, owner } => Decision::Find { file: kernels(file), thread, owner },
        Decision::TakeOver { file, thread } => Decision::TakeOver { file: kernels(file), thread },
        Decision::Tell { .. } => decision,
    }
}
