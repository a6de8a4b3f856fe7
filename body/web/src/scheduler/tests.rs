//! The scheduler against a naive twin, and against a disk in virtual time.

use super::*;
use proptest::prelude::*;

fn options(in_order: bool, misses: Misses) -> Options {
    Options { in_order, merge: !in_order, reads_max: 2, age_cap: ms(100), misses }
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn wish(file: u64) -> Wish {
    Wish { file, start: 0, end: 4096 }
}

fn wait(arrival: Arrival) -> Ticket {
    match arrival {
        Arrival::Wait(ticket) => ticket,
        other => panic!("expected to wait, got {other:?}"),
    }
}

fn read(work: Option<Work>) -> (GroupId, Wish) {
    match work {
        Some(Work::Read { id, wish, .. }) => (id, wish),
        other => panic!("expected a read, got {other:?}"),
    }
}

#[test]
fn what_is_believed_goes_first_and_comes_back_warming() {
    let mut scheduler = Scheduler::new(options(false, Misses::Oldest));
    let cold = wait(scheduler.arrive(ms(0), wish(1), false));
    assert_eq!(scheduler.arrive(ms(1), wish(2), true), Arrival::Turn);
    let warming = scheduler.missed(ms(1), wish(2));
    let (first, what) = read(scheduler.next(ms(2)));
    assert_eq!(what, wish(2), "what was believed is read before what is older and cold");
    let (second, _) = read(scheduler.next(ms(2)));
    assert_eq!(scheduler.next(ms(2)), None, "Q2: two reads at a time");
    assert_eq!(scheduler.done(first), [warming]);
    assert_eq!(scheduler.done(second), [cold]);
    scheduler.validate();
}

#[test]
fn misses_of_one_piece_are_read_once() {
    let mut scheduler = Scheduler::new(options(false, Misses::Oldest));
    let tickets: Vec<Ticket> = (0..5).map(|at| wait(scheduler.arrive(ms(at), wish(7), false))).collect();
    let (id, _) = read(scheduler.next(ms(5)));
    let late = wait(scheduler.arrive(ms(6), wish(7), false));
    assert_eq!(scheduler.next(ms(6)), None, "it is being read");
    let outside = wait(scheduler.arrive(ms(6), Wish { end: 8192, ..wish(7) }, false));
    let (other, what) = read(scheduler.next(ms(6)));
    assert_eq!(what.end, 8192, "more than is being read needs a read of its own");
    assert_eq!(scheduler.done(id), [&tickets[..], &[late]].concat());
    assert_eq!(scheduler.done(other), [outside]);
    scheduler.validate();
}

#[test]
fn the_most_wanted_waits_for_the_overdue() {
    let mut scheduler = Scheduler::new(Options { reads_max: 1, ..options(false, Misses::Wanted) });
    wait(scheduler.arrive(ms(0), wish(1), false));
    for at in 1..4 {
        wait(scheduler.arrive(ms(at), wish(2), false));
    }
    let (id, what) = read(scheduler.next(ms(10)));
    assert_eq!(what, wish(2));
    scheduler.done(id);
    for at in 11..15 {
        wait(scheduler.arrive(ms(at), wish(3), false));
    }
    assert_eq!(read(scheduler.next(ms(50))).1, wish(1), "Q3: half of the cap");
}

#[test]
fn in_order_the_head_holds_up_the_line() {
    let mut scheduler = Scheduler::new(options(true, Misses::Oldest));
    assert_eq!(scheduler.arrive(ms(0), wish(1), true), Arrival::Turn);
    assert_eq!(scheduler.arrive(ms(1), wish(2), true), Arrival::Turn);
    let third = wait(scheduler.arrive(ms(2), wish(3), true));
    scheduler.missed(ms(0), wish(1));
    let (id, _) = read(scheduler.next(ms(3)));
    assert_eq!(scheduler.next(ms(3)), None, "both turns are taken");
    scheduler.leave();
    assert_eq!(scheduler.next(ms(4)), Some(Work::Turn(third)));
    scheduler.done(id);
    scheduler.leave();
    scheduler.validate();
    assert_eq!(scheduler.arrive(ms(9), wish(4), false), Arrival::Turn, "nobody is left");
}

/// The rules, said once more with lists that are searched from end to end.
#[derive(Debug)]
struct Twin {
    options: Options,
    line: Vec<Ticket>,
    turns: u32,
    waiting: Vec<(Duration, Ticket, GroupId)>,
    pending: Vec<(GroupId, Wish, bool)>,
    reading: Vec<(GroupId, Wish)>,
}

impl Twin {
    fn since(&self, id: GroupId) -> Duration {
        self.waiting.iter().filter(|(.., group)| *group == id).map(|(since, ..)| *since).min().unwrap()
    }

    fn worth(&self, id: GroupId) -> usize {
        self.waiting.iter().filter(|(.., group)| *group == id).count()
    }

    fn join(&mut self, since: Duration, wish: Wish, warming: bool, ticket: Ticket) {
        let merge = self.options.merge;
        let key = (wish.file, wish.start / WINDOW_BYTES);
        if let Some((id, _)) = self.reading.iter().rev().find(|(_, other)| merge && other.holds(wish)) {
            self.waiting.push((since, ticket, *id));
        } else if let Some(group) = self.pending.iter_mut().find(|(_, other, _)| merge && other.key() == key)
        {
            group.1.start = group.1.start.min(wish.start);
            group.1.end = group.1.end.max(wish.end);
            group.2 |= warming;
            self.waiting.push((since, ticket, group.0));
        } else {
            self.pending.push((ticket + 1, wish, warming));
            self.waiting.push((since, ticket, ticket + 1));
        }
    }

    fn next(&mut self, now: Duration) -> Option<Work> {
        if self.turns < self.options.reads_max && !self.line.is_empty() {
            self.turns += 1;
            return Some(Work::Turn(self.line.remove(0)));
        }
        self.next_read(now)
    }

    fn next_read(&mut self, now: Duration) -> Option<Work> {
        if self.reading.len() as u32 >= self.options.reads_max {
            return None;
        }
        let overdue = self.options.age_cap / 2;
        let rank = |(id, _, warming): &&(GroupId, Wish, bool)| {
            let since = self.since(*id);
            let is_overdue = now.saturating_sub(since) >= overdue || self.options.in_order;
            let class = if is_overdue {
                0
            } else if *warming {
                1
            } else {
                2
            };
            let wanted = class == 2 && self.options.misses == Misses::Wanted;
            let worth = if wanted { self.worth(*id) } else { 0 };
            (class, Reverse(worth), since, *id)
        };
        let (id, wish, is_warming) = *self.pending.iter().min_by_key(rank)?;
        self.pending.retain(|group| group.0 != id);
        self.reading.push((id, wish));
        let oldest = self.waiting.iter().filter(|w| w.2 == id).map(|w| (w.0, w.1)).min().unwrap().1;
        Some(Work::Read { id, wish, oldest, is_warming })
    }

    fn done(&mut self, id: GroupId) -> Vec<Ticket> {
        self.reading.retain(|group| group.0 != id);
        if self.options.in_order {
            self.turns -= 1;
        }
        let mut ended: Vec<_> = self.waiting.iter().filter(|w| w.2 == id).map(|w| (w.0, w.1)).collect();
        self.waiting.retain(|w| w.2 != id);
        ended.sort();
        ended.into_iter().map(|(_, ticket)| ticket).collect()
    }
}

#[derive(Debug, Clone)]
enum Step {
    Arrive { file: u64, start: u64, length: u64, is_cached: bool },
    Leave,
    Missed { file: u64, ago: u64 },
    Cancel { which: usize },
    Next,
    Done { which: usize },
    Pass { milliseconds: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4u64, 0..3u64, 1..4u64, any::<bool>()).prop_map(|(file, start, length, is_cached)| {
            Step::Arrive { file, start: start * 4096 + (start / 2) * WINDOW_BYTES, length: length * 4096, is_cached }
        }),
        1 => Just(Step::Leave),
        2 => (0..4u64, 0..40u64).prop_map(|(file, ago)| Step::Missed { file, ago }),
        1 => any::<usize>().prop_map(|which| Step::Cancel { which }),
        4 => Just(Step::Next),
        3 => any::<usize>().prop_map(|which| Step::Done { which }),
        2 => (0..30u64).prop_map(|milliseconds| Step::Pass { milliseconds }),
    ]
}

