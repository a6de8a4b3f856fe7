//! Clients and a disk in virtual time: what holding back is worth, and whom it costs something.

use super::*;
use crate::load::Random;
use std::collections::BinaryHeap;

/// How requests come.
#[derive(Clone, Copy)]
enum Come {
    /// So many clients, each of which asks again at once.
    Closed(u32),
    /// After so many microseconds on average.
    Open(f64),
}

/// What came of a run.
struct Outcome {
    per_second: f64,
    /// Seconds that 99 % did not exceed.
    p99: f64,
    /// Requests that needed no disk: the mean of their seconds.
    hits: f64,
}

/// Three in ten requests need the disk, which takes 2 ms for each, one after the other.
struct Loop {
    scheduler: Scheduler,
    events: BinaryHeap<Reverse<(Duration, u64, Option<GroupId>)>>,
    random: Random,
    now: Duration,
    disk_free: Duration,
    files: u64,
    waiting: HashMap<Ticket, (Duration, bool, Wish)>,
    come: Come,
    /// Of each, and whether it was a hit.
    took: Vec<(Duration, bool)>,
}

impl Loop {
    fn run(in_order: bool, overtake: Overtake, come: Come) -> Outcome {
        const SECONDS: u64 = 30;
        let scheduler = Scheduler::new(Options {
            in_order,
            merge: !in_order,
            reads_max: 8,
            age_cap: ms(5000),
            misses: Misses::Oldest,
            overtake,
        });
        let mut this = Self {
            scheduler,
            events: BinaryHeap::new(),
            random: Random::new(5),
            now: ms(0),
            disk_free: ms(0),
            files: 0,
            waiting: HashMap::new(),
            come,
            took: Vec::new(),
        };
        let first = if let Come::Closed(clients) = come { clients } else { 1 };
        (0..first).for_each(|at| this.events.push(Reverse((ms(at.into()), at.into(), None))));
        while let Some(Reverse((now, _, what))) =
            this.events.pop().filter(|event| event.0.0 < ms(SECONDS * 1000))
        {
            this.now = now;
            match what {
                None => this.ask(),
                Some(id) => {
                    for ticket in this.scheduler.done(id) {
                        this.answer(ticket);
                    }
                }
            }
            this.settle();
        }
        let begin = this.took.len() / 5;
        let mut took = this.took.split_off(begin);
        let hits: Vec<f64> =
            took.iter().filter(|(_, hit)| *hit).map(|(time, _)| time.as_secs_f64()).collect();
        took.sort();
        Outcome {
            per_second: took.len() as f64 / 0.8 / SECONDS as f64,
            p99: took[took.len() * 99 / 100].0.as_secs_f64(),
            hits: hits.iter().sum::<f64>() / hits.len() as f64,
        }
    }

    fn event(&mut self, after: Duration, what: Option<GroupId>) {
        self.files += 1;
        self.events.push(Reverse((self.now + after, self.files + 1000, what)));
    }

    fn ask(&mut self) {
        if let Come::Open(gap) = self.come {
            let gap = -gap * (1.0 - self.random.unit()).ln();
            self.event(Duration::from_nanos((gap * 1000.0) as u64), None);
        }
        self.files += 1;
        let (hit, wish) = (self.random.unit() >= 0.3, wish(self.files));
        match self.scheduler.arrive(self.now, wish, hit) {
            Arrival::Turn => self.turn(self.now, hit, wish),
            Arrival::Wait(ticket) | Arrival::Held(ticket) => {
                self.waiting.insert(ticket, (self.now, hit, wish));
            }
        }
    }

    fn turn(&mut self, since: Duration, hit: bool, wish: Wish) {
        let ticket = if hit {
            self.scheduler.leave();
            0
        } else {
            self.scheduler.missed(since, wish)
        };
        self.waiting.insert(ticket, (since, hit, wish));
        if hit {
            self.answer(ticket);
        }
    }

    fn answer(&mut self, ticket: Ticket) {
        let (since, hit, _) = self.waiting.remove(&ticket).unwrap();
        self.took.push((self.now - since, hit));
        if let Come::Closed(_) = self.come {
            self.event(Duration::from_micros(100), None);
        }
    }

    fn settle(&mut self) {
        while let Some(work) = self.scheduler.next(self.now) {
            match work {
                Work::Turn(ticket) => {
                    let (since, hit, wish) = self.waiting.remove(&ticket).unwrap();
                    self.turn(since, hit, wish);
                }
                Work::Read { id, .. } => {
                    let took = Duration::from_micros(500 + (3000.0 * self.random.unit()) as u64);
                    self.disk_free = self.disk_free.max(self.now) + took;
                    self.event(self.disk_free - self.now, Some(id));
                }
            }
        }
        // No reader has a rest while somebody waits, whoever is held back.
        let lengths = self.scheduler.lengths();
        assert!(
            lengths.reads == 8 || lengths.groups + lengths.line == 0 || self.scheduler.options().in_order
        );
    }
}

