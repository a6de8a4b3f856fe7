//! Several processes at once, each with its own references: each is an owner, with a file of its
//! own.

use super::reference::Reference;
use pantler_policy::Draws;

/// Processes that still have references, in turns of `burst`. The next one is drawn, or with `seed`
/// 0 simply the next.
pub fn in_turns<I: Iterator<Item = Reference>>(
    processes: impl Iterator<Item = I>,
    burst: u64,
    seed: u64,
) -> impl Iterator<Item = Reference> {
    let mut live: Vec<_> = (0..).zip(processes.map(Iterator::peekable)).collect();
    live.retain_mut(|(_, references)| references.peek().is_some());
    let mut mix = Mix { live, burst, left: burst, turn: 0, random: (seed != 0).then(|| Draws::new(seed)) };
    mix.choose(0);
    mix
}

struct Mix<I: Iterator<Item = Reference>> {
    live: Vec<(u32, std::iter::Peekable<I>)>,
    burst: u64,
    /// References left of the turn.
    left: u64,
    /// Index into `live`.
    turn: usize,
    random: Option<Draws>,
}

impl<I: Iterator<Item = Reference>> Mix<I> {
    /// Begins a turn: of the process at `next` when they go round.
    fn choose(&mut self, next: usize) {
        self.left = self.burst;
        let count = self.live.len().max(1);
        self.turn = match &mut self.random {
            Some(random) => random.below(count as u64) as usize,
            None => next % count,
        };
    }
}

impl<I: Iterator<Item = Reference>> Iterator for Mix<I> {
    type Item = Reference;

    fn next(&mut self) -> Option<Reference> {
        let (number, references) = self.live.get_mut(self.turn)?;
        let number = *number;
        let block = references.next()?.block;
        self.left -= 1;
        if references.peek().is_none() {
            drop(self.live.remove(self.turn));
            self.choose(self.turn);
        } else if self.left == 0 {
            self.choose(self.turn + 1);
        }
        Some(Reference { owner: number, file: number, block })
    }
}