fn same_as_twin(options: Options, steps: Vec<Step>) {
    let mut scheduler = Scheduler::new(options);
    let mut twin =
        Twin { options, line: vec![], turns: 0, waiting: vec![], pending: vec![], reading: vec![] };
    let mut now = ms(1000);
    // Turns that are out.
    let mut turns = 0u32;
    for step in steps {
        match step {
            Step::Arrive { file, start, length, is_cached } => {
                let wish = Wish { file, start, end: start + length };
                match scheduler.arrive(now, wish, is_cached) {
                    Arrival::Turn => {
                        let is_free = twin.line.is_empty() && twin.turns < options.reads_max;
                        assert!(if options.in_order { is_free } else { is_cached });
                        twin.turns += u32::from(options.in_order);
                        turns += 1;
                    }
                    Arrival::Wait(ticket) if options.in_order => twin.line.push(ticket),
                    Arrival::Wait(ticket) => {
                        assert!(!is_cached);
                        twin.join(now, wish, false, ticket);
                    }
                }
            }
            Step::Leave if turns > 0 => {
                scheduler.leave();
                turns -= 1;
                twin.turns -= u32::from(options.in_order);
            }
            Step::Missed { file, ago } if turns > 0 => {
                turns -= 1;
                let since = now.saturating_sub(ms(ago));
                let ticket = scheduler.missed(since, wish(file));
                twin.join(since, wish(file), true, ticket);
            }
            Step::Cancel { which } => {
                let all: Vec<Ticket> =
                    twin.line.iter().copied().chain(twin.waiting.iter().map(|w| w.1)).collect();
                let Some(&ticket) = all.get(which % all.len().max(1)) else { continue };
                scheduler.cancel(ticket);
                twin.line.retain(|other| *other != ticket);
                let group = twin.waiting.iter().find(|w| w.1 == ticket).map(|w| w.2);
                twin.waiting.retain(|w| w.1 != ticket);
                if let Some(id) = group
                    && !twin.reading.iter().any(|group| group.0 == id)
                {
                    twin.turns -= u32::from(options.in_order);
                    if !twin.waiting.iter().any(|w| w.2 == id) {
                        twin.pending.retain(|group| group.0 != id);
                    }
                }
            }
            Step::Next => {
                let work = scheduler.next(now);
                assert_eq!(work, twin.next(now));
                turns += u32::from(matches!(work, Some(Work::Turn(_))));
            }
            Step::Done { which } => {
                let Some(&(id, _)) = twin.reading.get(which % twin.reading.len().max(1)) else { continue };
                assert_eq!(scheduler.done(id), twin.done(id));
            }
            Step::Pass { milliseconds } => now += ms(milliseconds),
            Step::Leave | Step::Missed { .. } => {}
        }
        scheduler.validate();
        let lengths = scheduler.lengths();
        assert_eq!(lengths.line, twin.line.len());
        assert_eq!(lengths.cold + lengths.warming + lengths.reading, twin.waiting.len());
        let oldest = twin.pending.iter().map(|group| twin.since(group.0));
        assert!(options.in_order || scheduler.oldest() == oldest.min());
    }
}

