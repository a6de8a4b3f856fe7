//! Programs that say nothing, to be run beside others; and the smallest example.

use pantler_steward::Block;
use pantler_steward::lists::Chunk;
use pantler_trace::generate::Draws;

use super::super::program::Program;
use super::super::scene::Scene;
use crate::hint::Hint;

/// The first N blocks in order, five times, then the next N, and so on (ReadN).
fn read_n(scene: &mut Scene, name: &str, blocks: u64) {
    const COMPUTE_NS: u64 = 1_000_000;
    const GROUPS: u64 = 5;
    const ROUNDS: usize = 5;
    let folder = scene.new_folder();
    let file = scene.layout.file(folder, blocks * GROUPS);
    let mut program = Program::new(name);
    for group in 0..GROUPS {
        for block in std::iter::repeat_n(0..blocks, ROUNDS).flatten() {
            program.read(Block::new(file, group * blocks + block), COMPUTE_NS);
        }
    }
    scene.programs.push(program);
}

pub(super) fn read300(scene: &mut Scene, _: u64) {
    read_n(scene, "read300", 300);
}

pub(super) fn read490(scene: &mut Scene, _: u64) {
    read_n(scene, "read490", 490);
}

/// A tree of 70 files is copied, looked through twice, and compiled: each file with the headers
/// before it.
pub(super) fn andrew(scene: &mut Scene, seed: u64) {
    const HEADERS: usize = 20;
    let mut random = Draws::new(seed);
    let folder = scene.new_folder();
    let files: Vec<_> = (0..70)
        .map(|_| 1 + random.below(3))
        .map(|blocks| (scene.layout.file(folder, blocks), blocks))
        .collect();
    let tools: Vec<_> = (0..4).map(|_| (scene.layout.file(folder, 40), 40)).collect();
    let mut program = Program::new("andrew");
    for _ in 0..3 {
        files.iter().for_each(|&(file, blocks)| program.read_file(file, blocks, 15_000_000));
    }
    for &(file, blocks) in &files[HEADERS..] {
        tools.iter().for_each(|&(tool, blocks)| program.read_file(tool, blocks, 500_000));
        for _ in 0..4 {
            let (header, blocks) = files[random.below(HEADERS as u64) as usize];
            program.read_file(header, blocks, 5_000_000);
        }
        program.read_file(file, blocks, 200_000_000);
    }
    scene.programs.push(program);
}

pub(super) fn scan(scene: &mut Scene, _: u64) {
    const BLOCKS: u64 = 10_000;
    let folder = scene.new_folder();
    let file = scene.layout.file(folder, BLOCKS);
    let mut program = Program::new("scan");
    program.hint(Hint::List(Chunk::whole(file, BLOCKS).into_iter().collect()));
    program.read_file(file, BLOCKS, 2_000_000);
    scene.programs.push(program);
}

/// A millisecond for each reference, so that with the disk `figure-1` a unit of the paper is a
/// millisecond.
pub(super) fn figure_1(scene: &mut Scene, _: u64) {
    let process = scene.programs.len();
    let folder = scene.layout.folder(process);
    let blocks: Vec<Block> = (0..3).map(|_| Block::new(scene.layout.file(folder, 1), 0)).collect();
    let mut program = Program::new("figure-1");
    let reads = [0, 1, 2, 0].map(|at| blocks[at]);
    let chunk = |block: Block| Chunk { file: block.file, first: 0, last: 0 };
    program.hint(Hint::List(reads.map(chunk).to_vec()));
    reads.iter().for_each(|&block| program.read(block, 1_000_000));
    scene.programs.push(program);
    scene.cached.extend([(process, blocks[0]), (process, blocks[1])]);
}
