//! The scheduler against a naive twin.

use super::*;
use proptest::prelude::*;

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn version(inode: u64) -> Version {
    let time = pantler_origin::Time::default();
    Version { device: 1, inode, born: None, size: 1 << 30, modified: time, changed: time, tag: None }
}

fn wish(file: u64) -> Wish {
    Wish { file: version(file), start: 0, end: 4096 }
}

/// The rules, said once more with lists that are searched from end to end.
#[derive(Debug)]
struct Twin {
    options: Options,
    line: Vec<Ticket>,
    turns: u32,
    waiting: Vec<(Duration, Ticket, GroupId)>,
    pending: Vec<(GroupId, Wish)>,
    reading: Vec<(GroupId, Wish)>,
}

impl Twin {
    fn since(&self, id: GroupId) -> Duration {
        self.waiting.iter().filter(|(.., group)| *group == id).map(|(since, ..)| *since).min().unwrap()
    }

    fn join(&mut self, since: Duration, wish: Wish, ticket: Ticket) {
        let merge = !self.options.in_order;
        if let Some((id, _)) = self.reading.iter().rev().find(|(_, other)| merge && other.holds(wish)) {
            self.waiting.push((since, ticket, *id));
        } else if let Some(group) =
            self.pending.iter_mut().find(|(_, other)| merge && other.key() == wish.key())
        {
            group.1.start = group.1.start.min(wish.start);
            group.1.end = group.1.end.max(wish.end);
            self.waiting.push((since, ticket, group.0));
        } else {
            self.pending.push((ticket + 1, wish));
            self.waiting.push((since, ticket, ticket + 1));
        }
    }

    fn next(&mut self) -> Option<Work> {
        if self.options.in_order && self.turns < self.options.reads_max && !self.line.is_empty() {
            self.turns += 1;
            return Some(Work::Turn(self.line.remove(0)));
        }
        if self.reading.len() as u32 >= self.options.reads_max {
            return None;
        }
        let (id, wish) = *self.pending.iter().min_by_key(|(id, _)| (self.since(*id), *id))?;
        self.pending.retain(|group| group.0 != id);
        self.reading.push((id, wish));
        let oldest = self.waiting.iter().filter(|w| w.2 == id).map(|w| (w.0, w.1)).min().unwrap().1;
        Some(Work::Read { id, wish, oldest })
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
            Step::Arrive { file, start: start * 4096 + (start / 2) * TURN_BYTES, length: length * 4096, is_cached }
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
                let wish = Wish { file: version(file), start, end: start + length };
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
                        twin.join(now, wish, ticket);
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
                twin.join(since, wish(file), ticket);
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
                let work = scheduler.next();
                assert_eq!(work, twin.next());
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
        assert_eq!(lengths.pending + lengths.reading, twin.waiting.len());
        let oldest = twin.pending.iter().map(|group| twin.since(group.0));
        assert!(options.in_order || scheduler.oldest() == oldest.min());
    }
}

proptest! {
    #[test]
    fn cached_first_is_as_the_twin(steps in prop::collection::vec(step(), 1..120), reads_max in 1..4u32) {
        same_as_twin(Options { in_order: false, reads_max }, steps);
    }

    #[test]
    fn in_order_is_as_the_twin(steps in prop::collection::vec(step(), 1..120), reads_max in 1..4u32) {
        same_as_twin(Options { in_order: true, reads_max }, steps);
    }
}