proptest! {
    #[test]
    fn believing_is_as_the_twin(steps in prop::collection::vec(step(), 1..120), wanted in any::<bool>(), reads in 1..4u32) {
        let misses = if wanted { Misses::Wanted } else { Misses::Oldest };
        same_as_twin(Options { reads_max: reads, ..options(false, misses) }, steps);
    }

    #[test]
    fn in_order_is_as_the_twin(steps in prop::collection::vec(step(), 1..120), reads in 1..4u32) {
        same_as_twin(Options { reads_max: reads, ..options(true, Misses::Oldest) }, steps);
    }

    /// However slow the disk is: a request that has waited for half of the cap is read before all
    /// later ones. That is all that the cap promises by itself.
    #[test]
    fn after_half_of_the_cap_nobody_is_overtaken(
        arrivals in prop::collection::vec((0..60u64, 0..40u64, prop_oneof![3 => Just(true), 1 => Just(false)]), 50..300),
        wanted in any::<bool>(),
        took in 1..500u64,
    ) {
        let misses = if wanted { Misses::Wanted } else { Misses::Oldest };
        let mut scheduler = Scheduler::new(options(false, misses));
        let half = scheduler.options().age_cap / 2;
        let mut ends: VecDeque<(Duration, GroupId)> = VecDeque::new();
        let mut pending: HashMap<Ticket, Duration> = HashMap::new();
        let (mut now, mut overdue) = (ms(0), 0);
        let last = (ms(u64::MAX / 2_000_000_000), 0, false);
        for (due, file, wrong) in arrivals
            .into_iter()
            .scan(ms(0), |due, (gap, file, wrong)| { *due += ms(gap); Some((*due, file, wrong)) })
            .chain([last])
        {
            while let Some(&(end, id)) = ends.front().filter(|(end, _)| *end <= due) {
                now = now.max(end);
                ends.pop_front();
                for ticket in scheduler.done(id) {
                    pending.remove(&ticket);
                }
                begin(&mut scheduler, now, ms(took), &mut ends, &mut pending, half, &mut overdue)?;
            }
            if due == last.0 { break }
            now = now.max(due);
            let ticket = match scheduler.arrive(now, wish(file), wrong) {
                Arrival::Turn => scheduler.missed(now, wish(file)),
                other => wait(other),
            };
            // A request that joins a read that is under way waits for no other.
            if !ends.iter().any(|(_, id)| scheduler.tickets(*id).any(|other| other == ticket)) {
                pending.insert(ticket, now);
            }
            begin(&mut scheduler, now, ms(took), &mut ends, &mut pending, half, &mut overdue)?;
        }
        prop_assert!(pending.is_empty(), "all were served");
        prop_assert!(took < 400 || overdue > 0, "with a disk that slow a request waits for long");
    }

    /// Requests keep finding nothing, faster than the disk reads, and popular files keep being
    /// requested: with a disk that reads in half of the cap what waits, no wait is longer than the
    /// cap.
    #[test]
    fn nobody_waits_beyond_the_cap(
        kinds in prop::collection::vec((prop::bool::weighted(0.9), prop::bool::weighted(0.95)), 50..270),
        wanted in any::<bool>(),
    ) {
        let misses = if wanted { Misses::Wanted } else { Misses::Oldest };
        let longest = longest_wait(options(false, misses), &kinds);
        prop_assert!(longest <= ms(100), "a request waited {longest:?}");
    }
}