#[test]
fn in_a_closed_loop_holding_back_shortens_the_tail_and_costs_nothing() {
    let come = Come::Closed(144);
    let in_order = Loop::run(true, Overtake::Free, come);
    let free = Loop::run(false, Overtake::Free, come);
    assert!(free.p99 > 2.0 * in_order.p99, "{} against {}", free.p99, in_order.p99);
    for overtake in [Overtake::default(), Overtake::For(ms(100))] {
        let held = Loop::run(false, overtake, come);
        let (rate, tail) = (held.per_second / free.per_second, held.p99 / in_order.p99);
        assert!(rate > 0.99 && tail < 0.8 * free.p99 / in_order.p99, "{overtake:?}: {rate}, {tail}");
        assert!(held.hits < 0.7 * in_order.hits, "{overtake:?}: {} against {}", held.hits, in_order.hits);
    }
}

#[test]
fn in_an_open_loop_hardly_anybody_is_held_back() {
    // Of 500 reads per second that the disk could do, 430.
    let come = Come::Open(700.0);
    let in_order = Loop::run(true, Overtake::Free, come);
    let free = Loop::run(false, Overtake::Free, come);
    assert_eq!(free.hits, 0.0);
    for overtake in [Overtake::default(), Overtake::For(ms(100))] {
        let held = Loop::run(false, overtake, come);
        assert!(held.hits < 0.002, "{overtake:?}: {} s", held.hits);
        assert!(held.p99 < 1.02 * free.p99 && held.p99 < in_order.p99, "{overtake:?}: {}", held.p99);
    }
}

#[test]
fn a_disk_that_hangs_holds_nobody_back_for_long() {
    let mut scheduler =
        Scheduler::new(Options { overtake: Overtake::Times(0.0), ..options(false, Misses::Oldest) });
    (0..9).for_each(|file| {
        wait(scheduler.arrive(ms(0), wish(file), false));
    });
    while scheduler.next(ms(0)).is_some() {}
    let Arrival::Held(first) = scheduler.arrive(ms(10), wish(20), true) else { panic!("a turn") };
    let Arrival::Held(second) = scheduler.arrive(ms(20), wish(21), true) else { panic!("a turn") };
    scheduler.validate();
    assert_eq!(scheduler.next(ms(49)), None);
    assert!(!scheduler.lets_pass(ms(49)));
    // Nothing has ended for half of the cap.
    assert_eq!(scheduler.next(ms(50)), Some(Work::Turn(first)));
    assert_eq!(scheduler.next(ms(50)), Some(Work::Turn(second)));
    assert!(scheduler.lets_pass(ms(50)));
}

/// Each event while a wish was held back counted through the groups that wait, under the one lock.
#[test]
fn a_long_line_for_the_disk_is_not_counted_through_again_and_again() {
    const GROUPS: u64 = 20_000;
    const EVENTS: u64 = 2000;
    let bound = Overtake::Times(0.5);
    let mut scheduler =
        Scheduler::new(Options { reads_max: 1, overtake: bound, ..options(false, Misses::Oldest) });
    (0..GROUPS).for_each(|file| {
        wait(scheduler.arrive(ms(0), wish(file), false));
    });
    let (id, _) = read(scheduler.next(ms(0)));
    for event in 0..EVENTS {
        let arrival = scheduler.arrive(ms(1), wish(GROUPS + event), true);
        assert!(matches!(arrival, Arrival::Held(_)), "{event}: {arrival:?}");
        assert_eq!(scheduler.next(ms(1)), None);
    }
    assert!(scheduler.is_reading(id));
    scheduler.by_age.validate();
    // Half of the groups once, and then what came: not half of them each time.
    assert!(scheduler.by_age.moved < GROUPS + 2 * EVENTS, "{} steps", scheduler.by_age.moved);
}

#[test]
fn who_is_held_back_goes_when_those_before_have_gone() {
    let bound = Overtake::Times(0.0);
    let mut scheduler =
        Scheduler::new(Options { reads_max: 1, overtake: bound, ..options(false, Misses::Oldest) });
    (0..3).for_each(|file| {
        wait(scheduler.arrive(ms(0), wish(file), false));
    });
    let (id, _) = read(scheduler.next(ms(1)));
    let Arrival::Held(ticket) = scheduler.arrive(ms(2), wish(9), true) else { panic!("a turn") };
    // Those who come later hold it up no longer.
    (3..9).for_each(|file| {
        wait(scheduler.arrive(ms(3), wish(file), false));
    });
    assert_eq!(scheduler.next(ms(3)), None);
    scheduler.done(id);
    read(scheduler.next(ms(4)));
    assert_eq!(
        scheduler.next(ms(4)),
        Some(Work::Turn(ticket)),
        "one that came before waits, as many as are read at a time"
    );
    assert_eq!(scheduler.next(ms(4)), None);
}
