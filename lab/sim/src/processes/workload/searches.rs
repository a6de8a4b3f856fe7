//! Programs that read the same files again and again: cscope, dinero, glimpse.

use pantler_steward::lists::Chunk;
use pantler_steward::{FileId, PolicyName};
use pantler_trace::generate::Draws;

use super::super::program::Program;
use super::super::scene::Scene;
use crate::hint::Hint;

/// Reads one file several times, with MRU and a list for each time.
fn again_and_again(scene: &mut Scene, name: &str, blocks: u64, times: u32, compute_ns: u64) {
    let folder = scene.new_folder();
    let file = scene.layout.file(folder, blocks);
    let mut program = Program::new(name);
    program.hint(Hint::Policy { priority: 0, policy: PolicyName::Mru });
    for _ in 0..times {
        program.hint(Hint::List(Chunk::whole(file, blocks).into_iter().collect()));
        program.read_file(file, blocks, compute_ns);
    }
    scene.programs.push(program);
}

pub(super) fn cs1(scene: &mut Scene, _: u64) {
    again_and_again(scene, "cs1", 1141, 8, 2_600_000);
}

pub(super) fn din(scene: &mut Scene, _: u64) {
    again_and_again(scene, "din", 988, 9, 10_700_000);
}

/// Files of one folder with `blocks` blocks together, `least` to `most` each.
fn files(scene: &mut Scene, blocks: u64, least: u64, most: u64, random: &mut Draws) -> Vec<(FileId, u64)> {
    let folder = scene.new_folder();
    let (mut left, mut files) = (blocks, Vec::new());
    while left > 0 {
        let size = (least + random.below(most - least + 1)).min(left);
        left -= size;
        files.push((scene.layout.file(folder, size), size));
    }
    files
}

fn list(files: &[(FileId, u64)]) -> Hint {
    Hint::List(files.iter().filter_map(|&(file, blocks)| Chunk::whole(file, blocks)).collect())
}

/// Reads all source files in order, once for each text.
fn text_search(scene: &mut Scene, name: &str, blocks: u64, compute_ns: u64, seed: u64) {
    let sources = files(scene, blocks, 1, 4, &mut Draws::new(seed));
    let mut program = Program::new(name);
    program.hint(Hint::Policy { priority: 0, policy: PolicyName::Mru });
    for _ in 0..4 {
        program.hint(list(&sources));
        sources.iter().for_each(|&(file, blocks)| program.read_file(file, blocks, compute_ns));
    }
    scene.programs.push(program);
}

pub(super) fn cs2(scene: &mut Scene, seed: u64) {
    text_search(scene, "cs2", 2946, 6_000_000, seed);
}

pub(super) fn cs3(scene: &mut Scene, seed: u64) {
    text_search(scene, "cs3", 1728, 4_300_000, seed);
}

/// Partitions of the articles that glimpse reads as a whole.
const PARTITIONS: usize = 100;

pub(super) fn gli(scene: &mut Scene, seed: u64) {
    const COMPUTE_NS: u64 = 2_000_000;
    let mut random = Draws::new(seed);
    let index = files(scene, 256, 64, 64, &mut random);
    let articles = files(scene, 5120, 1, 2, &mut random);
    let mut program = Program::new("gli");
    for &(file, _) in &index {
        program.hint(Hint::Priority { file, priority: 1 });
    }
    for priority in [1, 0] {
        program.hint(Hint::Policy { priority, policy: PolicyName::Mru });
    }
    for _ in 0..5 {
        // The index says which partitions are worth reading: 36 % of them.
        let wanted: Vec<bool> = (0..PARTITIONS).map(|_| random.below(100) < 36).collect();
        let size = articles.len().div_ceil(PARTITIONS);
        let partitions = articles.chunks(size).zip(&wanted).filter(|(_, wanted)| **wanted);
        let reads: Vec<(FileId, u64)> = partitions.flat_map(|(articles, _)| articles).copied().collect();
        program.hint(list(&index));
        index.iter().for_each(|&(file, blocks)| program.read_file(file, blocks, COMPUTE_NS));
        program.hint(list(&reads));
        reads.iter().for_each(|&(file, blocks)| program.read_file(file, blocks, COMPUTE_NS));
    }
    scene.programs.push(program);
}