/// The same arrivals with and without a cap that matters: a missing piece waits for all warming
/// ones, unless it is old.
#[test]
fn without_the_cap_somebody_waits_longer() {
    // The one that is believed missing finds others waiting.
    let kinds: Vec<(bool, bool)> = (0..270).map(|at| (true, at != 10)).collect();
    for misses in [Misses::Oldest, Misses::Wanted] {
        let capped = options(false, misses);
        let longest = longest_wait(capped, &kinds);
        assert!(longest <= ms(100), "{longest:?}");
        let longest = longest_wait(Options { age_cap: ms(3_600_000), ..capped }, &kinds);
        assert!(longest > ms(120), "{longest:?}");
    }
}

/// Plays arrivals, three in a millisecond, to a disk that reads two pieces in a millisecond: at
/// most ninety ever wait, as there are 270 arrivals at most. Each wishes for a new file or the one
/// before, and is believed there, wrongly, or is not.
fn longest_wait(options: Options, kinds: &[(bool, bool)]) -> Duration {
    assert!(kinds.len() <= 270 && options.reads_max == 2);
    let mut scheduler = Scheduler::new(options);
    let mut ends: VecDeque<(Duration, GroupId)> = VecDeque::new();
    let mut since: HashMap<Ticket, Duration> = HashMap::new();
    let mut longest = ms(0);
    let mut file = 0;
    for at in 0.. {
        let (now, arrival) = (ms(at) / 3, kinds.get(at as usize));
        if let Some((is_new, wrong)) = arrival {
            file += u64::from(*is_new);
            let ticket = match scheduler.arrive(now, wish(file), *wrong) {
                Arrival::Turn => scheduler.missed(now, wish(file)),
                other => wait(other),
            };
            since.insert(ticket, now);
        }
        while let Some((_, id)) = ends.pop_front_if(|(end, _)| *end <= now) {
            for ticket in scheduler.done(id) {
                longest = longest.max(now - since.remove(&ticket).expect("somebody who waited"));
            }
        }
        while let Some(work) = scheduler.next(now) {
            let Work::Read { id, .. } = work else { panic!("out of order no turn is waited for") };
            ends.push_back((now + ms(1), id));
        }
        if arrival.is_none() && since.is_empty() {
            return longest;
        }
    }
    unreachable!("all are served")
}

/// Begins all reads that may begin; each is of a request that came no later than the overdue ones.
fn begin(
    scheduler: &mut Scheduler,
    now: Duration,
    took: Duration,
    ends: &mut VecDeque<(Duration, GroupId)>,
    pending: &mut HashMap<Ticket, Duration>,
    half: Duration,
    overdue: &mut u32,
) -> Result<(), TestCaseError> {
    while let Some(work) = scheduler.next(now) {
        let Work::Read { id, oldest, .. } = work else { continue };
        let since = pending[&oldest];
        let late = pending.values().filter(|other| now - **other >= half).min();
        if let Some(late) = late {
            *overdue += 1;
            prop_assert!(since <= *late, "{since:?} went before {late:?} at {now:?}");
        }
        for ticket in scheduler.tickets(id) {
            pending.remove(&ticket);
        }
        ends.push_back((now + took, id));
    }
    Ok(())
}
