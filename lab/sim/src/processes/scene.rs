//! A scene: programs that run together, and the files that they read.

use std::collections::{HashMap, HashSet};

use pantler_steward::{Block, FileId};
use pantler_trace::Prepared;

use super::layout::Layout;
use super::program::{Program, Step};
use crate::control::{Control, owner_names};
use crate::hint::Hint;

/// Programs, their files, and what is cached when they start.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    /// What runs.
    pub programs: Vec<Program>,
    /// The files; they get their places when the scene runs.
    pub layout: Layout,
    /// Blocks in the cache at the start, with their process, from the least to the most recently
    /// used.
    pub cached: Vec<(usize, Block)>,
}

impl Scene {
    /// One process for each owner of a trace, which makes its references in their order and
    /// computes `compute_ns` after each. Each begins with a list of all that it will read.
    ///
    /// Blocks lie where their numbers say: the file of plain keys is the whole disk. What `control`
    /// names and the trace does not have is returned, one sentence each.
    pub fn of_trace(trace: &Prepared, compute_ns: u64, control: &Control) -> (Self, Vec<String>) {
        let (hints, unknown) = control.hints(trace);
        let mut scene = Self::default();
        let mut programs: Vec<Program> = owner_names(trace).iter().map(|name| Program::new(name)).collect();
        let mut ends: Vec<(u64, usize)> = vec![(0, usize::MAX); trace.file_names().len().max(1)];
        for (at, &id) in trace.requests().iter().enumerate() {
            let process = trace.owners().map_or(0, |owners| usize::from(owners[at]));
            let block = trace.block_of(id);
            let (end, first) = &mut ends[block.file as usize];
            *end = (*end).max(block.index.saturating_add(1));
            *first = (*first).min(process);
            programs[process].read(Block::new(FileId(block.file.into()), block.index), compute_ns);
        }
        let mut folders: HashMap<usize, usize> = HashMap::new();
        for (blocks, process) in ends {
            let process = if process == usize::MAX { 0 } else { process };
            let folder = *folders.entry(process).or_insert_with(|| scene.layout.folder(process));
            scene.layout.file(folder, blocks);
        }
        for (process, mut program) in programs.into_iter().enumerate() {
            if program.steps.is_empty() {
                continue;
            }
            let own = hints.iter().filter(|(owner, _)| *owner == process).map(|(_, hint)| hint.clone());
            let said = own.chain([Hint::List(program.future())]).map(Step::Hint).collect::<Vec<_>>();
            program.steps.splice(0..0, said);
            scene.programs.push(program);
        }
        (scene, unknown)
    }

    /// All references that the programs make.
    pub fn references(&self) -> u64 {
        self.programs.iter().flat_map(Program::blocks).count() as u64
    }

    /// Different blocks that the programs reference.
    pub fn footprint(&self) -> u64 {
        let blocks: HashSet<Block> = self.programs.iter().flat_map(Program::blocks).collect();
        blocks.len() as u64
    }

    /// A folder of the process that comes next.
    pub(super) fn new_folder(&mut self) -> usize {
        self.layout.folder(self.programs.len())
    }

    /// Numbers processes of the same name.
    pub(super) fn tell_apart(&mut self) {
        let mut counts: HashMap<String, u32> = HashMap::new();
        for program in &mut self.programs {
            let count = counts.entry(program.name.clone()).or_default();
            *count += 1;
            if *count > 1 {
                program.name = format!("{}#{count}", program.name);
            }
        }
    }
}
