//! What processes say of their future: the truth, nothing, or something wrong.

use pantler_steward::lists::Chunk;
use pantler_trace::generate::Permutation;
use strum::{Display, EnumString, VariantNames};

use super::program::Step;
use super::scene::Scene;
use crate::hint::Hint;

/// What becomes of the lists of a program.
#[derive(Clone, Copy, Debug, Default, Display, EnumString, VariantNames, PartialEq, Eq, Hash)]
#[strum(serialize_all = "lowercase")]
pub enum Lists {
    /// They are given as the program has them.
    #[default]
    Exact,
    /// None is given.
    None,
    /// The same blocks in a random order.
    Shuffled,
    /// As many blocks of files that the next process reads; where there is one process only, of
    /// files that are never read.
    Foreign,
    /// The first file of each list, without an end.
    Endless,
    /// As many blocks of files that are never read.
    Unread,
}

impl Scene {
    /// Changes what a process says of its future.
    pub fn tell(&mut self, process: usize, lists: Lists, seed: u64) {
        if lists == Lists::Exact || process >= self.programs.len() {
            return;
        }
        let steps = std::mem::take(&mut self.programs[process].steps);
        let mut told = Vec::with_capacity(steps.len());
        for step in steps {
            match step {
                Step::Hint(Hint::List(chunks)) => {
                    if let Some(wrong) = self.wrong(process, lists, &chunks, seed ^ told.len() as u64) {
                        told.push(Step::Hint(Hint::List(wrong)));
                    }
                }
                step => told.push(step),
            }
        }
        self.programs[process].steps = told;
    }

    fn wrong(&mut self, process: usize, lists: Lists, chunks: &[Chunk], seed: u64) -> Option<Vec<Chunk>> {
        let blocks: u64 = chunks.iter().map(|chunk| chunk.last - chunk.first + 1).sum();
        match lists {
            Lists::Exact => Some(chunks.to_vec()),
            Lists::None => None,
            Lists::Shuffled => {
                let all: Vec<Chunk> = chunks
                    .iter()
                    .flat_map(|&chunk| {
                        (chunk.first..=chunk.last).map(move |at| Chunk { first: at, last: at, ..chunk })
                    })
                    .collect();
                let order = Permutation::new(all.len() as u64, seed);
                Some((0..all.len() as u64).map(|at| all[order.at(at) as usize]).collect())
            }
            Lists::Foreign => {
                let other = (process + 1) % self.programs.len();
                let theirs = if other == process { Vec::new() } else { self.programs[other].future() };
                if theirs.is_empty() {
                    self.wrong(process, Lists::Unread, chunks, seed)
                } else {
                    Some(theirs)
                }
            }
            Lists::Endless => {
                let first = chunks.first()?;
                Some(vec![Chunk { first: 0, last: u64::MAX - 1, ..*first }])
            }
            Lists::Unread => {
                let folder = self.layout.spare_folder(process);
                let file = self.layout.file(folder, blocks);
                Chunk::whole(file, blocks).map(|chunk| vec![chunk])
            }
        }
    }
}
